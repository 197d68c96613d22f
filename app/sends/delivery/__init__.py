"""Delivery: the work of a sender worker, one time slice after the other.

`drain` runs a time slice: `claim` takes due rows evenly from all accounts, `load` reads what their messages need in a
fixed number of selects, `suppression` decides which recipients are skipped, `build` builds each message (`compose`
renders, `sign` signs) and the `dispatcher` hands them to the threads of the `sender_worker`, each with its own
connection slot. `rate_limit` enforces the rate of SMS senders, `domain_backoff` postpones mail to domains that have
just deferred mail, and `refusing_relays` mail over relays that refuse everything of its account. `pending_outcomes`
collects what a drain has still to write.
"""
