"""Effects of an outcome on states, counters, events, timelines and blocked addresses
(docs/delivery.md#recipient-states)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from app.clock import now
from app.db.models import BlockedAddress, RecipientStep, SoftBounces
from app.sends.delivery.drain import drain
from app.services import Services
from app.transports.email import mime
from tests.jobs.delivery.conftest import Changed, events, texts
from tests.support.rows import Rows
from tests.support.servers import free_port
from tests.unit.transports.mailserver import MailServer

NO_SUCH_USER = "550 5.1.1 no such user here"
BUSY = "451 4.3.2 busy, come back later"
LONG_AGO = timedelta(days=2)


def counters(rows: Rows, recipient_id: int) -> tuple[int, int, int]:
    """The counts of delivered, bounced and failed recipients of the group."""
    group = rows.group_of(recipient_id)
    return group.delivered, group.bounced, group.failed_contacts


def blocked(rows: Rows) -> list[tuple[str, str, str]]:
    """The blocked addresses of the account."""
    columns = select(BlockedAddress.kind, BlockedAddress.address, BlockedAddress.reason)
    with rows.services.database.read() as session:
        blocked_rows = session.execute(columns.where(BlockedAddress.account_id == rows.account_id))
        return sorted((kind, address, reason) for kind, address, reason in blocked_rows)


def soft_bounces(rows: Rows) -> dict[str, int]:
    """The count of soft bounces by address."""
    with rows.services.database.read() as session:
        counts = session.scalars(select(SoftBounces).where(SoftBounces.account_id == rows.account_id))
        return {row.address: row.bounces for row in counts if row.reset_by is None}


def test_an_accepted_mail_is_delivered(rows: Rows, worker: Services, mail_server: MailServer) -> None:
    """An email counts as delivered when the next mail server has accepted it."""
    rows.add_webhook()
    (ann,) = rows.add_send(["ann@example.com"], message_id=7)
    drain(worker)
    recipient, group = rows.recipient(ann), rows.group_of(ann)
    assert [mail.recipients for mail in mail_server.mails] == [["ann@example.com"]]
    assert (recipient.state, recipient.attempts, recipient.worker, recipient.lease_time) == ("delivered", 1, None, None)
    assert recipient.sent_time is not None
    assert recipient.sent_time.microsecond == 0
    assert recipient.open_type == "not_opened"
    assert counters(rows, ann) == (1, 0, 0)
    assert rows.steps(ann) == [("sent", "250 2.0.0 queued")]
    (event,) = events(rows)
    assert event.pop("timestamp").endswith("Z")
    assert event == {
        "object": "recipient",
        "event": "sent",
        "id": ann,
        "uuid": recipient.uuid,
        "group_id": group.id,
        "group_name": f"group {group.id}",
        "report_id": group.id,
        "message_id": 7,
        "message_type": "email",
        "email": "ann@example.com",
    }


def test_an_accepted_sms_is_sent(rows: Rows, worker: Services, tmp_path: Path) -> None:
    """An sms is sent when the gateway accepted it; it is not acknowledged yet."""
    rows.add_webhook()
    (ann,) = rows.add_send(["61411111111"], type="sms", body_text="Hi STOP")
    drain(worker)
    recipient = rows.recipient(ann)
    assert (recipient.state, recipient.open_type, counters(rows, ann)) == ("sent", "sms", (1, 0, 0))
    assert (recipient.segments, recipient.gateway_id) == (1, None)
    assert texts(tmp_path / "sms") == [
        {"uuid": recipient.uuid, "from": "61400000001", "to": "61411111111", "text": "Hi STOP", "segments": 1}
    ]
    (event,) = events(rows)
    assert (event["event"], event["mobile"], event["message_type"]) == ("sent", "61411111111", "sms")
    assert "email" not in event


def test_a_refused_mail_bounces_and_blocks_the_address(rows: Rows, worker: Services, mail_server: MailServer) -> None:
    """A 5xx reply is stored with its RFC 3463 code."""
    rows.add_webhook()
    mail_server.reply("Gone@example.com", NO_SUCH_USER)
    gone, ann = rows.add_send(["Gone@example.com", "ann@example.com"])
    drain(worker)
    assert rows.states([gone, ann]) == ["bounced", "delivered"]
    assert counters(rows, gone) == (1, 1, 0)
    assert rows.steps(gone) == [("bounced", NO_SUCH_USER)]
    assert (rows.recipient(gone).reason, rows.recipient(gone).sent_time) == (NO_SUCH_USER, None)
    (event,) = [event for event in events(rows) if event["id"] == gone]
    assert event["event"] == "bounced"
    assert event["bounce_reason"] == "bad destination address"
    assert event["bounce_string"] == NO_SUCH_USER
    assert event["is_temporary_bounce"] is False
    assert blocked(rows) == [("email", "gone@example.com", "permanent bounce")]


def test_a_reply_without_a_status_code_gets_one(rows: Rows, worker: Services, mail_server: MailServer) -> None:
    """`bounce_string` always contains an RFC 3463 code."""
    rows.add_webhook()
    mail_server.reply(".", "554 go away")
    rows.add_send(["ann@example.com"])
    drain(worker)
    assert [event["bounce_string"] for event in events(rows)] == ["554 go away (5.0.0)"]


def test_a_deferred_mail_waits_for_its_retry(rows: Rows, worker: Services, mail_server: MailServer) -> None:
    """Until the retry it is neither delivered nor bounced. The first retry comes after 30 s."""
    rows.add_webhook()
    mail_server.reply(".", BUSY)
    before = now()
    (ann,) = rows.add_send(["ann@example.com"])
    drain(worker)
    after = now()
    recipient = rows.recipient(ann)
    assert (recipient.state, recipient.reason, recipient.worker, recipient.attempts) == ("queued", None, None, 1)
    assert before + timedelta(seconds=30) <= recipient.due_time <= after + timedelta(seconds=33)
    assert counters(rows, ann) == (0, 0, 0)
    assert rows.steps(ann) == [("deferred", BUSY)]
    assert events(rows) == []


def test_a_deferred_mail_is_sent_at_its_retry(rows: Rows, make_worker: Changed, mail_server: MailServer) -> None:
    """A drain claims rows that became due meanwhile; the mail keeps its Message-ID."""
    mail_server.reply(".", BUSY)
    (ann,) = rows.add_send(["ann@example.com"])
    drain(make_worker(retry_delay=0.0))
    assert (rows.states([ann]), rows.recipient(ann).attempts) == (["delivered"], 2)
    assert [step for step, _ in rows.steps(ann)] == ["deferred", "sent"]


def test_a_relay_that_cannot_be_reached_defers(rows: Rows, make_worker: Changed) -> None:
    """A failed connection is a temporary refusal."""
    (ann,) = rows.add_send(["ann@example.com"])
    drain(make_worker(email_transport_url=f"smtp://127.0.0.1:{free_port()}"))
    assert rows.states([ann]) == ["queued"]
    assert blocked(rows) == []


def test_a_mail_deferred_for_the_whole_retry_period_is_a_temporary_bounce(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    """The mail is bounced with `is_temporary_bounce` true, which does not block the address yet."""
    rows.add_webhook()
    mail_server.reply(".", BUSY)
    (ann,) = rows.add_send(["ann@example.com"], accepted=now() - LONG_AGO)
    drain(worker)
    assert (rows.states([ann]), counters(rows, ann)) == (["bounced"], (0, 1, 0))
    (event,) = events(rows)
    assert (event["event"], event["is_temporary_bounce"], event["bounce_string"]) == ("bounced", True, BUSY)
    assert (blocked(rows), soft_bounces(rows)) == ([], {"ann@example.com": 1})


def test_five_soft_bounces_block(rows: Rows, worker: Services, mail_server: MailServer) -> None:
    """Without a delivery between them; the count then starts at zero."""
    for bounces in range(1, 6):
        assert blocked(rows) == []
        mail_server.reply(".", BUSY)
        rows.add_send(["Ann@example.com"], accepted=now() - LONG_AGO)
        drain(worker)
        assert soft_bounces(rows) == ({"ann@example.com": bounces} if bounces < 5 else {})
    assert blocked(rows) == [("email", "ann@example.com", "repeated temporary bounces")]


def test_a_delivery_resets_the_count_of_soft_bounces(rows: Rows, worker: Services) -> None:
    """Counts of other addresses stay."""
    for address in ("ann@example.com", "bob@example.com"):
        rows.add(SoftBounces, kind="email", address=address, bounces=4)
    rows.add_send(["ANN@example.com"])
    drain(worker)
    assert soft_bounces(rows) == {"bob@example.com": 4}


def test_soft_bounces_are_counted_per_account(rows: Rows, worker: Services, other_id: int) -> None:
    """A bounce of one account does not count for another."""
    other = Rows(worker, other_id)
    other.add(SoftBounces, kind="email", address="ann@example.com", bounces=4)
    rows.add_send(["ann@example.com"])
    drain(worker)
    assert soft_bounces(other) == {"ann@example.com": 4}


def test_an_address_that_is_blocked_already_keeps_its_reason(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    """Two sends may fail at the same time."""
    for _ in range(2):
        mail_server.reply("gone@example.com", NO_SUCH_USER)
        rows.add_send(["gone@example.com"])
    drain(worker)
    assert blocked(rows) == [("email", "gone@example.com", "permanent bounce")]


def test_an_sms_deferred_for_the_whole_retry_period_expires(rows: Rows, make_worker: Changed, tmp_path: Path) -> None:
    """The text message is failed with `expired`."""
    rows.add_webhook()
    (tmp_path / "file").write_text("no folder can be made here")
    (ann,) = rows.add_send(["61411111111"], type="sms", accepted=now() - LONG_AGO)
    drain(make_worker(sms_transport_url=f"file://{tmp_path / 'file' / 'sms'}"))
    assert (rows.states([ann]), counters(rows, ann)) == (["failed"], (0, 0, 1))
    assert [(event["event"], event["fail_reason"]) for event in events(rows)] == [("failed", "expired")]
    assert (blocked(rows), soft_bounces(rows)) == ([], {})


def test_sends_of_one_group_add_up(rows: Rows, worker: Services) -> None:
    """A group counts the recipients of all its sends."""
    group_id = rows.add_group()
    ids = [rows.add_send([f"{send}-{name}@example.com" for name in "abc"], group_id=group_id) for send in range(3)]
    drain(worker)
    assert counters(rows, ids[0][0]) == (9, 0, 0)


def test_an_internal_error_defers(
    rows: Rows, worker: Services, mail_server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that cannot be built must neither be lost nor delay the next one."""
    real = mime.build

    def broken(**fields: object) -> bytes:
        if fields["to"] == "ann@example.com":
            raise RuntimeError("a fault")
        return real(**fields)  # type: ignore[arg-type]

    monkeypatch.setattr(mime, "build", broken)
    ann, bob = rows.add_send(["ann@example.com", "bob@example.com"])
    drain(worker)
    assert rows.states([ann, bob]) == ["queued", "delivered"]
    assert rows.steps(ann) == [("deferred", "internal fault: RuntimeError")]


