"""Suppressions: searching what is unsubscribed or blocked, one entry with what made it, adding and removing one
(docs/console-contents.md#suppressions).

Unsubscribed and blocked addresses are two tables. A page is read from each in the order of its index, and the two are
merged, so that it costs the same however many there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

from sqlalchemy import ColumnElement, and_, select
from sqlalchemy.orm import Session

from app.addresses import (
    AccountAddress,
    AddressKind,
    NormalizedAddress,
    normalize_address,
)
from app.audit.actor import Actor
from app.audit.read import acts_on_address
from app.clock import timestamp
from app.console.queries import SearchPage, SearchRequest, older_query
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.lookup import find_by_name_or_id
from app.db.models import List, Recipient, RecipientStep
from app.errors import ServiceError
from app.infrastructure.digests import address_digests
from app.recipients.filters import sent_to
from app.recipients.timeline import TimelineStep
from app.secret_keys import SecretKeys
from app.suppressions.acts import (
    address_of,
    checked_reason,
    checked_state,
    remove_blocked,
    remove_unsubscribed,
)
from app.suppressions.add import NewSuppression
from app.suppressions.entries import Suppression, read_entries
from app.suppressions.filters import CONSOLE_SUPPRESSIONS
from app.suppressions.states import BLOCKED, UNSUBSCRIBED

PATH = "/console/suppressions"


def search(search_request: SearchRequest) -> SearchPage:
    """The account's entries that match, the newest first: one statement for most queries. Raises the errors of the
    query."""
    query = search_request.query(PATH, CONSOLE_SUPPRESSIONS)
    suppressions, has_more = read_entries(search_request.session, search_request.account_id, query, with_forgotten=True)
    position = suppressions[-1].position if has_more else None
    return SearchPage(suppressions, older_query(query.cursors, search_request.pairs, position))


def path_of_suppression(suppression: Suppression) -> str:
    """The path of the suppression's page."""
    return f"{PATH}/{suppression.state}/{suppression.id}"


def words_of(suppression: Suppression) -> str:
    """Since when the address is suppressed, and why, in a sentence."""
    address, since = suppression.address or "This address", timestamp(suppression.creation_time)
    if suppression.state == BLOCKED:
        return f"{address} has been blocked since {since}: {suppression.reason}."
    where = "all lists" if suppression.stored_list_id is None else f"the list {suppression.list_name}"
    return f"{address} has been unsubscribed from {where} since {since}."


@dataclass(frozen=True, slots=True)
class Removal:
    """How people speak of removing an entry: the verb, what to think of before, and what is said afterwards."""

    verb: str
    advice: str
    done: str


REMOVALS = {
    BLOCKED: Removal(
        "Unblock",
        "New messages are sent to it. If its mailbox does not exist, they bounce again.",
        "The address was unblocked.",
    ),
    UNSUBSCRIBED: Removal(
        "Resubscribe",
        "The person has unsubscribed. Do this only if they have asked for it.",
        "The address was resubscribed.",
    ),
}
"""State -> its removal."""


# What made a suppression, as far as it is kept: the message whose bounce, report or link did, and who did it by hand
# (docs/console-contents.md#suppressions).

CAUSING_STEPS = {
    BLOCKED: (TimelineStep.BOUNCED, TimelineStep.COMPLAINED),
    UNSUBSCRIBED: (TimelineStep.UNSUBSCRIBED, TimelineStep.COMPLAINED),
}
"""State -> the steps of a message after which an address has it."""
STEP_WORDS = {
    TimelineStep.BOUNCED: "the message bounced",
    TimelineStep.COMPLAINED: "the message was reported as spam",
    TimelineStep.UNSUBSCRIBED: "the recipient of the message unsubscribed",
}
"""Step of a message that caused a suppression -> what happened."""
ACT_WORDS: Mapping[str, Mapping[str, str]] = {
    "suppression.added": {BLOCKED: "blocked", UNSUBSCRIBED: "unsubscribed"},
    "suppression.removed": {BLOCKED: "unblocked", UNSUBSCRIBED: "resubscribed"},
}
"""Act of the audit log and its state -> what somebody has done to the address."""
MAX_MESSAGES, MAX_STEPS, MAX_ACTS = 20, 5, 5
"""The newest messages that are looked at, and what is shown of their steps and of the audit log."""
MAX_GAP = timedelta(minutes=1)
"""More than a suppression and the step that it follows from are ever apart."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that happened: the step of a message with its `uuid` and the reply, or an act of somebody."""

    time: datetime
    words: str
    uuid: str | None = None
    reply: str | None = None
    actor: Actor | None = None


