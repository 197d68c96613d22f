"""Counts for Prometheus of what a sender does with messages (docs/monitoring/metrics.md#all-metrics)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from app.clock import now
from app.infrastructure.metrics import (
    DEFERRALS,
    HANDOVER,
    TRANSPORT_CONNECTIONS,
    TRANSPORT_REPLIES,
    account_class,
)
from app.network.connections import attempts
from app.recipients.states import WaitReason
from app.sends.delivery.recipient import ClaimedRecipient
from app.transports.base import DeliveryResult, Outcome

NETWORK_STATUS_PREFIX = "4.4."
"""Begins the status codes of deferrals by the network (RFC 3463)."""


class Transmission:
    """What one transmission opens, from its beginning to its answer, in one thread."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self._opened, self._failed = attempts.opened, attempts.failed

    def count(self, recipient: ClaimedRecipient, transport: str, result: DeliveryResult) -> None:
        """Counts the answer of a relay or gateway, and the connections that it took; a captured message has neither."""
        type_, send = recipient.type, recipient.compiled.send
        if result.outcome is Outcome.ACCEPTED:
            seconds = (now() - begin_time(recipient, send.begin_time)).total_seconds()
            HANDOVER.labels(account_class(is_test=send.is_test), type_).observe(max(0.0, seconds))
        if send.is_test:
            return
        TRANSPORT_REPLIES.labels(type_, transport, reply_class(result)).inc()
        for name, number in (("opened", attempts.opened - self._opened), ("failed", attempts.failed - self._failed)):
            if number:
                TRANSPORT_CONNECTIONS.labels(type_, transport, name).inc(number)


def begin_time(claimed: ClaimedRecipient, second: datetime) -> datetime:
    """When the message was first due, of which the send has the second: until it is put off, the entry has it."""
    return claimed.due_time if claimed.due_time.replace(microsecond=0) == second else second


def reply_class(result: DeliveryResult) -> str:
    """The class of a reply: `accepted`, `temporary`, `permanent`, or `none` without one."""
    match result.outcome:
        case Outcome.ACCEPTED:
            return "accepted"
        case Outcome.REFUSED:
            return "permanent"
        case Outcome.UNCERTAIN:
            return "none"
    is_reply = result.reply[:3].isdigit()
    is_lost = (result.status or "").startswith(NETWORK_STATUS_PREFIX) or result.reply.startswith("no ")
    return "none" if is_lost and not is_reply else "temporary"


def count_deferred(recipients: Iterable[ClaimedRecipient], reason: WaitReason) -> None:
    """Counts recipients that are deferred without an attempt."""
    for type_, number in Counter(recipient.type for recipient in recipients).items():
        DEFERRALS.labels(type_, reason.value).inc(number)
