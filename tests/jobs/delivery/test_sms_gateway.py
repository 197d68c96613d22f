"""A worker and an SMPP gateway: texts, receipts and replies over one connection (docs/sms.md)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy.event import listen, remove

from app.clock import this_second
from app.db.models import SmsSender
from app.inbound.smpp import incoming_handler
from app.sends.delivery.drain import drain
from app.sends.delivery.sender_worker import sender_worker_of
from app.services import Services
from tests.jobs.delivery.conftest import Changed, events, fail_writing
from tests.support.rows import Rows
from tests.support.servers import PATIENCE, wait_until
from tests.support.smpp import LATER, NEVER, OK
from tests.support.smsc import Smsc
from tests.support.statements import StatementCounter
from tests.support.tenants import new_mobile


@pytest.fixture
def smsc() -> Iterator[Smsc]:
    with Smsc() as gateway:
        yield gateway


@pytest.fixture
def sender(make_worker: Changed, smsc: Smsc) -> Services:
    """A worker that sends its text messages to the gateway."""
    return make_worker(sms_transport_url=smsc.url())


def test_a_text_is_sent_and_acknowledged(rows: Rows, sender: Services, smsc: Smsc) -> None:
    rows.add_webhook()
    (ann,) = rows.add_send([new_mobile()], type="sms", body_text="Hi STOP")
    drain(sender, incoming_handler(sender))
    recipient = rows.recipient(ann)
    assert (recipient.state, recipient.gateway_id, recipient.segments) == ("sent", "m1", 1)
    assert [smsc.receipt("m1") for _ in range(2)] == [OK, OK]
    assert rows.recipient(ann).state == "delivered"
    assert [event["event"] for event in events(rows)] == ["sent", "acknowledged"]
    assert [step for step, _ in rows.steps(ann)] == ["sent", "acknowledged"]


def test_a_receipt_of_a_failure_bounces_the_recipient(rows: Rows, sender: Services, smsc: Smsc) -> None:
    rows.add_webhook()
    (ann,) = rows.add_send([new_mobile()], type="sms", body_text="a" * 200 + " STOP")
    drain(sender, incoming_handler(sender))
    assert (rows.recipient(ann).gateway_id, rows.recipient(ann).segments) == ("m2", 2)
    assert smsc.receipt("m2", "UNDELIV") == OK
    group = rows.group_of(ann)
    assert (rows.recipient(ann).state, group.delivered, group.bounced) == ("bounced", 0, 1)
    assert events(rows)[-1]["bounce_string"].endswith("stat:UNDELIV err:000")


def test_a_receipt_before_the_gateway_id_is_written_is_not_lost(
    rows: Rows, sender: Services, smsc: Smsc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway answers and reports at once, while the outcome is written a moment later."""
    monkeypatch.setattr("app.inbound.smpp.PATIENCE", PATIENCE)
    (ann,) = rows.add_send([new_mobile()], type="sms")
    sender_worker_of(sender, incoming_handler(sender))
    rows.change([ann], state="sending", worker="slow", lease_time=this_second())
    with ThreadPoolExecutor(1) as gateway, StatementCounter(sender.database.engine, all_threads=True) as counted:
        answer = gateway.submit(smsc.receipt, "early-1")
        wait_until(lambda: any("gateway_id" in statement for statement in counted.statements[:-1]), "it was looked up")
        rows.change([ann], state="sent", gateway_id="early-1", sent_time=this_second(), worker=None, lease_time=None)
        assert answer.result() == OK
    assert rows.recipient(ann).state == "delivered"


def test_a_gateway_id_that_is_written_between_two_lookups_is_found(rows: Rows, sender: Services, smsc: Smsc) -> None:
    """Not written at the first lookup, and nothing in flight any more at the second: it was written between them."""
    (ann,) = rows.add_send([new_mobile()], type="sms")
    sender_worker_of(sender, incoming_handler(sender))
    rows.change([ann], state="sending", worker="slow", lease_time=this_second())
    noting: list[threading.Thread] = []

    def note() -> None:
        rows.change([ann], state="sent", gateway_id="late-1", sent_time=this_second(), worker=None, lease_time=None)

    def note_once(*arguments: Any) -> None:
        if "gateway_id" in arguments[2] and not noting:
            noting.append(threading.Thread(target=note))
            noting[0].start()
            noting[0].join()

    listen(sender.database.engine, "after_cursor_execute", note_once)
    try:
        assert smsc.receipt("late-1") == OK
    finally:
        remove(sender.database.engine, "after_cursor_execute", note_once)
    assert rows.recipient(ann).state == "delivered"


