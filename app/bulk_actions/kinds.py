"""The kinds of bulk actions: which messages or addresses each of them is about, and what it does to a slice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from sqlalchemy import Row
from sqlalchemy.orm import Session

from app.bulk_actions.query import Pairs, cancellable_matches, held_matches, retryable_matches, unblockable_matches
from app.db.database import Transaction
from app.db.models import Account, BlockedAddress, QueueEntry, Recipient
from app.recipients.collection import MatchingRecipients, Place, newest_place
from app.recipients.conditions import CURRENT_STATE
from app.sends.cancel import cancel_all
from app.sends.holds.held import MatchingHeldMessages
from app.sends.holds.release import DropOutcome, drop_some, release_some
from app.sends.outcomes.recovery import signs_of_arrival
from app.sends.outcomes.requeue import RefusalReason, requeue_all, would_refuse
from app.services import Services
from app.suppressions.matching import MatchingBlocked, newest_blocked, unblock_matching

ARRIVED_REASON = "arrived"
"""Why a held message is left out of those that are sent: it shows a sign of arrival, and ends as sent."""
TOO_LATE_REASON = "too_late"
"""Why a message is left out of those that are cancelled: it was being sent, or had left."""
REASON_TEXTS: Mapping[str, str] = {
    RefusalReason.STATE: "a retry is no longer needed",
    RefusalReason.FORGOTTEN: "the recipient was forgotten",
    RefusalReason.CANCELLED: "it was cancelled",
    RefusalReason.NO_CONTACT: "there is no contact to send to",
    RefusalReason.BLOCKED: "the address is blocked",
    RefusalReason.CONTENT_PURGED: "the content was purged",
    RefusalReason.SECRET_VALUES_GONE: "the secret values are gone",
    RefusalReason.CHANGED: "it no longer matches",
    TOO_LATE_REASON: "it was being sent or has ended",
    ARRIVED_REASON: "it shows a sign of arrival and is not sent again",
}
"""Why messages are left out."""
RECIPIENT_COLUMNS: tuple[Any, ...] = (
    *(Recipient.id, Recipient.uuid, Recipient.type, Recipient.email, Recipient.mobile, Recipient.creation_time),
)
HELD_COLUMNS: tuple[Any, ...] = (*RECIPIENT_COLUMNS, QueueEntry.held_state.label("was"), QueueEntry.due_time)


class MatchingRows(Protocol):
    """Messages or addresses of an account, part by part; each row ends with its creation time and id."""

    def next(self, session: Session, columns: Sequence[Any], after: Place | None, most: int) -> Sequence[Row[Any]]:
        """The next ones behind a place, the oldest first."""

    def newest_ones(self, session: Session, columns: Sequence[Any], most: int) -> Sequence[Row[Any]]:
        """The newest ones, from the newest on."""

    def count(self, session: Session, most: int) -> int:
        """How many they are; one more than `most` stands for more than that."""


@dataclass(frozen=True, slots=True)
class SliceResult:
    """How many of a slice were acted upon, and why others were left out, with how many."""

    done: int
    left_out: Mapping[str, int]


class Work(Protocol):
    """What an action does to the rows that match: a fixed number of statements, however many they are."""

    @property
    def matches(self) -> MatchingRows:
        """The recipients or addresses that the action is about."""

    def would_leave_out(self, session: Session, ids: Sequence[int]) -> Mapping[int, str]:
        """Which of these would be left out now, and why."""

    def act(self, transaction: Transaction, services: Services, ids: Sequence[int]) -> SliceResult:
        """Acts upon those of these that are still such as the action is about."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Puts messages that have not arrived into the queue again."""

    matches: MatchingRecipients

    @classmethod
    def of(cls, account: Account, pairs: Pairs, newest: Place | None) -> Retry:
        """The retry of messages that match the query. Raises the query's errors."""
        return cls(retryable_matches(account, pairs, newest))

    def would_leave_out(self, session: Session, ids: Sequence[int]) -> Mapping[int, str]:
        """What the rules of retrying refuse."""
        return {id_: refusal.reason.value for id_, refusal in would_refuse(session, ids, self.matches.states).items()}

    def act(self, transaction: Transaction, _services: Services, ids: Sequence[int]) -> SliceResult:
        """Requeues the messages."""
        requeued = requeue_all(transaction, ids, *self.matches.conditions, states=self.matches.states)
        return SliceResult(len(requeued.ids), Counter(refusal.reason.value for refusal in requeued.refused.values()))


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancels messages that have not left (docs/scheduling.md#cancelling)."""

    matches: MatchingRecipients

    @classmethod
    def of(cls, account: Account, pairs: Pairs, newest: Place | None) -> Cancel:
        """The cancelling of messages that match the query. Raises the query's errors."""
        return cls(cancellable_matches(account, pairs, newest))

    def would_leave_out(self, _session: Session, _ids: Sequence[int]) -> Mapping[int, str]:
        """No message is left out before a sender has it."""
        return {}

    def act(self, transaction: Transaction, services: Services, ids: Sequence[int]) -> SliceResult:
        """Cancels the messages that no sender has taken meanwhile."""
        cancelled = cancel_all(transaction, services.settings, self.matches.account_id, ids, *self.matches.conditions)
        left = len(cancelled.refused)
        return SliceResult(len(cancelled.ids), {TOO_LATE_REASON: left} if left else {})


@dataclass(frozen=True, slots=True)
class Release:
    """Sends messages that are held after a restore (docs/restore.md#what-a-restore-holds)."""

    matches: MatchingHeldMessages

    @classmethod
    def of(cls, account: Account, pairs: Pairs, _newest: Place | None) -> Release:
        """The release of held messages that match the query; nothing is held that was accepted since the restore.
        Raises the query's errors."""
        return cls(held_matches(account, pairs))

    def would_leave_out(self, session: Session, ids: Sequence[int]) -> Mapping[int, str]:
        """The messages that have arrived."""
        return dict.fromkeys(signs_of_arrival(session, ids), ARRIVED_REASON)

    def act(self, transaction: Transaction, services: Services, ids: Sequence[int]) -> SliceResult:
        """Puts the messages back into the queue."""
        done = release_some(transaction, services, self.matches.held, ids)
        return SliceResult(done.released, {ARRIVED_REASON: done.arrived} if done.arrived else {})


@dataclass(frozen=True, slots=True)
class Drop:
    """Ends messages that are held after a restore, without sending them."""

    matches: MatchingHeldMessages
    outcome: DropOutcome

    @classmethod
    def of(cls, outcome: DropOutcome, account: Account, pairs: Pairs, _newest: Place | None) -> Drop:
        """The drop of held messages that match the query. Raises the query's errors."""
        return cls(held_matches(account, pairs), outcome)

    def would_leave_out(self, _session: Session, _ids: Sequence[int]) -> Mapping[int, str]:
        """No message or address is left out."""
        return {}

    def act(self, transaction: Transaction, services: Services, ids: Sequence[int]) -> SliceResult:
        """Writes the outcome of the messages."""
        return SliceResult(drop_some(transaction, services, self.matches.held, ids, self.outcome), {})


@dataclass(frozen=True, slots=True)
class Unblock:
    """Unblocks addresses."""

    matches: MatchingBlocked

    @classmethod
    def of(cls, account: Account, pairs: Pairs, newest: Place | None) -> Unblock:
        """The unblocking of addresses that match the query. Raises the query's errors."""
        return cls(unblockable_matches(account, pairs, newest))

    def would_leave_out(self, _session: Session, _ids: Sequence[int]) -> Mapping[int, str]:
        """No message or address is left out."""
        return {}

    def act(self, transaction: Transaction, _services: Services, ids: Sequence[int]) -> SliceResult:
        """Deletes the entries of the addresses."""
        return SliceResult(unblock_matching(transaction, self.matches, ids), {})


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of action. `past` is what the audit log counts, `nothing` why an action about nothing is refused, and
    `preview_columns` are the columns of a preview. `noun` is what it is about, `counted` its name in the audit log,
    `newest` the place of the newest one of an account, `most` how many of them an action may have, and `leaves_out`
    whether some of those that match may be left out."""

    name: str
    past: str
    nothing: str
    preview_columns: tuple[Any, ...]
    work: Callable[[Account, Pairs, Place | None], Work]
    noun: tuple[str, str] = ("message", "messages")
    counted: str = "recipients"
    newest: Callable[[Session, int], Place | None] = newest_place
    most: int = 100_000
    leaves_out: bool = True


RETRY = Kind(
    "retry",
    "retried",
    "No matching message can be retried.",
    (*RECIPIENT_COLUMNS, Recipient.reason, CURRENT_STATE.label("state")),
    Retry.of,
)
NOTHING_HELD = "No matching message is held."
CANCEL = Kind(
    "cancel",
    "cancelled",
    "No matching message can be cancelled.",
    (*RECIPIENT_COLUMNS, CURRENT_STATE.label("state")),
    Cancel.of,
    leaves_out=False,
)
RELEASE = Kind("release", "released", NOTHING_HELD, HELD_COLUMNS, Release.of)
DROP_AS_SENT = Kind("drop_as_sent", "dropped", NOTHING_HELD, HELD_COLUMNS, partial(Drop.of, "sent"), leaves_out=False)
DROP_AS_FAILED = Kind(
    "drop_as_failed", "dropped", NOTHING_HELD, HELD_COLUMNS, partial(Drop.of, "failed"), leaves_out=False
)
UNBLOCK = Kind(
    "unblock",
    "unblocked",
    "No matching address is blocked for a reason other than a complaint.",
    (*(getattr(BlockedAddress, name) for name in ("id", "kind", "address", "reason", "reply", "creation_time")),),
    Unblock.of,
    ("address", "addresses"),
    "suppressions",
    newest_blocked,
    1_000_000,
    leaves_out=False,
)
KINDS = {kind.name: kind for kind in (RETRY, CANCEL, RELEASE, DROP_AS_SENT, DROP_AS_FAILED, UNBLOCK)}
"""Name, as it is stored -> kind."""
