"""What made a suppression, as far as it is kept: the message whose bounce, report or link did, and who did it by hand
(docs/console.md#suppressions)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.addresses import AccountAddress, AddressKind, NormalizedAddress, normalize_address
from app.audit.actor import Actor
from app.audit.read import acts_on_address
from app.console.suppressions import Suppression
from app.contacts.blocked import BLOCKED, UNSUBSCRIBED
from app.db.expressions import in_json
from app.db.models import Recipient, RecipientStep
from app.infrastructure.digests import address_digests
from app.recipients.filters import sent_to
from app.recipients.timeline import TimelineStep
from app.secret_keys import SecretKeys

MAKING = {
    BLOCKED: (TimelineStep.BOUNCED, TimelineStep.COMPLAINED),
    UNSUBSCRIBED: (TimelineStep.UNSUBSCRIBED, TimelineStep.COMPLAINED),
}
"""State -> the steps of a message after which an address has it."""
MESSAGES, STEPS, ACTS = 20, 5, 5
"""The newest messages that are looked at, and what is shown of their steps and of the audit log."""
APART = timedelta(minutes=1)
"""More than a suppression and the step that it follows from are ever apart."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that happened: the step of a message with its `uuid` and the reply, or an act of somebody."""

    time: datetime
    words: str
    uuid: str | None = None
    said: str | None = None
    actor: Actor | None = None


def causes(session: Session, secret_keys: SecretKeys, account_id: int, one: Suppression) -> Sequence[Cause]:
    """What is known of the address, the latest first: three statements. Nothing of a forgotten one."""
    if one.address is None:
        return ()
    address = normalize_address(cast("AddressKind", one.kind), one.address)
    found = [
        *_steps(session, AccountAddress(account_id, *address), one),
        *_acts(session, secret_keys, account_id, address),
    ]
    return sorted(found, key=lambda cause: cause.time, reverse=True)


def _steps(session: Session, address: AccountAddress, one: Suppression) -> Iterator[Cause]:
    before = one.creation_time + APART
    messages = select(Recipient.id, Recipient.uuid).where(
        Recipient.account_id == address.account_id, sent_to(address), Recipient.creation_time <= before
    )
    newest = messages.order_by(Recipient.creation_time.desc(), Recipient.id.desc()).limit(MESSAGES)
    uuids = {row.id: row.uuid for row in session.execute(newest)}
    if not uuids:
        return
    steps = (
        select(RecipientStep)
        .where(in_json(RecipientStep.recipient_id, list(uuids)), RecipientStep.time <= before)
        .where(RecipientStep.step.in_(MAKING[one.state]))
    )
    for step in session.scalars(steps.order_by(RecipientStep.id.desc()).limit(STEPS)):
        yield Cause(step.time, f"the message {step.step}", uuids[step.recipient_id], step.detail)


def _acts(session: Session, secret_keys: SecretKeys, account_id: int, address: NormalizedAddress) -> Iterator[Cause]:
    for entry in acts_on_address(session, account_id, address_digests(secret_keys, address), ACTS):
        states = [str(change.get("new")) for change in entry.changes if change["field"] == "state"]
        verb = "added" if entry.action == "suppression.added" else "removed"
        yield Cause(entry.time, " ".join([*states, verb]), actor=entry.actor)
