"""The page on which recipients choose among the lists of an account: what it shows, and what a choice does."""
