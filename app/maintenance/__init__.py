"""Looking after an installation: sweeps for work that nobody announced, its health, and figures that tell its state."""
