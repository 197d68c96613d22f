"""Contacts: the people in a list, and the suppressed addresses (unsubscribed or blocked).

`values` checks single values, `state` computes a contact's state after a write, `rules` rejects what is not allowed,
`subscriptions` keeps the account's unsubscribers list and the contacts' flags consistent, `events` records webhook
events. The use cases `create`, `update`, `delete`, `upsert`, `get_or_create` and `suppress` combine these, each in one
transaction and with a fixed number of statements. `read` returns stored contacts, also those of a page of lists.
"""
