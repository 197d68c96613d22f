"""Accepting a send: one transaction with a fixed number of statements, for 1 recipient as for 100.

`accept` is the use case. It looks up what the request refers to (`references`), applies the rules (`rules` without the
database; `content`, `senders`, `groups` and `opt_out` over one `check`), and writes the send (`write`) with its
`recipients`, which are the queue.
"""
