"""Why a message did not arrive, in words, and what to do about it (docs/troubleshoot.md#where-is-my-message).

`waits` is what makes messages wait and `obstacles` what keeps them from an address, each a finding with its commands;
`recipient` is what has become of one message, and `again` whether it can be sent again.
"""
