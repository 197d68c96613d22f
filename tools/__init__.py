"""What the Makefile needs of its own. It imports the standard library only: it runs before anything is installed."""
