"""Delivery: the work of a sender worker, one time slice after the other.

`drain` runs a time slice: `claim` takes due rows evenly from all accounts, `load` reads what their messages need in a
fixed number of selects and decides who is skipped, `message` composes and signs each message, and the `dispatcher`
hands them to the threads of the `sender_worker`, each with its own of the `connections`; `router` chooses the
transport. `postponed` puts off what a pause or the back-off of a domain concerns, `requirements` what its account does
not have any more, and `refusing_relays` mail over relays that refuse everything of its account. `limits` are those of a
batch, `sizes` those of a message; `recipient` is what is known of one besides its row.
"""
