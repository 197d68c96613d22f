"""Contacts: the people in a list, and the addresses that want no messages.

`values` checks single values, `state` says what a contact becomes, `rules` and `identifiers` refuse what may not be,
`subscriptions` keeps the account's unsubscribers list and the contacts' flags in step, `announce` tells webhooks.
The use cases `create`, `update`, `delete` and `suppress` put these together, each in one transaction and with a fixed
number of statements. `read` and `show` answer what is stored, `embed` for a page of lists.
"""
