"""Sends: how a request becomes messages that leave, once each (design: the way of one send).

`rules` and `accept` take a request and write it down: a send and one row per recipient, which is at the same time its
place in the queue. `deliver` drains the queue: `claim` takes rows in turns of accounts, `load` reads what they need,
`skip` decides who is not sent to, `compose` renders, `signing` signs, the threads of a `station` transmit (`flight`
keeps track of them), `journal` notes each answer at once, `outcome` says what follows from it, and `settle` writes it
all down, with `blocking` for the addresses and `destinations` for domains that put us off. `retry` takes over what a
dead worker held, and `uncertain` looks into what may have arrived; `requeue` is an operator's second try.
"""
