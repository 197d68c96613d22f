"""The ways out: one message in, one `DeliveryResult` out, over SMTP, an SMS gateway or into a folder.

A URL chooses the transport (`email.email_transport`, `sms.sms_transport`). A `Transport` is a cheap description that
may be shared by threads; each thread takes a `Connection` of its own from it, sends many messages over it and closes
it. A connection opens at its first message, renews itself when the other side has closed it, and answers every message
with a value: trouble on the way is a deferral, never an exception, because only the caller knows when to give up.

Nothing here knows the database, HTTP or the queue.
"""
