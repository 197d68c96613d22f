"""Bulk actions: one of them, and whether a search of messages leads to one (docs/console-messages.md#bulk-actions)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy.orm import Session

from app.bulk_actions.ask import find_action
from app.bulk_actions.kinds import CANCEL, DROP_AS_FAILED, DROP_AS_SENT, KINDS, REASON_TEXTS, RELEASE, RETRY, UNBLOCK
from app.bulk_actions.query import cancellable_matches, retryable_matches, unblockable_matches
from app.console.messages import PATH as MESSAGES_PATH
from app.console.queries import Pairs
from app.console.suppressions import PATH as SUPPRESSIONS_PATH
from app.db.models import Account, BulkAction
from app.errors import ServiceError
from app.query.parameters import Parameter
from app.recipients.collection import MatchingRecipients
from app.recipients.filters import STATE_FILTER
from app.suppressions.states import BLOCKED

PATH = "/console/bulk-actions"
CANCELLING_PATH = "/console/cancellations"
HELD_PATH = "/console/holds"
RENEWAL_SECONDS = 2
"""Seconds after which the page of an action that has not ended is renewed."""
SENDING_SCOPES = ("send.email", "send.sms")


class ActionWords(NamedTuple):
    """What a kind of action is called, what it does to how many, and what it has done, in words, the page whose query
    an action of it has, and the scopes of which one is needed to ask for it and to cancel it."""

    name: str
    does: str
    done: str
    path: str
    scopes: tuple[str, ...] = SENDING_SCOPES


ACTION_WORDS: Mapping[str, ActionWords] = {
    RETRY.name: ActionWords("Retry", "Retry {}", "Retried", MESSAGES_PATH),
    CANCEL.name: ActionWords("Cancel", "Cancel {}", "Cancelled", MESSAGES_PATH),
    RELEASE.name: ActionWords("Release", "Release {}", "Released", HELD_PATH),
    DROP_AS_SENT.name: ActionWords("Drop as sent", "Drop {} as sent", "Dropped as sent", HELD_PATH),
    DROP_AS_FAILED.name: ActionWords("Drop as failed", "Drop {} as failed", "Dropped as failed", HELD_PATH),
    UNBLOCK.name: ActionWords("Unblock", "Unblock {}", "Unblocked", SUPPRESSIONS_PATH, ("contact.update",)),
}


def text_filter(text: str) -> tuple[str, str]:
    """The filter of a text that somebody looks for: an id, or who asked."""
    return ("id", text) if text.isascii() and text.isdigit() else ("asked_by", text)


def offers_retry(account: Account, pairs: Pairs) -> bool:
    """Whether all that the query finds can be retried at once: it names a state in which a message can be."""
    return _offers(retryable_matches, account, pairs)


def offers_cancelling(account: Account, pairs: Pairs) -> bool:
    """Whether all that the query finds can be cancelled at once: it names a state in which a message can be."""
    return _offers(cancellable_matches, account, pairs)


def _offers(matches: Callable[[Account, Pairs], MatchingRecipients], account: Account, pairs: Pairs) -> bool:
    if not any(Parameter.of(key, value).name == STATE_FILTER for key, value in pairs):
        return False
    try:
        return bool(matches(account, pairs).states)
    except ServiceError:
        return False


def offers_unblocking(account: Account, pairs: Pairs) -> bool:
    """Whether all that the query finds can be unblocked at once: it is about blocked addresses, and no single one."""
    if ("state", BLOCKED) not in pairs:
        return False
    try:
        unblockable_matches(account, pairs)
    except ServiceError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class ActionPage:
    """A bulk action with its account, as its page shows it at a moment."""

    row: BulkAction
    account: Account
    moment: datetime

    @property
    def path(self) -> str:
        """The path of the action's page."""
        return f"{PATH}/{self.row.id}"

    @property
    def words(self) -> ActionWords:
        """What the action does, in words."""
        return ACTION_WORDS[self.row.action]

    @property
    def noun(self) -> str:
        """What the action is about, in words."""
        singular, many = KINDS[self.row.action].noun
        return singular if self.row.messages == 1 else many

    @property
    def is_open(self) -> bool:
        """Whether the action waits or runs."""
        return self.row.end_time is None

    @property
    def seconds_left(self) -> int:
        """Seconds until the action may begin."""
        return max(0, math.ceil((self.row.due_time - self.moment).total_seconds()))

    @property
    def looked_at(self) -> int:
        """How many the action has come to."""
        return self.row.done + sum(self.row.left_out.values())

    @property
    def unmatched(self) -> int:
        """How many of those that matched when it was asked for did not when their turn came."""
        return max(0, self.row.messages - self.looked_at) if self.row.state == "done" else 0

    @property
    def left_out(self) -> Sequence[tuple[str, int]]:
        """Why the action has left some out, and how many; the most frequent first."""
        counts = sorted(self.row.left_out.items(), key=lambda entry: (-entry[1], entry[0]))
        return [(REASON_TEXTS.get(reason, reason), number) for reason, number in counts]


def read_action(session: Session, account_id: int | None, action_id: int, moment: datetime) -> ActionPage:
    """The account's action, or that of any account for None. Raises `not_found`."""
    row = find_action(session, account_id, action_id)
    return ActionPage(row, session.get_one(Account, row.account_id), moment)
