"""Why a message did not arrive, in words, and what mends it (docs/cli.md#where-is-my-message).

`finding` is one sentence with its commands, `waits` is what makes messages wait and `obstacles` what keeps them from an
address, `recipient` is what has become of one message, `again` whether it can be sent again, and `search` finds the
messages to an address.
"""
