"""How the pages write times, durations and numbers. Pure."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from markupsafe import Markup, escape

from app.audit.values import host_of
from app.clock import timestamp
from app.maintenance.findings import lasting

MOMENT = re.compile(r"\b([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)\b")
STATE_CLASSES = {
    "queued": "waits",
    "sending": "waits",
    "uncertain": "warns",
    "held": "warns",
    "paused": "warns",
    "sent": "good",
    "delivered": "good",
    "bounced": "bad",
    "failed": "bad",
}
"""State of a recipient -> the class of its word."""


def time(moment: datetime | str | None) -> Markup:
    """The time in UTC, which a script writes in the zone of the reader; the exact time shows on hover."""
    if moment is None:
        return Markup('<span class="none">–</span>')
    exact = moment if isinstance(moment, str) else timestamp(moment)
    shown = exact.replace("T", " ").removesuffix("Z")
    return Markup('<time datetime="{}" title="{} UTC">{} UTC</time>').format(exact, shown, shown[:16])


def sentence(text: str) -> Markup:
    """A text, with the times in it as `time` writes them."""
    parts = MOMENT.split(text)
    return Markup().join(time(part) if index % 2 else escape(part) for index, part in enumerate(parts))


def number(value: float) -> str:
    """With thousands apart."""
    return f"{value:,.0f}".replace(",", "\u202f")


def state_class(state: str) -> str:
    """The class of the word for a recipient's state."""
    return STATE_CLASSES.get(state, "waits")


FUNCTIONS: dict[str, Any] = {
    "time": time,
    "sentence": sentence,
    "number": number,
    "duration": lasting,
    "state_class": state_class,
    "host_of": host_of,
}
"""What templates call."""
