"""Bulk actions: what somebody asks to be done to all messages or blocked addresses that match a query
(docs/console.md#bulk-actions).

`query` reads the query, `ask` asks for an action after a preview, and cancels one, `run` runs what is due in slices,
and `read` lists them.
"""
