"""Replies: text messages that people send to a number of an account (specification: SMS events; decisions: 6 and 11).

A reply belongs to the last message that went to that mobile from that number: its event carries that message's common
fields, and a stop word in it unsubscribes the mobile from that message's list and counts in its group. Where nothing
was sent, the reply is told all the same, and a stop word holds for the number's list, or for the whole account. Where
no list was sent from, the number's list tells who replies (decisions: 12, Sms).
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.clock import now
from app.contacts.events import ContactKey
from app.contacts.subscriptions import lock_subscriptions
from app.contacts.suppress import unsubscribe
from app.db.bulk import insert_new_rows
from app.db.database import Transaction
from app.db.models import Contact, InboundRecord, List, Recipient, Send, SmsSender
from app.errors import ServiceError
from app.events.outbox import record
from app.events.payloads import reply_event
from app.inbound.texts import Text, first_text, texts
from app.recipients.timeline import TimelineStep
from app.sends.accept.stop_words import has_stop_word
from app.tracking.unsubscribe import UnsubscribeRequest, apply_unsubscribe

LONGEST_REPLY = 10_000


def record_reply(
    transaction: Transaction, mobile: str, number: str, body_text: str, *, message_id: str | None = None
) -> bool:
    """Tells the account that owns `number` what `mobile` wrote to it, and unsubscribes who wants no more.

    `message_id` is the gateway's id of the reply, where it gives one: the same id again changes nothing, and False is
    returned. Raises `ServiceError` (`invalid_id`) for a number that no account has.
    """
    mobile, number = plain_number(mobile), plain_number(number)
    text = _last_text(transaction, mobile, number)
    account_id = text.account_id if text else _owner(transaction, number)
    lock_subscriptions(transaction, account_id)
    if message_id is not None and not _is_new(transaction, account_id, f"reply {number} {message_id}"):
        return False
    moment, body_text = now(), _storable(body_text)
    answered = text.event("received", moment) if text else None
    numbers_list = _list_of(transaction, account_id, number) if text is None or text.list_id is None else None
    contact = _contact_of(transaction, account_id, numbers_list, mobile)
    told = reply_event(answered, contact, mobile=mobile, body_text=body_text, moment=moment)
    record(transaction, account_id, [told])
    if text:
        text.add_step(transaction, TimelineStep.RECEIVED, body_text, moment)
    list_id = text.list_id if text else numbers_list
    if has_stop_word(body_text, _stop_words(transaction, list_id)):
        _stop(transaction, account_id, mobile, list_id, text)
    return True


def account_of(session: Session, mobile: str, number: str) -> int:
    """The account that what `mobile` writes to `number` belongs to, both as plain numbers.

    Raises `ServiceError` (`invalid_id`) for a number that no account has.
    """
    text = _last_text(session, mobile, number)
    return text.account_id if text else _owner(session, number)


def plain_number(text: str) -> str:
    """A number as it is written here: without plus and spaces, also where a gateway puts them."""
    return text.strip().replace(" ", "").removeprefix("+")


def _storable(body_text: str) -> str:
    return body_text.replace("\0", "").encode("utf-8", "replace").decode()[:LONGEST_REPLY]


def _last_text(session: Session, mobile: str, number: str) -> Text | None:
    """The last message that was sent to the mobile from the number, by whichever account still has the number."""
    approved = select(SmsSender.account_id).where(SmsSender.address == number)
    statement = texts().where(
        Recipient.mobile == mobile,
        Recipient.sent_time.is_not(None),
        Send.from_address == number,
        Recipient.account_id.in_(approved),
    )
    return first_text(session, statement.order_by(Recipient.sent_time.desc(), Recipient.id.desc()))


def _owner(session: Session, number: str) -> int:
    """The account that had the number first: nobody else may read what may not be meant for them."""
    statement = select(SmsSender.account_id).where(SmsSender.address == number).order_by(SmsSender.id).limit(1)
    found = session.scalars(statement).first()
    if found is None:
        raise ServiceError("invalid_id", field="to", detail=f"no account has the sender {number!r}")
    return found


def _list_of(session: Session, account_id: int, number: str) -> int | None:
    statement = select(SmsSender.list_id).where(SmsSender.account_id == account_id, SmsSender.address == number)
    return session.scalars(statement).first()


def _contact_of(session: Session, account_id: int, list_id: int | None, mobile: str) -> ContactKey | None:
    """The contact of the list that has the mobile: of several the oldest active one, as for a send."""
    if list_id is None:
        return None
    statement = select(Contact.list_id, Contact.id).where(
        Contact.account_id == account_id, Contact.list_id == list_id, Contact.mobile == mobile
    )
    row = session.execute(
        statement.order_by(Contact.is_active.desc(), Contact.creation_time, Contact.id).limit(1)
    ).first()
    return (row.list_id, row.id) if row else None


def _is_new(transaction: Transaction, account_id: int, fingerprint: str) -> bool:
    """Remembers the reply. The lock on the account's subscriptions keeps a copy from coming in between."""
    seen = select(func.count()).where(InboundRecord.account_id == account_id, InboundRecord.fingerprint == fingerprint)
    if transaction.scalar(seen):
        return False
    row = {"account_id": account_id, "fingerprint": fingerprint, "kind": "reply", "time": now()}
    insert_new_rows(transaction, InboundRecord, [row])
    return True


def _stop_words(session: Session, list_id: int | None) -> Sequence[str]:
    if list_id is None:
        return ()
    return session.scalars(select(List.stop_words).where(List.id == list_id)).first() or ()


def _stop(transaction: Transaction, account_id: int, mobile: str, list_id: int | None, text: Text | None) -> None:
    if text is None:
        unsubscribe(transaction, account_id, "mobile", mobile, list_id)
        return
    wish = UnsubscribeRequest(text.id, account_id, text.group_id, list_id, "mobile", mobile, text.list_name or "")
    apply_unsubscribe(transaction, wish)
