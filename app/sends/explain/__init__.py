"""Why a message did not arrive, in words, and what mends it (docs/cli.md#where-is-my-message).

`finding` is one sentence with its commands, `obstacles` is what keeps messages from an address now, `recipient` is what
has become of one message, `search` finds the messages to an address.
"""
