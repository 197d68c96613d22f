"""What comes back from a recipient by a link: tokens that name the recipient, and what following them does."""
