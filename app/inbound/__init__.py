"""What comes back from carriers: reports and complaints about mail, receipts of text messages and replies to them.

Each kind has one use case, whatever door it comes through: the command line, a gateway's callback or connection, or
the mail listener. Each finds the recipient that it is about by something that nobody can make up, writes state,
counters, event and timeline in one transaction, and changes nothing when it comes again.
"""
