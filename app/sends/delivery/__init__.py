"""Delivery: the work of a sender worker, one time slice after the other.

`drain` runs a time slice: `claim` takes due rows evenly from all accounts, `load` reads what their messages need in a
fixed number of selects, `message` composes and signs each message, and the `dispatcher` hands them to the threads of
the `sender_worker`, each with its own of the `connections`; `router` chooses the transport. Who gets nothing is decided
by `app.sends.skipping`; `postponed` puts off what must wait for any of the reasons in its table. `limits` are those of
a batch, `sizes` those of a message; `recipient` is what is known of one besides its row.
"""
