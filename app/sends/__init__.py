"""Sends: from a request to messages that are delivered, once each (docs/architecture.md#a-send).

The rooms follow the life of a send. `accept` is the use case behind the endpoint: it writes the send and one row per
recipient. `delivery` is the worker's side: it claims rows that are due and sends their messages. `outcomes` is the
result of each delivery attempt and what follows from it.
"""
