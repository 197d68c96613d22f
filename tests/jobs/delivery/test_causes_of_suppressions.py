"""A suppression keeps the uuid of the message that caused it (docs/suppressions.md#the-list)."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlsplit

from sqlalchemy import select

from app.clock import now, this_second
from app.contacts.blocked import COMPLAINT
from app.contacts.suppress import block, unsubscribe
from app.db.models import BlockedAddress, SmsSender, Unsubscriber
from app.inbound.email.receive import receive_email
from app.inbound.replies import record_reply
from app.sends.delivery.drain import drain
from app.services import Services
from app.tracking.feedback_channels import apply_unsubscribe, find_unsubscribe_request, unsubscribe_link
from app.tracking.tokens import return_path
from tests.support.mail_reports import complaint, delivery_failure
from tests.support.rows import FROM, Rows
from tests.support.tenants import new_mobile
from tests.unit.transports.mailserver import MailServer

ANN = "ann@example.com"


def blocked(rows: Rows) -> list[tuple[str, str, str | None]]:
    """The account's blocked addresses with their reasons and causes."""
    columns = BlockedAddress.address, BlockedAddress.reason, BlockedAddress.uuid
    with rows.services.database.read() as session:
        stored = session.execute(select(*columns).where(BlockedAddress.account_id == rows.account_id))
        return [(address, reason, uuid) for address, reason, uuid in stored]


def unsubscribed(rows: Rows) -> list[tuple[str, int | None, str | None]]:
    """The account's unsubscribed addresses with their lists and causes."""
    columns = Unsubscriber.address, Unsubscriber.list_id, Unsubscriber.uuid
    with rows.services.database.read() as session:
        stored = session.execute(select(*columns).where(Unsubscriber.account_id == rows.account_id))
        return [(address, list_id, uuid) for address, list_id, uuid in stored]


def uuid_of(rows: Rows, recipient_id: int) -> str:
    return str(rows.recipient(recipient_id).uuid)


def reported(worker: Services, rows: Rows, recipient_id: int, status: str | None = None) -> None:
    """A mail server reports that the mail came back with that status, or its reader that it is spam."""
    to = return_path(worker.settings, recipient_id, FROM)
    report = complaint(to, ANN) if status is None else delivery_failure(to, ANN, status=status)
    receive_email(worker, report, [to], patience=0)


def test_a_refusal(rows: Rows, worker: Services, mail_server: MailServer) -> None:
    mail_server.reply(".", "550 5.1.1 no such user")
    (recipient_id,) = rows.add_send([ANN])
    drain(worker)
    assert blocked(rows) == [(ANN, "permanent bounce", uuid_of(rows, recipient_id))]


def test_a_bounce_that_is_reported_later(rows: Rows, worker: Services) -> None:
    (recipient_id,) = rows.add_send([ANN])
    drain(worker)
    reported(worker, rows, recipient_id, "5.1.1")
    assert blocked(rows) == [(ANN, "permanent bounce", uuid_of(rows, recipient_id))]


def test_the_last_of_five_temporary_bounces(rows: Rows, worker: Services) -> None:
    ids = [*rows.add_send([ANN]), *rows.add_send([ANN]), *rows.add_send([ANN]), *rows.add_send([ANN] * 2)]
    drain(worker)
    for recipient_id in ids:
        assert blocked(rows) == []
        reported(worker, rows, recipient_id, "4.2.2")
    assert blocked(rows) == [(ANN, "repeated temporary bounces", uuid_of(rows, ids[-1]))]


def test_the_last_of_five_mails_that_nobody_took(rows: Rows, worker: Services, mail_server: MailServer) -> None:
    for _ in range(5):
        assert blocked(rows) == []
        mail_server.reply(".", "450 4.2.2 mailbox full")
        (recipient_id,) = rows.add_send([ANN], accepted=now() - timedelta(hours=25))
        drain(worker)
    assert blocked(rows) == [(ANN, "repeated temporary bounces", uuid_of(rows, recipient_id))]


def test_a_complaint_and_it_outweighs_another_cause(rows: Rows, worker: Services) -> None:
    list_id = rows.add_list()
    (recipient_id,) = rows.add_send([ANN], list_id=list_id)
    drain(worker)
    worker.database.transact(lambda transaction: block(transaction, rows.account_id, "email", ANN, "by hand"))
    assert blocked(rows) == [(ANN, "by hand", None)]
    reported(worker, rows, recipient_id)
    assert blocked(rows) == [(ANN, COMPLAINT, uuid_of(rows, recipient_id))]
    assert unsubscribed(rows) == [(ANN, list_id, uuid_of(rows, recipient_id))]


def test_an_unsubscribe_link_and_the_first_cause_stays(rows: Rows, worker: Services) -> None:
    list_id = rows.add_list()
    first, second = (rows.add_send([ANN], list_id=list_id)[0] for _ in range(2))
    for recipient_id in (first, second):
        token = urlsplit(unsubscribe_link(worker.settings, recipient_id)).path.rpartition("/")[2]
        with worker.database.write() as transaction:
            request = find_unsubscribe_request(transaction, worker.settings.secret_keys, token)
            assert request is not None
            apply_unsubscribe(transaction, request)
    assert unsubscribed(rows) == [(ANN, list_id, uuid_of(rows, first))]


def test_a_stop_word(rows: Rows, worker: Services) -> None:
    mobile, number, list_id = new_mobile(), new_mobile(), rows.add_list()
    rows.add(SmsSender, address=number, kind="virtual_number", list_id=None, creation_time=this_second())
    (recipient_id,) = rows.add_send([mobile], type="sms", list_id=list_id, from_address=number)
    rows.change([recipient_id], state="sent", sent_time=now())
    with worker.database.write() as transaction:
        record_reply(transaction, mobile, number, "STOP")
    assert unsubscribed(rows) == [(mobile, list_id, uuid_of(rows, recipient_id))]


def test_what_no_message_has_caused_has_none(rows: Rows, worker: Services) -> None:
    worker.database.transact(lambda transaction: unsubscribe(transaction, rows.account_id, "email", ANN, None))
    assert unsubscribed(rows) == [(ANN, None, None)]
