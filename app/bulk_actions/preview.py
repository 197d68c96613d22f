"""What a bulk action would do now, by the rules with which it runs: how many, and why others would be left out
(docs/console-messages.md#bulk-actions)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy.orm import Session

from app.bulk_actions.kinds import ARRIVED_REASON, REASON_TEXTS, Kind, Work
from app.bulk_actions.query import Pairs, query_text
from app.clock import now
from app.db.models import Account
from app.errors import ServiceError
from app.recipients.collection import Place, place_of

MAX_SHOWN_ROWS = 10
PART_SIZE = 5000
"""Rows that are looked at together."""
INSPECTION_SECONDS = 3.0
"""Seconds after which no further ones are looked at."""
VALID_FOR = timedelta(seconds=60)
"""For how long a preview may be answered; after that it is made anew."""


class Numbers(NamedTuple):
    """What a preview has said, and when."""

    time: datetime
    matching: int
    done: int

    @classmethod
    def of(cls, text: str) -> Numbers | None:
        """The numbers in a text of `str`; None for any other text."""
        moment, *numbers = text.split(" ")
        try:
            return cls(datetime.fromisoformat(moment), *map(int, numbers)) if len(numbers) == 2 else None
        except ValueError:
            return None

    def __str__(self) -> str:
        """The text by which a form carries the numbers."""
        return f"{self.time.isoformat()} {self.matching} {self.done}"


@dataclass(frozen=True, slots=True)
class Inspection:
    """How many rows were looked at, the oldest first, and why some of them would be left out, with how many."""

    rows: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def reasons(self) -> Sequence[tuple[int, str]]:
        """How many would be left out, and why in words; the most frequent reason first."""
        return [(number, REASON_TEXTS[reason]) for reason, number in Counter(self.left_out).most_common()]


def inspect_rows(session: Session, work: Work, most: int) -> Inspection:
    """Looks at the rows of an action, at most so many, by the rule with which it runs. A fixed number of statements for
    each part of them, and no further part after a few seconds."""
    end, after, rows, left_out = time.monotonic() + INSPECTION_SECONDS, None, 0, Counter[str]()
    while rows < most:
        size = min(PART_SIZE, most - rows)
        places = [place_of(row) for row in work.matches.next(session, (), after, size)]
        left_out.update(work.would_leave_out(session, [row_id for _, row_id in places]).values())
        rows += len(places)
        if len(places) < size or time.monotonic() > end:
            break
        after = places[-1]
    return Inspection(rows, left_out)


@dataclass(frozen=True, slots=True)
class Preview:
    """What an action would do: how many messages or addresses match, up to which one, what of them would be left out,
    and the newest of them, each with why it would be."""

    kind: Kind
    account_id: int
    account: str
    query: str
    time: datetime
    messages: int
    newest: Place | None
    looked_at: Inspection
    rows: Sequence[Any]
    left_out: Mapping[int, str]

    @property
    def is_too_large(self) -> bool:
        """Whether there are more than an action may have."""
        return self.messages > self.kind.most

    @property
    def does_nothing(self) -> bool:
        """Whether nothing would change: nothing matches, or all would be left out. What has arrived ends as sent."""
        return self.done == 0 and not self.looked_at.left_out.get(ARRIVED_REASON)

    @property
    def done(self) -> int:
        """How many it would act upon; what was not looked at is among them."""
        return self.messages - sum(self.looked_at.left_out.values())

    @property
    def not_looked_at(self) -> int:
        """How many may be left out, too."""
        return 0 if self.is_too_large else max(0, self.messages - self.looked_at.rows)

    @property
    def numbers(self) -> Numbers:
        """What the preview says."""
        return Numbers(self.time, self.messages, self.done)

    @property
    def number(self) -> str:
        """How many match, in words."""
        singular, many = self.kind.noun
        if self.is_too_large:
            return f"more than {self.kind.most:,} {many}"
        return f"{self.messages:,} {singular if self.messages == 1 else many}"

    @property
    def number_done(self) -> str:
        """How many of them it would act upon, in words."""
        if self.done == self.messages and not self.not_looked_at:
            return self.number
        return f"{'at most ' if self.not_looked_at else ''}{self.done:,} of {self.number}"

    def of(self, kind: Kind) -> Preview:
        """The preview of another kind of action that finds the same."""
        if kind.leaves_out == self.kind.leaves_out:
            return replace(self, kind=kind)
        return replace(self, kind=kind, looked_at=Inspection(self.messages), left_out={})


def preview(session: Session, kind: Kind, account: Account, pairs: Pairs) -> Preview:
    """What an action on all that matches would do now. Raises the errors of the query."""
    text, newest, moment = query_text(pairs), kind.newest(session, account.id), now()
    work = kind.work(account, pairs, newest)
    rows = work.matches.newest_ones(session, kind.preview_columns, MAX_SHOWN_ROWS)
    messages = work.matches.count(session, kind.most)
    looked_at = Inspection(messages)
    if kind.leaves_out:
        looked_at = Inspection() if messages > kind.most else inspect_rows(session, work, messages)
    left_out = work.would_leave_out(session, [row.id for row in rows])
    named = kind, account.id, account.name
    return Preview(*named, text, moment, messages, newest, looked_at, rows, left_out)


def is_valid(seen: Numbers | None, current: Preview) -> bool:
    """Whether somebody who has seen these numbers may have the action: they are recent, or have not changed."""
    if seen is None:
        return False
    return current.time - VALID_FOR <= seen.time <= current.time or seen[1:] == current.numbers[1:]


def check_shown(seen: Numbers | None, current: Preview) -> None:
    """Raises `conflict` for a preview that may not be answered any more, unless there is nothing to ask for."""
    if not (is_valid(seen, current) or current.does_nothing or current.is_too_large):
        detail = "The matches have changed since the preview. Check the numbers and confirm again."
        raise ServiceError("conflict", detail=detail)
