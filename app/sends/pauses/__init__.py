"""Pausing an account, a list or a domain, and going on (docs/waiting.md#pauses).

Pausing writes one row, however much waits: a worker that has claimed entries which a pause concerns puts them aside
(app/sends/delivery/postponed.py). Going on writes that row, too; then the workers let go of what was put aside, slice
by slice, and the last one deletes the row.
"""
