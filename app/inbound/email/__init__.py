"""Inbound email: DSNs, complaints (ARF), unsubscribe requests, and anything else.

    raw message -> `read` parses its reports -> `identify` finds the recipient -> `record` writes them

`read` and what it uses are pure. Only a signed address names a recipient: a report that anybody could have written
changes nothing.
"""
