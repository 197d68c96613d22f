"""What an automation says: its entry rules and its tree of steps, as immutable data (docs/automations.md). Pure.

A step's name is its key: unique in the automation, and the same through its versions. So the name of the next step is
all that a run has to remember of its place in the tree (`Definition.step`, `Definition.after`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import time, timedelta
from functools import cached_property
from typing import Literal, TypeAlias

from app.clock import now
from app.content.conditions import Condition
from app.db.bulk import insert_rows
from app.db.database import Transaction
from app.db.models import TriggerFiring

# Triggers of automations, recorded in the transaction of the change (docs/contacts.md#events-and-triggers).

AutomationKind = Literal["standard", "advanced"]
Action = Literal["created", "updated"]

TRIGGERS: dict[Action, dict[AutomationKind, str]] = {
    "created": {
        "standard": "When a Contact is created from the REST API",
        "advanced": "REST API Contact Created",
    },
    "updated": {
        "standard": "When a Contact is updated from the REST API",
        "advanced": "REST API Contact Updated",
    },
}


def trigger_names(action: str) -> dict[AutomationKind, str]:
    """The trigger name of an action, as it is stored, for each kind of automation."""
    return TRIGGERS["created" if action == "created" else "updated"]


def fire_triggers(
    transaction: Transaction, account_id: int, action: Action, contacts: Sequence[tuple[int, int]]
) -> None:
    """Records that the triggers of an action fired, once per contact.

    `contacts` are pairs of list id and contact id. One row serves both kinds of automation: each sees it under its own
    trigger's name.
    """
    rows = [{"list_id": list_id, "contact_id": contact_id} for list_id, contact_id in contacts]
    insert_rows(transaction, TriggerFiring, rows, {"account_id": account_id, "action": action, "time": now()})


Unit = Literal["minutes", "hours", "days", "weeks"]
Weekday = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
WEEKDAYS: tuple[Weekday, ...] = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
"""In the order of `datetime.weekday()`."""
Past = Literal["continue", "stop", "next year"]
Did = Literal["delivered", "opened", "clicked", "bounced", "replied"]
Channel = Literal["email", "mobile"]
MessageType = Literal["email", "sms"]
Again = Literal["never", "when ended", "always"]


@dataclass(frozen=True, slots=True)
class Duration:
    """A span of elapsed time, as written: a day has 24 hours."""

    amount: int
    unit: Unit

    @property
    def delta(self) -> timedelta:
        return timedelta(**{self.unit: self.amount})


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions on a contact's values, of which one must hold: as written (joined by `:OR:`), and as parsed."""

    written: str
    any_of: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Send:
    """Sends a stored message to the contact."""

    name: str
    message: str
    """The name or id of the message as the author wrote it."""
    message_id: int = 0
    """The id of the message in the account when the version was stored; 0 before."""
    message_type: MessageType = "email"
    """The type of the stored message; meaningless before the message was found."""


@dataclass(frozen=True, slots=True)
class UntilTime:
    """The next time that a clock in the account's zone shows `at`, on one of the weekdays (all of them by default)."""

    at: time
    on: tuple[Weekday, ...] = WEEKDAYS


@dataclass(frozen=True, slots=True)
class UntilDate:
    """The day in a date field of the contact, shifted by `offset` days, when a clock in the account's zone shows
    `at`."""

    field: str
    """The key of the list field."""
    offset: int = 0
    """In days, negative for days before."""
    at: time = time(0, 0)
    past: Past = "continue"
    """What the run does where that moment is past by a day or more, or the contact has no date."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Waits for a duration or until a moment."""

    name: str
    until: Duration | UntilTime | UntilDate


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the message of an earlier step, by the end of a time counted from when that step wrote it."""

    step: str
    did: Did
    within: Duration
    link: str | None = None
    """The URL that was clicked; any where it is None."""


@dataclass(frozen=True, slots=True)
class Branch:
    """Goes one of two ways; both lead to the step behind the branch unless they stop."""

    name: str
    on: Conditions | Outcome
    then: tuple[Step, ...]
    otherwise: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class SetFields:
    """Writes list fields of the contact; None removes a value."""

    name: str
    values: Mapping[str, str | int | float | None] = field(hash=False)
    """Value by field key."""


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """Unsubscribes the contact from the list."""

    name: str
    channels: tuple[Channel, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """Reports to one registered webhook of the account that the run came here."""

    name: str
    url: str
    webhook_id: int = 0
    """The id of the webhook in the account when the version was stored; 0 before."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Ends the run."""

    name: str


Step: TypeAlias = Send | Wait | Branch | SetFields | Unsubscribe | Call | Stop

VERBS: Mapping[type[Step], str] = {
    Send: "send",
    Wait: "wait",
    Branch: "branch",
    SetFields: "set",
    Unsubscribe: "unsubscribe",
    Call: "call",
    Stop: "stop",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """Who enters, and how often.

    `least_time` is only with `always`: the same contact enters again when that time has passed since its last entry.
    """

    again: Again
    least_time: Duration | None = None
    conditions: Conditions | None = None
    """Judged when the trigger fires."""


@dataclass(frozen=True)
class Definition:
    """One automation as its author wrote it."""

    name: str
    kind: AutomationKind
    list: str
    """The name or id of the list as the author wrote it; rows have the id."""
    action: Action
    """What the trigger reacts to: contacts `created` or `updated`."""
    entry: Entry
    steps: tuple[Step, ...]
    leave_when: Conditions | None = None
    """Judged before each step."""

    @cached_property
    def by_name(self) -> Mapping[str, Step]:
        """All steps, in the order in which they are written."""
        return {step.name: step for step in all_steps(self.steps)}

    @cached_property
    def _next(self) -> Mapping[str, Step | None]:
        return dict(_followed(self.steps, None))

    @property
    def first(self) -> Step:
        return self.steps[0]

    def step(self, name: str) -> Step | None:
        """The step of that name, None where the version has none."""
        return self.by_name.get(name)

    def after(self, name: str) -> Step | None:
        """The step behind another in the same list, else the one behind the branch around that list, and so on; None
        at the end of the tree. Of a branch, this is the step where its two ways meet."""
        return self._next[name]


def verb(step: Step) -> str:
    """What a step does, by the key that it has in a definition."""
    return VERBS[type(step)]


def all_steps(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Steps with those inside their branches, in the order in which they are written."""
    for step in steps:
        yield step
        if isinstance(step, Branch):
            yield from all_steps(step.then)
            yield from all_steps(step.otherwise)


def _followed(steps: tuple[Step, ...], end: Step | None) -> Iterator[tuple[str, Step | None]]:
    for position, step in enumerate(steps):
        following = steps[position + 1] if position + 1 < len(steps) else end
        yield step.name, following
        if isinstance(step, Branch):
            yield from _followed(step.then, following)
            yield from _followed(step.otherwise, following)
