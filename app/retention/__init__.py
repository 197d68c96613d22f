"""Retention: what is purged when, account by account and send by send (docs/operations.md#retention).

`periods` tells how long an account keeps what, `slices` purges the next sends of an account in one transaction, `erase`
is what purging does to them, and `purge` goes through all accounts.
"""
