"""Outcomes: what follows from a delivery attempt.

`attempt_result` is the fact, `journal` notes it the moment it is known, `transitions` says what follows from it (pure),
`write` writes many at once, with `bounce_blocking` for the addresses. `pending` holds what a drain has still to write.
`recovery` takes over what a dead worker held, `uncertain` looks into messages that may have arrived, `requeue` is an
operator's second try.
"""
