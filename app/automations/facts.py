"""What the rules of automations judge by: where a run is, and what is known of its contact and its messages. Pure.

Whoever walks runs loads these for many of them in a fixed number of selects.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo

from app.automations.definition import Channel, Conditions, Did
from app.content.conditions import holds
from app.content.values import MergedValues
from app.content.wildcards import Wildcard, tokenize

# Whether conditions hold for a contact, in the language and with the values of personalisation
# (docs/personalisation.md#conditionals), and whether a link that was clicked is the one that is asked for. Pure.


def any_holds(conditions: Conditions, values: Mapping[str, object], zone: tzinfo) -> bool:
    """Whether one of the conditions holds; times without an offset are in `zone`."""
    return any(
        holds(condition, text_of(values, condition.key), condition.operand, zone) for condition in conditions.any_of
    )


def text_of(values: Mapping[str, object], key: str) -> str:
    """The value as a message would show it; empty where there is none."""
    value = MergedValues({}, values).get(key)
    return value.text if value else ""


def is_link(written: str, url: str) -> bool:
    """Whether the URL is this link as the message has it for somebody: a wildcard stands for any text, and so does all
    that lies between the markers of a conditional (docs/automations.md#links)."""
    texts, is_plain = [""], True
    for token in tokenize(written):
        if isinstance(token, str):
            texts[-1] += token
        else:
            texts.append("")
            is_plain = is_plain and isinstance(token, Wildcard)
    if len(texts) == 1:
        return url == written
    first, *between, last = texts
    position, end = len(first), len(url) - len(last)
    if position > end or not (url.startswith(first) and url.endswith(last)):
        return False
    for text in between if is_plain else ():
        start = url.find(text, position, end)
        if start < 0:
            return False
        position = start + len(text)
    return True


class StepResult(enum.StrEnum):
    """What came of a step that a run has passed."""

    DONE = "done"
    SKIPPED = "skipped"
    THEN = "then"
    ELSE = "else"


class SkipReason(enum.StrEnum):
    """Why a step was skipped. A step that sends has the reason for which its message was refused instead, such as
    `unsubscribed`."""

    LATE = "late"
    """The wait ended a day ago or more when the run was looked at again."""
    DATE_PAST = "date past"
    NO_DATE = "no date"
    PAUSED = "paused"
    """The step fell due while the automation was paused, and whoever resumed it chose to skip such steps."""
    NO_MESSAGE = "no message"
    """A branch asks about a step that has sent nothing."""


class EndReason(enum.StrEnum):
    """Why a run ended by the rules."""

    COMPLETED = "completed"
    STOPPED = "stopped"
    """By a step."""
    LEFT = "left"
    """The condition of `leave_when` held."""
    DATE_PAST = "date past"
    NO_DATE = "no date"
    CONTACT_DELETED = "contact deleted"
    CONTACT_INACTIVE = "contact inactive"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run is: the columns of its row."""

    step: str
    """The name of the step that is next."""
    trigger_time: datetime
    step_time: datetime | None
    """When the run came to that step, if an earlier walk left it waiting there; else None."""
    due_time: datetime
    """Resuming may have moved it; what delays an attempt must not."""
    skips_next: bool = False
    """Whether the next message, change or call is skipped: `SkipReason.PAUSED`."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A step that the run has passed before."""

    time: datetime
    result: StepResult


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a message: when each outcome was first known, None where it has not happened."""

    delivered: datetime | None = None
    opened: datetime | None = None
    bounced: datetime | None = None
    replied: datetime | None = None
    clicked: Mapping[str, datetime] = field(default_factory=dict)
    """Time of the first click, by the URL of the link."""

    def first(self, did: Did, link: str | None) -> datetime | None:
        """When that first happened; a click on any link where none is named."""
        if did == "clicked":
            times = (time for url, time in self.clicked.items() if link is None or is_link(link, url))
            return min(times, default=None)
        happened: datetime | None = getattr(self, did)
        return happened


@dataclass(frozen=True, slots=True)
class ContactFacts:
    """A contact as it is now."""

    values: Mapping[str, object]
    """The values of the contact as personalisation sees them (`ContactValues`)."""
    is_active: bool = True
    refused: Mapping[Channel, str] = field(default_factory=dict)
    """Why the contact is sent nothing by a channel, such as `unsubscribed`; a channel that works is absent."""


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a walk judges by."""

    moment: datetime
    zone: tzinfo
    """The time zone of the account."""
    contact: ContactFacts | None
    """None when it was deleted or is in the list no more."""
    passed: Mapping[str, Passage] = field(default_factory=dict)
    """By step name."""
    fates: Mapping[str, Fate] = field(default_factory=dict)
    """By the name of the step that sent the message; one that is absent had no outcome yet."""
