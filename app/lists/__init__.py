"""Lists: what they are made of, how they are found, shown, created and changed."""
