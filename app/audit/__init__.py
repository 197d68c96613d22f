"""The audit log: what people and keys do, written in the transaction of each act (docs/audit.md).

Changes of what people set up are noticed where the ORM writes them (`audited`), so that no command and no endpoint can
forget them; every other act is recorded where it happens, by `record`.
"""
