"""Steps of a recipient's timeline, as they are stored and shown (docs/delivery.md). Pure."""

from __future__ import annotations

import enum


class TimelineStep(enum.StrEnum):
    """Name of one step; all modules that write steps use these names."""

    SENT = "sent"
    DEFERRED = "deferred"
    UNCERTAIN = "uncertain"
    BOUNCED = "bounced"
    FAILED = "failed"

    RECOVERED = "recovered"
    """Queued again because its worker died."""
    REQUEUED = "requeued"
    """Queued again by an operator, or because an uncertain message shows no sign of arrival."""

    HELD = "held"
    """Restored from a backup: it is not sent until an operator releases it."""

    PAUSED = "paused"
    """Put aside, because its account, its list or the domain of its address is paused."""
    RESUMED = "resumed"
    """Queued again, because the pause has ended."""

    ACKNOWLEDGED = "acknowledged"
    """The receipt of a text message reported its delivery."""
    RECEIVED = "received"
    """The recipient replied to a text message."""
    REPORTED_ARRIVED = "reported arrived"
    REPORTED_DELAYED = "reported delayed"
    COMPLAINED = "complained"
    UNSUBSCRIBED = "unsubscribed"
    RESUBSCRIBED = "resubscribed"
    """The recipient has taken back the unsubscribing, or has chosen a list on the preferences page."""

    FORGOTTEN = "forgotten"
    """The person was forgotten: address, values, and the words and countries of this timeline are gone."""

    OPENED = "opened"
    CLICKED = "clicked"
    OPENED_BY_MACHINE = "opened by machine"
    CLICKED_BY_MACHINE = "clicked by machine"


VISIT_STEPS = (
    TimelineStep.OPENED,
    TimelineStep.CLICKED,
    TimelineStep.OPENED_BY_MACHINE,
    TimelineStep.CLICKED_BY_MACHINE,
)
"""Steps that open and click tracking writes."""
SIGNS_OF_ARRIVAL = (
    *VISIT_STEPS,
    TimelineStep.REPORTED_ARRIVED,
    TimelineStep.REPORTED_DELAYED,
    TimelineStep.COMPLAINED,
)
"""Steps that only a message that arrived somewhere can have."""
