"""Recipients of sends: what one row says, its states, the steps of its timeline, and how clients read them."""
