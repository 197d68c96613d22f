"""Entry points of the background processes: the jobs of each queue, the worker, the scheduler and the mail listener."""

import gc

# `python -m jobs.NAME` imports this package first. Nothing of what a process loads becomes garbage, and looking through
# it again and again takes a third of its start. `app.infrastructure.memory.tune` turns the collector on.
gc.disable()
