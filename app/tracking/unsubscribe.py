"""The link by which a recipient unsubscribes: whom it names, and what following it does (decisions: 5, 6 and 11)."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Select, exists, func, select
from sqlalchemy.orm import Session

from app.addresses import AddressKind
from app.clock import now
from app.contacts.subscriptions import lock_subscriptions
from app.contacts.suppress import unsubscribe
from app.db.counters import count_in_group
from app.db.database import Transaction
from app.db.models import Account, Contact, List, Recipient, RecipientStep
from app.recipients.timeline import TimelineStep
from app.settings import Settings
from app.tracking.tokens import UNSUBSCRIBE, recipient_from_token, recipient_token


@dataclass(frozen=True, slots=True)
class UnsubscribeRequest:
    """Who wants to be unsubscribed from what: an address from a list, or from the whole account where there is none."""

    recipient_id: int
    account_id: int
    group_id: int
    list_id: int | None
    kind: AddressKind
    address: str
    sender: str
    """The name of the list, else that of the account: what the person may know."""


def unsubscribe_link(settings: Settings, recipient_id: int) -> str:
    """The recipient's own link, for its message."""
    return f"{settings.public_url}/u/{recipient_token(settings.secret_key, UNSUBSCRIBE, recipient_id)}"


def find_unsubscribe_request(session: Session, secret_key: str, token: str) -> UnsubscribeRequest | None:
    """Whom the link names; None for a link that was not made here or whose recipient is gone."""
    recipient_id = recipient_from_token(secret_key, UNSUBSCRIBE, token)
    if recipient_id is None:
        return None
    row = session.execute(_named(recipient_id)).first()
    if row is None:
        return None
    kind: AddressKind = "email" if row.type == "email" else "mobile"
    address = row.email if kind == "email" else row.mobile
    if address is None:
        return None
    sender = row.list_name or row.account_name
    return UnsubscribeRequest(row.id, row.account_id, row.group_id, row.list_id, kind, address, sender)


def _named(recipient_id: int) -> Select[int, int, int, int, str, str, str, str | None, str]:
    """A recipient that was named by its contact has no address of its own until it was sent."""
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
        )
        .join(Account, Account.id == Recipient.account_id)
        .outerjoin(List, List.id == Recipient.list_id)
        .outerjoin(Contact, Contact.id == Recipient.contact_id)
        .where(Recipient.id == recipient_id)
    )


def apply_unsubscribe(transaction: Transaction, wish: UnsubscribeRequest, *, block_reason: str | None = None) -> None:
    """Unsubscribes the address, and with a reason blocks it. The group counts a recipient once, however often the link
    is followed."""
    lock_subscriptions(transaction, wish.account_id)
    # The lock makes two clicks at the same moment one after the other. It comes before those on contacts, as where an
    # outcome is written that blocks the address.
    transaction.execute(select(Recipient.id).where(Recipient.id == wish.recipient_id).with_for_update())
    unsubscribe(transaction, wish.account_id, wish.kind, wish.address, wish.list_id, block_reason=block_reason)
    followed = exists().where(
        RecipientStep.recipient_id == wish.recipient_id, RecipientStep.step == TimelineStep.UNSUBSCRIBED
    )
    if transaction.scalar(select(followed)):
        return
    transaction.add(
        RecipientStep(
            account_id=wish.account_id,
            recipient_id=wish.recipient_id,
            time=now(),
            step=TimelineStep.UNSUBSCRIBED,
            detail=None,
        )
    )
    count_in_group(transaction, wish.group_id, unsubscribed=1)
