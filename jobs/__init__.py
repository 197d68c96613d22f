"""The doors for workers: what a wake-up calls, the worker process, and the scheduler process."""
