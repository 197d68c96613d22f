"""Replies: text messages that people send to a number of an account (docs/sms.md#replies).

A reply belongs to the last message that was sent to that mobile from that number: its event has that message's common
fields, and a stop word in it unsubscribes the mobile from that message's list and counts in its group. If nothing was
sent, the event is still recorded, and a stop word applies to the number's list, or to the whole account. If the message
had no list, the contact that replied is that of the number's list.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from app.automations.run_states import end_waits
from app.clock import now
from app.contacts.events import ContactKey
from app.contacts.subscriptions import lock_subscriptions
from app.contacts.suppress import unsubscribe
from app.db.database import Transaction
from app.db.models import Account, Contact, List, Recipient, Send, SmsSender
from app.db.types import storable_id, storable_text
from app.errors import ServiceError
from app.events.outbox import record, reply_event
from app.inbound.effect import is_first
from app.inbound.texts import first_text, select_texts
from app.recipients.row import RecipientRow, add_steps, lock_recipient
from app.recipients.timeline import TimelineStep
from app.sends.accept.senders import has_stop_word
from app.tracking.feedback_channels import UnsubscribeRequest, apply_unsubscribe

MAX_REPLY_LENGTH = 10_000


def record_reply(
    transaction: Transaction,
    mobile: str,
    number: str,
    body_text: str,
    *,
    message_id: str | None = None,
    test_account: int | None = None,
) -> bool:
    """Records the reply of `mobile` for the account that owns `number`; a stop word in it unsubscribes the mobile.

    `message_id` is the gateway's id of the reply, if it gives one: the same id again changes nothing, and False is
    returned. `test_account` is the account of a simulated reply; any other reply is to a live account. Raises
    `ServiceError` (`invalid_id`) for a number that no account has.
    """
    mobile, number = plain_number(mobile), plain_number(number)
    message_id = storable_id(message_id)
    approved = _approved(number, test_account)
    text = _last_text(transaction, mobile, number, approved)
    account_id = text.account_id if text else _owner(transaction, number, approved)
    lock_subscriptions(transaction, account_id)
    if text and text.step_id is not None:
        lock_recipient(transaction, text.id)  # so that a run that waits for the reply does not miss it
    if message_id is not None and not is_first(transaction, account_id, f"reply {number} {message_id}", "reply"):
        return False
    moment, body_text = now(), _storable(body_text)
    answered = text.event("received", moment) if text else None
    numbers_list = _list_of(transaction, account_id, number) if text is None or text.list_id is None else None
    contact = _contact_of(transaction, account_id, numbers_list, mobile)
    event = reply_event(answered, contact, mobile=mobile, body_text=body_text, moment=moment)
    record(transaction, account_id, [event])
    if text:
        add_steps(transaction, [text.step(TimelineStep.RECEIVED, body_text or None, moment)])
        if text.step_id is not None:
            end_waits(transaction, {"replied": [text.id]})
    list_id = text.list_id if text else numbers_list
    if has_stop_word(body_text, _stop_words(transaction, list_id)):
        if text:
            apply_unsubscribe(transaction, UnsubscribeRequest.of(text))
        else:
            unsubscribe(transaction, account_id, "mobile", mobile, list_id)
    return True


def account_of(session: Session, mobile: str, number: str) -> int:
    """The account that a reply of `mobile` to `number` belongs to, both as plain numbers.

    Raises `ServiceError` (`invalid_id`) for a number that no account has.
    """
    approved = _approved(number)
    text = _last_text(session, mobile, number, approved)
    return text.account_id if text else _owner(session, number, approved)


def plain_number(text: str) -> str:
    """A number without plus, spaces and control characters, as numbers are stored."""
    return storable_text(text).replace(" ", "").removeprefix("+")


def _storable(body_text: str) -> str:
    return body_text.replace("\0", "").encode("utf-8", "replace").decode()[:MAX_REPLY_LENGTH]


def _approved(number: str, test_account: int | None = None) -> Select[int]:
    """The live accounts that have the number, or the test account. A test account has copies of numbers, but nobody has
    got its messages, so that no reply is to them."""
    approved = select(SmsSender.account_id).where(SmsSender.address == number)
    if test_account is not None:
        return approved.where(SmsSender.account_id == test_account)
    return approved.join(Account, Account.id == SmsSender.account_id).where(Account.test_of.is_(None))


def _last_text(session: Session, mobile: str, number: str, approved: Select[int]) -> RecipientRow | None:
    """The last message that was sent to the mobile from the number, by whichever account still has the number."""
    statement = select_texts().where(
        Recipient.mobile == mobile,
        Recipient.sent_time.is_not(None),
        Send.from_address == number,
        Recipient.account_id.in_(approved),
    )
    return first_text(session, statement.order_by(Recipient.sent_time.desc(), Recipient.id.desc()))


def _owner(session: Session, number: str, approved: Select[int]) -> int:
    """The account that had the number first: no other account may read a reply that may not be meant for it."""
    sender = session.scalars(approved.order_by(SmsSender.id).limit(1)).first()
    if sender is None:
        raise ServiceError("invalid_id", field="to", detail=f"no account has the sender {number!r}")
    return sender


def _list_of(session: Session, account_id: int, number: str) -> int | None:
    statement = select(SmsSender.list_id).where(SmsSender.account_id == account_id, SmsSender.address == number)
    return session.scalars(statement).first()


def _contact_of(session: Session, account_id: int, list_id: int | None, mobile: str) -> ContactKey | None:
    """The contact of the list that has the mobile: of several, the oldest active one, as for a send."""
    if list_id is None:
        return None
    statement = select(Contact.list_id, Contact.id).where(
        Contact.account_id == account_id, Contact.list_id == list_id, Contact.mobile == mobile
    )
    row = session.execute(
        statement.order_by(Contact.is_active.desc(), Contact.creation_time, Contact.id).limit(1)
    ).first()
    return (row.list_id, row.id) if row else None


def _stop_words(session: Session, list_id: int | None) -> Sequence[str]:
    if list_id is None:
        return ()
    return session.scalars(select(List.stop_words).where(List.id == list_id)).first() or ()
