"""Suppressions: the unsubscribed and the blocked addresses of an account, which are two tables.

`filters` says what can be asked for, `entries` reads both tables in one order, and `shown` is what the API shows of
them. `add` adds many entries, of which `drafts` are those of a request; `remove` takes off what a query names; `acts`
records what people do in the audit log. `matching` finds and unblocks many blocked addresses. What bounces, reports and
recipients do is in `app.contacts`.
"""
