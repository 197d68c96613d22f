"""The door for applications that speak SMTP alone: a mail that a client with a key submits becomes a send, by the rules
of `POST /v1/transactional-sends` (docs/smtp-submission.md).

`listener` has the sessions, `clients` who may submit, `mail` reads the mail, and `submit` accepts it.
"""
