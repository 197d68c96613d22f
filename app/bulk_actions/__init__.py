"""Bulk actions: what somebody asks to be done to all messages or blocked addresses that match a query
(docs/console-messages.md#bulk-actions).

`query` reads the query, `preview` says what an action would do, `ask` asks for it and cancels it, `run` runs what is
due in slices, and `read` lists them.
"""
