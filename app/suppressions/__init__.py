"""Suppressions: the unsubscribed and the blocked addresses of an account, which are two tables.

`filters` says what can be asked for, and `entries` reads both tables in one order. `add` adds many entries, `acts` is
what people add and remove by hand, and `matching` finds and unblocks many blocked addresses. What bounces, reports and
recipients do is in `app.contacts`.
"""
