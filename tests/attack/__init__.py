"""The attack suite: `make attack` starts the real service and attacks it from outside (docs/security-tests.md#attacks).

A family is a function that takes the stage and yields a `Case` for each attack: what was tried, and what got through.
"""
