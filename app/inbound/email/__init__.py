"""Emails that come back: delivery status notifications, complaints, wishes to unsubscribe, and all the rest.

    raw message -> `read` says what it reports -> `identify` says about which recipient -> `record` writes it

`read` and what it uses are pure. Whose message it was is told by a signed address alone: a report that anybody could
have written changes nothing.
"""
