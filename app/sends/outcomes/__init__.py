"""Outcomes: what follows from a delivery attempt.

`attempt_result` is the fact, with the journal to which it is appended the moment it is known; `transitions` decides
what follows from it (pure), and `write` writes, logs and counts many at once, with `bounce_blocking` for bounces and
their addresses, also those that are reported later, `domain_deferrals` for domains that defer, and `relay_refusals` for
relays that refuse everything of an account. `refusals` tells what a refusal is about (pure), `arrival` is evidence that
a message has arrived after all. `recovery` takes over the rows of a dead worker and resolves messages that may have
arrived, `requeue` is an operator's retry.
"""
