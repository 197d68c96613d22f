"""Unsubscribe requests: the recipient's link, and the effect of a request (docs/inbound.md#unsubscribing)."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Select, exists, func, select
from sqlalchemy.orm import Session

from app.addresses import ADDRESS_KIND_BY_TYPE, AddressKind
from app.clock import now
from app.contacts.subscriptions import lock_subscriptions
from app.contacts.suppress import unsubscribe
from app.db.counters import count_in_group
from app.db.database import Transaction
from app.db.models import Account, Contact, List, Recipient, RecipientStep
from app.recipients.row import RecipientRow, step_row
from app.recipients.store import add_steps, lock_recipient
from app.recipients.timeline import TimelineStep
from app.secret_keys import SecretKeys
from app.settings import Settings
from app.tracking.tokens import UNSUBSCRIBE, recipient_from_token, recipient_token


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
    """The name of the list, else that of the account, for the page that confirms the request."""

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
    sender = row.list_name or row.account_name
    return UnsubscribeRequest(row.id, row.account_id, row.group_id, row.list_id, kind, address, sender)


def _select_recipient(recipient_id: int) -> Select[int, int, int, int, str, str, str, str | None, str]:
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
    followed = exists().where(
        RecipientStep.recipient_id == request.recipient_id, RecipientStep.step == TimelineStep.UNSUBSCRIBED
    )
    if transaction.scalar(select(followed)):
        return
    moment = now()
    step = step_row(request.account_id, request.recipient_id, TimelineStep.UNSUBSCRIBED, None, moment)
    add_steps(transaction, [step])
    count_in_group(transaction, request.account_id, request.group_id, moment, unsubscribed=1)
