"""Retention: what is purged when, account by account and send by send (docs/retention.md).

`periods` tells how long an account keeps what, `slices` goes through all accounts and purges the next sends of each in
one transaction.
"""