def test_a_reply_with_characters_that_databases_cannot_store_is_cleaned(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    """Replies of the other side may contain anything and may be long."""
    mail_server.reply(".", "554 5.7.1 no\0pe " + "x" * 400)
    (ann,) = rows.add_send(["ann@example.com"])
    drain(worker)
    ((step, detail),) = rows.steps(ann)
    assert (step, rows.states([ann])) == ("bounced", ["bounced"])
    assert detail is not None
    assert detail.startswith("554 5.7.1 no pe xxx")


def test_a_row_that_is_not_due_is_not_claimed(rows: Rows, worker: Services, mail_server: MailServer) -> None:
    (ann,) = rows.add_send(["ann@example.com"], due_in=3600)
    drain(worker)
    assert (rows.states([ann]), mail_server.mails) == (["queued"], [])


def test_events_have_the_order_of_the_request(rows: Rows, make_worker: Changed) -> None:
    """One connection keeps the order of the request, and events keep that of the outcomes (docs/webhooks.md)."""
    rows.add_webhook()
    ids = rows.add_send([f"{number}@example.com" for number in range(30)])
    drain(make_worker(send_connections=1))
    assert [event["id"] for event in events(rows)] == ids


def notes(rows: Rows, recipient_id: int) -> list[tuple[str | None, str | None]]:
    """The tenant's and the operator's text of each step."""
    steps = select(RecipientStep).where(RecipientStep.recipient_id == recipient_id).order_by(RecipientStep.id)
    with rows.services.database.read() as session:
        return [(step.detail, step.note) for step in session.scalars(steps)]


def test_names_of_the_installation_are_shown_to_the_operator_only(
    rows: Rows, make_worker: Changed, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the timeline nor the bounce event names the relay that could not be reached; the log does."""
    rows.add_webhook()
    port = free_port()
    (waiting,) = rows.add_send(["a@example.com"])
    (given_up,) = rows.add_send(["b@example.com"], accepted=now() - LONG_AGO)
    with caplog.at_level("INFO"):
        drain(make_worker(email_transport_url=f"smtp://127.0.0.1:{port}"))
    ((detail, note),) = notes(rows, waiting)
    assert detail == "no connection to the relay"
    assert f"127.0.0.1:{port}" in (note or "")
    reason = "no connection to the relay (4.4.1)"
    assert notes(rows, given_up) == [(reason, note)]
    assert rows.recipient(given_up).reason == reason
    assert [event["bounce_string"] for event in events(rows)] == [reason]
    assert {record.__dict__.get("note") for record in caplog.records if record.getMessage() == "deferred"} == {note}


def test_the_host_name_in_a_reply_of_the_relay_is_redacted_for_tenants(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    rows.add_webhook()
    reply = f"550 5.7.1 relay.internal says no, ask 127.0.0.1:{mail_server.port} why ann@example.com is unknown"
    mail_server.reply(".", reply)
    (refused,) = rows.add_send(["ann@example.com"])
    drain(worker)
    reason = "550 5.7.1 [hidden] says no, ask [hidden] why ann@example.com is unknown"
    assert notes(rows, refused) == [(reason, reply)]
    assert [event["bounce_string"] for event in events(rows)] == [reason]
