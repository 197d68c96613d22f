"""Accepting a send: one transaction with a fixed number of statements, for 1 recipient as for 100.

`accept` is the use case. It looks up what the request refers to (`references`), applies the rules (`rules` without the
database, `check` with what they need of it, `content`, `senders`, `opt_out`), and writes the send, its group (`groups`)
and its `recipients`, which are the queue.
"""
