"""Relay hooks: URLs at which relays report by HTTP what became of the mails that they accepted.

    request -> the hook of a relay checks that it is genuine and reads its events -> `take` records them

Each relay has a module; installed packages add others (docs/relay-hooks.md).
"""
