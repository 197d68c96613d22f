"""Inbound traffic: DSNs and complaints about mail, receipts of text messages and replies to them.

Each kind has one use case, however it arrives: by the command line, a gateway's callback or connection, or the mail
listener. Each finds its recipient by something that cannot be forged, writes state, counters, event and timeline in one
transaction, and changes nothing when it is repeated.
"""
