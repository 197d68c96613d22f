"""What a fault may cause (docs/reliability.md#promises)."""

from __future__ import annotations

from dataclasses import dataclass, replace

LONG = 90.0
"""Seconds within which everything goes on, however slow the machine is."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The effects that a fault may have. Times are seconds after its end."""

    doubles_in_flight: bool = False
    """Connections of senders to the relay are killed: the message in flight on each may be sent twice."""
    stops_senders: bool = False
    """Senders do not run for longer than their lease: what was in flight on each connection may be sent twice."""
    doubled: int = 0
    """How many more messages may be sent twice than were in flight."""
    cuts_requests: bool = False
    """Processes of the API die, and their connections with them."""
    loses_hosts: bool = False
    """Hosts of the API are lost: while the leases of its requests last, nobody knows whether they have ended."""
    answering: float = 14.0
    """The longest time that a client waits for any answer; the service waits ten seconds for a database."""
    accepting: float = 15.0
    """The longest time until a request is accepted."""
    sending: float = 15.0
    """The longest time until the relay takes a mail."""
    webhook: float = 10.0
    """The longest time without a delivery, while events wait."""

    def whatever_the_times(self) -> Limits:
        """The same effects on a machine that may be slow."""
        return replace(self, answering=LONG, accepting=LONG, sending=LONG, webhook=LONG)
