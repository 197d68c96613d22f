"""Recipients of sends: their rows, their states, the steps of their timelines, and how clients read them."""
