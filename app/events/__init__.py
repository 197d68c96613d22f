"""Webhook events (docs/webhooks.md).

An event is written in the transaction of the change it reports: `outbox.record` inserts one row per webhook of the
account, as JSON that only needs to be joined into a body. `batches` claims up to 1,000 of them for one webhook at a
time, `dispatch` signs and posts them, and `batches` then moves the webhook's position or schedules the next attempt.
`rotation` empties the older table of events once all webhooks have passed it. `guarded_connection` checks which hosts a
webhook may have. `webhooks` has the operations of the command line and the seed file.
"""
