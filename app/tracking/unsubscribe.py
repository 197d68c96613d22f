"""Unsubscribe requests: the recipient's link, and the effect of a request (docs/inbound.md#unsubscribing)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.accounts.accounts import Brand
from app.addresses import ADDRESS_KIND_BY_TYPE, AddressKind, normalize_address
from app.clock import now
from app.contacts.subscriptions import lock_subscriptions
from app.contacts.suppress import resubscribe, unsubscribe
from app.contacts.unsubscriber_entries import of_addresses
from app.db.counters import count_in_group
from app.db.database import Transaction
from app.db.models import Account, Contact, List, Recipient, RecipientStep, Unsubscriber
from app.recipients.row import RecipientRow, step_row
from app.recipients.store import add_steps, lock_recipient
from app.recipients.timeline import TimelineStep
from app.secret_keys import SecretKeys
from app.settings import Settings
from app.tracking.tokens import UNSUBSCRIBE, recipient_from_token, recipient_token

UNDO = timedelta(hours=1)
"""For how long what a link did can be taken back: later, the mail with the link may be with somebody else."""
SAME = timedelta(minutes=1)
"""More than an entry and the step that was written with it are ever apart."""


@dataclass(frozen=True, slots=True)
class UnsubscribeRequest:
    """An address and the list to unsubscribe it from; without a list it is unsubscribed account-wide."""

    recipient_id: int
    account_id: int
    group_id: int
    list_id: int | None
    kind: AddressKind
    address: str
    sender: str = ""
    """The name of the list, else that of the brand or of the account, for the page that confirms the request."""
    brand: Brand = Brand()

    @classmethod
    def of(cls, recipient: RecipientRow) -> UnsubscribeRequest:
        """The request of the recipient, for the address that its message was sent to."""
        kind = ADDRESS_KIND_BY_TYPE[recipient.type]
        address = recipient.email if kind == "email" else recipient.mobile
        return cls(recipient.id, recipient.account_id, recipient.group_id, recipient.list_id, kind, address or "")


def unsubscribe_link(settings: Settings, recipient_id: int) -> str:
    """The recipient's opt-out link."""
    return f"{settings.public_url}/u/{recipient_token(settings.secret_key, UNSUBSCRIBE, recipient_id)}"


def find_unsubscribe_request(session: Session, secret_keys: SecretKeys, token: str) -> UnsubscribeRequest | None:
    """The request of a link; None for an invalid link, or one whose recipient is deleted."""
    recipient_id = recipient_from_token(secret_keys, UNSUBSCRIBE, token)
    if recipient_id is None:
        return None
    row = session.execute(_select_recipient(recipient_id)).first()
    if row is None:
        return None
    kind = ADDRESS_KIND_BY_TYPE[row.type]
    address = row.email if kind == "email" else row.mobile
    if address is None:
        return None
    sender = row.list_name or row.brand_name or row.account_name
    brand = Brand(row.brand_name, row.brand_colour)
    return UnsubscribeRequest(row.id, row.account_id, row.group_id, row.list_id, kind, address, sender, brand)


def _select_recipient(recipient_id: int) -> Any:
    """A recipient given by `contact_id` has no address of its own until its message is sent, so the contact's is
    used."""
    return (
        select(
            Recipient.id,
            Recipient.account_id,
            Recipient.group_id,
            List.id.label("list_id"),
            Recipient.type,
            func.coalesce(Recipient.email, Contact.email).label("email"),
            func.coalesce(Recipient.mobile, Contact.mobile).label("mobile"),
            List.name.label("list_name"),
            Account.name.label("account_name"),
            Account.brand_name,
            Account.brand_colour,
        )
        .join(Account, Account.id == Recipient.account_id)
        .outerjoin(List, List.id == Recipient.list_id)
        .outerjoin(Contact, Contact.id == Recipient.contact_id)
        .where(Recipient.id == recipient_id)
    )


def apply_unsubscribe(
    transaction: Transaction, request: UnsubscribeRequest, *, block_reason: str | None = None
) -> None:
    """Unsubscribes the address, and blocks it if a reason is given. The group counts each recipient once, however often
    the link is used."""
    lock_subscriptions(transaction, request.account_id)
    # Before the contacts are locked, in the same order as when writing an outcome that blocks the address.
    lock_recipient(transaction, request.recipient_id)
    unsubscribe(
        transaction, request.account_id, request.kind, request.address, request.list_id, block_reason=block_reason
    )
    latest = _latest_step(transaction, request)
    if latest == TimelineStep.UNSUBSCRIBED:
        return
    moment = _add_step(transaction, request, TimelineStep.UNSUBSCRIBED)
    if latest is None:
        count_in_group(transaction, request.account_id, request.group_id, moment, unsubscribed=1)


def may_be_undone(session: Session, request: UnsubscribeRequest) -> bool:
    """Whether the address is unsubscribed by what the link did within the last hour, and by nothing else: not by an
    entry that was there before, nor by one for the whole account beside that of the list."""
    address = normalize_address(request.kind, request.address)
    list_ids = {None, request.list_id}
    entries = select(Unsubscriber.list_id, Unsubscriber.creation_time).where(
        Unsubscriber.account_id == request.account_id, of_addresses([address])
    )
    found = [row for row in session.execute(entries) if row.list_id in list_ids]
    if {row.list_id for row in found} != {request.list_id}:
        return False
    step = _steps(request).where(RecipientStep.step == TimelineStep.UNSUBSCRIBED)
    unsubscribed_time = session.scalar(step.with_only_columns(RecipientStep.time))
    made = min(row.creation_time for row in found)
    return unsubscribed_time is not None and unsubscribed_time - SAME <= made and now() - UNDO <= made


def undo_unsubscribe(transaction: Transaction, request: UnsubscribeRequest) -> bool:
    """Subscribes the address again, if that `may_be_undone`; returns whether it was. The count of the group stays: it
    is of those who have used the link."""
    lock_subscriptions(transaction, request.account_id)
    lock_recipient(transaction, request.recipient_id)
    if not may_be_undone(transaction, request):
        return False
    resubscribe(transaction, request.account_id, request.kind, request.address, request.list_id)
    _add_step(transaction, request, TimelineStep.RESUBSCRIBED)
    return True


def _latest_step(session: Session, request: UnsubscribeRequest) -> str | None:
    latest: str | None = session.scalar(_steps(request).with_only_columns(RecipientStep.step))
    return latest


def _steps(request: UnsubscribeRequest) -> Any:
    """The newest step of the recipient that its link, or taking it back, has made."""
    of_recipient = select(RecipientStep.id).where(
        RecipientStep.recipient_id == request.recipient_id,
        RecipientStep.step.in_((TimelineStep.UNSUBSCRIBED, TimelineStep.RESUBSCRIBED)),
    )
    return of_recipient.order_by(RecipientStep.id.desc()).limit(1)


def _add_step(transaction: Transaction, request: UnsubscribeRequest, step: TimelineStep) -> datetime:
    moment = now()
    add_steps(transaction, [step_row(request.account_id, request.recipient_id, step, None, moment)])
    return moment
