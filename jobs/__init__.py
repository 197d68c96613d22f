"""Entry points of the background processes: the jobs of each queue, the worker, the scheduler and the mail listener."""