def causes(session: Session, secret_keys: SecretKeys, account_id: int, suppression: Suppression) -> Sequence[Cause]:
    """What is known of the address, the latest first: three statements. Nothing of a forgotten one."""
    if suppression.address is None:
        return ()
    address = normalize_address(cast("AddressKind", suppression.kind), suppression.address)
    steps_and_acts = [
        *_steps(session, AccountAddress(account_id, *address), suppression),
        *_acts(session, secret_keys, account_id, address),
    ]
    return sorted(steps_and_acts, key=lambda cause: cause.time, reverse=True)


def _steps(session: Session, address: AccountAddress, suppression: Suppression) -> Iterator[Cause]:
    before = suppression.creation_time + MAX_GAP
    if suppression.uuid is not None:
        is_cause: ColumnElement[bool] = Recipient.uuid == suppression.uuid
    else:  # one from before revision 0104, or one that no message has caused
        is_cause = and_(sent_to(address), Recipient.creation_time <= before)
    messages = select(Recipient.id, Recipient.uuid).where(Recipient.account_id == address.account_id, is_cause)
    newest = messages.order_by(Recipient.creation_time.desc(), Recipient.id.desc()).limit(MAX_MESSAGES)
    uuids = {row.id: row.uuid for row in session.execute(newest)}
    if not uuids:
        return
    steps = (
        select(RecipientStep)
        .where(in_json(RecipientStep.recipient_id, list(uuids)), RecipientStep.time <= before)
        .where(RecipientStep.step.in_(CAUSING_STEPS[suppression.state]))
    )
    for step in session.scalars(steps.order_by(RecipientStep.id.desc()).limit(MAX_STEPS)):
        yield Cause(step.time, STEP_WORDS[TimelineStep(step.step)], uuids[step.recipient_id], step.detail)


def _acts(session: Session, secret_keys: SecretKeys, account_id: int, address: NormalizedAddress) -> Iterator[Cause]:
    for entry in acts_on_address(session, account_id, address_digests(secret_keys, address), MAX_ACTS):
        state = next((str(change.get("new")) for change in entry.changes if change["field"] == "state"), "")
        yield Cause(entry.time, ACT_WORDS[entry.action].get(state, "changed"), actor=entry.actor)


# Adding and removing one, as the command line does.


@dataclass(frozen=True, slots=True)
class SuppressionForm:
    """What the form says: an address, a state, a list by its name or id, and the reason of a block. The last two may
    be empty."""

    address: str
    state: str
    list: str = ""
    reason: str = ""


def read_form(session: Session, account_id: int, form: SuppressionForm) -> NewSuppression:
    """What the form adds: a block, or an unsubscription from the list, or account-wide without one. Raises the errors
    of the form."""
    address, state = address_of(form.address), checked_state(form.state)
    if state == BLOCKED:
        if form.list:
            raise ServiceError(
                "unexpected_field", field="list", detail="A block applies to all lists. Leave the list out."
            )
        return NewSuppression(address, state, reason=checked_reason(form.reason))
    list_id = find_by_name_or_id(session, List, account_id, form.list, "list").id if form.list else None
    return NewSuppression(address, state, list_id)


def remove_suppression(transaction: Transaction, secret_key: str, account_id: int, suppression: Suppression) -> None:
    """Unblocks the address, or resubscribes it: to the list of the entry, and account-wide. Raises `conflict` for a
    forgotten one."""
    if suppression.address is None:
        raise ServiceError("conflict", detail="The address was forgotten. To change its state, add it again.")
    address = normalize_address(cast("AddressKind", suppression.kind), suppression.address)
    if suppression.state == BLOCKED:
        remove_blocked(transaction, secret_key, account_id, address)
    else:
        remove_unsubscribed(transaction, secret_key, account_id, address, suppression.stored_list_id)
