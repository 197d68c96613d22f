"""Maintenance of an installation: sweeps for work without a wake-up, clean-up, health checks and status figures."""
