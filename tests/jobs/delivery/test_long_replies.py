"""Long replies over SMPP: their parts are joined in whatever order they arrive (docs/sms.md#replies)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import pytest
from sqlalchemy import delete, update

from app.clock import now, this_second
from app.db.models import ReplyPart, SmsSender
from app.inbound.smpp import REASSEMBLY_TIMEOUT, flush_overdue, has_overdue_parts, incoming_handler
from app.sends.delivery.sender_worker import sender_worker_of
from tests.jobs.delivery.conftest import Changed, events
from tests.support.rows import Rows
from tests.support.smpp import OK
from tests.support.smsc import Smsc
from tests.support.tenants import new_mobile

UDH = 0x40
PARTS = (b"I would like to ", b"come, but ", b"later.")
WHOLE = "I would like to come, but later."


@dataclass
class Phone:
    """A person who writes to a number of the account."""

    smsc: Smsc
    rows: Rows
    mobile: str
    number: str

    def part(self, position: int, body: bytes, *, total: int = 3, reference: int = 7, coding: int = 0) -> None:
        header = bytes((5, 0, 3, reference, total, position))
        assert self.smsc.deliver(self.mobile, self.number, header + body, esm_class=UDH, coding=coding) == OK

    def replies(self) -> list[str]:
        return [event["body_text"] for event in events(self.rows)]


@pytest.fixture
def smsc() -> Iterator[Smsc]:
    with Smsc() as server:
        yield server


@pytest.fixture
def phone(smsc: Smsc, rows: Rows, make_worker: Changed) -> Phone:
    worker = make_worker(sms_transport_url=smsc.url())
    sender_worker_of(worker, incoming_handler(worker))
    rows.add_webhook()
    number = new_mobile()
    rows.add(SmsSender, address=number, kind="virtual_number", list_id=None, creation_time=this_second())
    return Phone(smsc, rows, new_mobile(), number)


def let_time_pass(phone: Phone) -> None:
    """Makes the parts older than the waiting time and runs the sweep that finds them."""
    services = phone.rows.services
    with services.database.write() as transaction:
        ours = ReplyPart.account_id == phone.rows.account_id
        moment = now() - REASSEMBLY_TIMEOUT - timedelta(seconds=1)
        transaction.execute(update(ReplyPart).where(ours).values(time=moment))
    with services.database.read() as session:
        assert has_overdue_parts(session)
    flush_overdue(services)


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2), (2, 2, 3, 1, 1, 3), (1, 2, 3, 1, 2, 3)])
def test_a_reassembled_reply_is_reported_once_with_its_parts_in_order(phone: Phone, order: tuple[int, ...]) -> None:
    for position in order:
        phone.part(position, PARTS[position - 1])
    assert phone.replies() == [WHOLE]


def test_parts_with_different_references_or_senders_are_not_joined(phone: Phone) -> None:
    other = Phone(phone.smsc, phone.rows, new_mobile(), phone.number)
    phone.part(1, b"one ", total=2, reference=1)
    phone.part(1, b"two ", total=2, reference=2)
    other.part(2, b"other", total=2, reference=1)
    phone.part(2, b"1", total=2, reference=1)
    phone.part(2, b"2", total=2, reference=2)
    assert phone.replies() == ["one 1", "two 2"]


def test_a_character_split_between_parts_is_reassembled(phone: Phone) -> None:
    body = "Danke 😀".encode("utf-16-be")
    phone.part(2, body[-2:], total=2, coding=8)
    phone.part(1, body[:-2], total=2, coding=8)
    assert phone.replies() == ["Danke 😀"]


def test_a_stop_word_in_a_reassembled_reply_unsubscribes(phone: Phone) -> None:
    phone.part(1, b"ST", total=2)
    phone.part(2, b"OP", total=2)
    assert phone.replies() == ["STOP"]


def test_an_incomplete_reply_is_reported_after_the_waiting_time(phone: Phone) -> None:
    phone.part(1, PARTS[0])
    phone.part(3, PARTS[2])
    assert phone.replies() == []
    let_time_pass(phone)
    assert phone.replies() == ["I would like to  … later."]
    phone.part(2, PARTS[1])
    assert phone.replies()[1:] == ["come, but "]
    let_time_pass(phone)
    assert len(phone.replies()) == 2


def test_a_reference_may_be_used_again(phone: Phone) -> None:
    """The next reply may use the reference within minutes, even if the first was never completed."""
    for body in (b"first ", b"second "):
        phone.part(1, body, total=2)
        phone.part(2, b"text", total=2)
    phone.part(1, b"third ", total=2)
    phone.part(1, b"fourth ", total=2)
    phone.part(2, b"text!", total=2)
    assert phone.replies() == ["first text", "second text", "third  … ", "fourth text!"]


def test_parts_of_reported_replies_are_deleted_after_a_while(phone: Phone) -> None:
    for _ in range(2):
        for position in (1, 2, 3):
            phone.part(position, PARTS[position - 1])
        let_time_pass(phone)
    assert phone.replies() == [WHOLE, WHOLE]


def test_parts_to_a_number_without_an_account_delay_no_others(phone: Phone) -> None:
    """The number was removed while they waited: they are deleted, and the parts of other replies are reported."""
    phone.part(1, PARTS[0])
    other = Phone(phone.smsc, phone.rows, phone.mobile, new_mobile())
    sender = phone.rows.add(
        SmsSender, address=other.number, kind="virtual_number", list_id=None, creation_time=this_second()
    )
    other.part(1, PARTS[0])
    with phone.rows.services.database.write() as transaction:
        transaction.execute(delete(SmsSender).where(SmsSender.id == sender))
    let_time_pass(phone)
    assert phone.replies() == ["I would like to  … "]
    with phone.rows.services.database.read() as session:
        assert not has_overdue_parts(session)
