"""Outcomes: what follows from a delivery attempt.

`attempt_result` is the fact, `journal` appends it to a file the moment it is known, `transitions` decides what follows
from it (pure), `write` writes many at once, with `bounces` and `bounce_blocking` for bounced ones and their addresses,
`domain_deferrals` for domains that defer, and `relay_refusals` for relays that refuse everything of an account, which
`shown_refusals` has for people. `bisecting` writes results of which one cannot be written,
`observability` logs and counts transitions. `late_bounce` writes a bounce that a DSN or a receipt reports later,
`recovery` takes over the rows of a dead worker, `uncertain` resolves messages that may have arrived, `requeue` is an
operator's retry.
"""
