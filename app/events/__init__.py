"""Webhook events (docs/webhooks.md).

An event is born in the transaction of the change it reports: `outbox.record` writes one row per webhook of the
account, ready to be joined into a body. `batches` takes up to 1,000 of them for one webhook at a time, `dispatch`
signs and posts them through `http_client`, and `batches` then removes them or sets the next try. `addresses` says
where a webhook may lead. `webhooks` holds what the command line and the seed file do to webhooks.
"""
