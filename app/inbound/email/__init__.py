"""Inbound email: DSNs, complaints (ARF), unsubscribe requests, and anything else.

    raw message -> `receive` parses its reports and finds the recipient -> `record` writes them

Parsing is pure. Only a signed address names a recipient: a report that anybody could have written changes nothing.
"""
