"""Accepting a send: one transaction with a fixed number of statements, for 1 recipient as for 100.

`accept` is the use case. It looks up what the request refers to (`references`), applies the rules (those of `draft`
without the database; `content`, `senders` and `groups` with it), and writes the send with its recipients and their
entries in the send queue (`write`).
"""
