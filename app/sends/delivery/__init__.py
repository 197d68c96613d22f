"""Delivery: what a sender worker does, slice by slice.

`drain` runs a slice: `claim` takes due rows in turns of accounts, `load` reads what their messages need in a fixed
number of selects, `suppression` decides who is not sent to, `build` makes each message (`compose` renders, `sign`
signs) and the `dispatcher` hands them to the threads of the `sender_worker`, each with a connection slot of its own.
`rate_limit` holds text messages to their sender's rate, `domain_backoff` leaves domains alone that have just deferred
mail.
"""
