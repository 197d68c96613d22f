"""Transports: one message in, one `DeliveryResult` out, over SMTP, an SMS gateway or into a folder.

A URL selects the transport (`email.email_transport`, `sms.sms_transport`). A `Transport` is a cheap description that
threads may share; each thread takes its own `Connection` from it, sends many messages over it and closes it. A
connection is opened by its first message, reconnects when the other side has closed it, and returns a result for every
message: a network failure is a deferral, never an exception, because only the caller knows when to stop retrying.

Nothing here knows the database, HTTP or the queue.
"""