def test_a_receipt_whose_text_has_no_outcome_yet_is_kept_by_the_gateway(
    rows: Rows, sender: Services, smsc: Smsc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker of the text may have died. The outcome is in its journal then, and is written once the journal is
    recovered."""
    monkeypatch.setattr("app.inbound.smpp.PATIENCE", 0)
    (ann,) = rows.add_send([new_mobile()], type="sms")
    sender_worker_of(sender, incoming_handler(sender))
    rows.change([ann], state="sending", worker="dead", lease_time=this_second())
    assert smsc.receipt("early-2") == LATER
    rows.change([ann], state="sent", gateway_id="early-2", sent_time=this_second(), worker=None, lease_time=None)
    assert smsc.receipt("early-2") == OK
    assert rows.recipient(ann).state == "delivered"


def test_a_receipt_waits_only_for_texts_that_were_in_flight_when_it_arrived(
    rows: Rows, sender: Services, smsc: Smsc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A receipt for a text of another program is acknowledged, however many texts follow."""
    monkeypatch.setattr("app.inbound.smpp.PATIENCE", 10 * PATIENCE)
    ann, bob = (rows.add_send([new_mobile()], type="sms")[0] for _ in range(2))
    sender_worker_of(sender, incoming_handler(sender))
    rows.change([ann], state="sending", worker="slow", lease_time=this_second())
    with ThreadPoolExecutor(1) as gateway, StatementCounter(sender.database.engine, all_threads=True) as counted:
        answer = gateway.submit(smsc.receipt, "nobody's")
        wait_until(
            lambda: sum("gateway_id" in statement for statement in counted.statements) > 1, "it was looked up twice"
        )
        rows.change([bob], state="sending", worker="slow", lease_time=this_second())
        rows.change([ann], state="sent", gateway_id="another", sent_time=this_second(), worker=None, lease_time=None)
        assert answer.result() == OK


def test_a_receipt_for_an_unknown_message_is_acknowledged(rows: Rows, sender: Services, smsc: Smsc) -> None:
    """The gateway would repeat the receipt for ever if it were refused."""
    sender_worker_of(sender, incoming_handler(sender))
    assert smsc.receipt("nobody's") == OK
    assert rows.payloads() == []


def test_a_reply_is_accepted_while_nothing_is_sent(rows: Rows, sender: Services, smsc: Smsc) -> None:
    number, mobile = new_mobile(), new_mobile()
    rows.add_webhook()
    rows.add(SmsSender, address=number, kind="virtual_number", list_id=None, creation_time=this_second())
    sender_worker_of(sender, incoming_handler(sender))
    assert smsc.deliver(mobile, number, b"Yes please") == OK
    assert smsc.deliver(mobile, new_mobile(), b"to nobody") == OK
    (event,) = events(rows)
    assert (event["event"], event["mobile"], event["body_text"]) == ("received", mobile, "Yes please")


def test_the_bind_survives_a_drain_that_crashes(
    rows: Rows, sender: Services, smsc: Smsc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Receipts and replies arrive over the same bind without a text to send, and nothing is sent twice."""

    def failing(*_: Any) -> Any:
        raise RuntimeError("a fault")

    number, mobile = new_mobile(), new_mobile()
    rows.add_webhook()
    rows.add(SmsSender, address=number, kind="virtual_number", list_id=None, creation_time=this_second())
    (ann,) = rows.add_send([new_mobile()], type="sms")
    with monkeypatch.context() as patch:
        fail_writing(patch, failing)
        with pytest.raises(RuntimeError):
            drain(sender, incoming_handler(sender))
    assert smsc.deliver(mobile, number, b"Still there?") == OK
    assert [event["body_text"] for event in events(rows)] == ["Still there?"]
    drain(sender, incoming_handler(sender))
    assert rows.states([ann]) == ["sent"]
    assert smsc.receipt("m1") == OK
    assert rows.states([ann]) == ["delivered"]
    assert (len(smsc.binds), len(smsc.submissions)) == (1, 1)


def test_a_drain_that_crashes_while_the_process_stops_unbinds(
    rows: Rows, sender: Services, smsc: Smsc, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> Any:
        sender.stopping.set()
        raise RuntimeError("a fault")

    rows.add_send([new_mobile()], type="sms")
    fail_writing(monkeypatch, failing)
    with pytest.raises(RuntimeError):
        drain(sender, incoming_handler(sender))
    smsc.wait(lambda: not smsc.bound)


def test_a_text_that_the_gateway_refuses_fails(rows: Rows, sender: Services, smsc: Smsc) -> None:
    smsc.statuses += [0x0B, 0x58]
    refused, later = (rows.add_send([new_mobile()], type="sms")[0] for _ in range(2))
    drain(sender, incoming_handler(sender))
    assert sorted(rows.states([refused, later])) == ["failed", "queued"]


def test_what_can_be_kept_of_a_reply_is_kept(rows: Rows, sender: Services, smsc: Smsc) -> None:
    """Control characters of the number are removed, and NUL characters of the text, which PostgreSQL cannot store."""
    number = new_mobile()
    rows.add_webhook()
    rows.add(SmsSender, address=number, kind="virtual_number", list_id=None, creation_time=this_second())
    sender_worker_of(sender, incoming_handler(sender))
    assert smsc.deliver("61\x01411\x7f111111", number, b"Yes\0 please\xff", coding=3) == OK
    assert smsc.deliver(new_mobile(), number, b"\xd8\x00\x00\x00", coding=8) == OK
    replies = [(event["mobile"], event["body_text"]) for event in events(rows)]
    assert (replies[0], replies[1][1]) == (("61411111111", "Yes please\xff"), "\ufffd")


def test_a_reply_that_the_database_refuses_is_not_delivered_for_ever(
    rows: Rows, sender: Services, smsc: Smsc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL refuses a NUL, which nothing removes here; on SQLite no account has this number."""
    number = new_mobile()
    rows.add_webhook()
    rows.add(SmsSender, address=number, kind="virtual_number", list_id=None, creation_time=this_second())
    sender_worker_of(sender, incoming_handler(sender))
    with monkeypatch.context() as patch:
        patch.setattr("app.inbound.replies.plain_number", lambda text: f"{text}\0")
        status = smsc.deliver(new_mobile(), number, b"poison")
    assert status == (NEVER if sender.database.engine.dialect.name == "postgresql" else OK)
    assert smsc.deliver(new_mobile(), number, b"harmless") == OK
    assert events(rows)[-1]["body_text"] == "harmless"
