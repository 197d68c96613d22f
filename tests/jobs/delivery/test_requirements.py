"""What a send needed when it was accepted is asked again when it leaves (docs/waiting.md)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, update

from app.accounts.domains import add_domain, delete_domain
from app.clock import now, this_second
from app.db.models import Account, Domain, RelayRefusal, SmsSender
from app.maintenance.overview import read_put_off
from app.sends.delivery.drain import drain
from app.services import Services
from tests.jobs.delivery.conftest import events, texts
from tests.jobs.delivery.test_signing import give_keys
from tests.support.rows import NUMBER, Rows
from tests.support.statements import StatementCounter
from tests.unit.transports.mailserver import MailServer

each = pytest.mark.parametrize
Change = Callable[[Rows], None]
NO_DOMAIN = "not sent: the account has no sending domain acme.example"
NO_OWNER = "not sent: the owner of the account has not confirmed the address"
NO_SENDER = f"not sent: {NUMBER} is no approved sender for this message"


def change(rows: Rows, model: Any, **values: Any) -> None:
    with rows.services.database.write() as transaction:
        account_id = Account.id if model is Account else model.account_id
        transaction.execute(update(model).where(account_id == rows.account_id).values(**values))


def remove_domain(rows: Rows) -> None:
    with rows.services.database.write() as transaction:
        delete_domain(transaction, rows.account_id, "acme.example")


def add_domain_again(rows: Rows) -> None:
    with rows.services.database.write() as transaction:
        secret_key = rows.services.settings.secret_key
        add_domain(transaction, rows.account_id, "acme.example", trusted=True, secret_key=secret_key)


def remove_sender(rows: Rows) -> None:
    with rows.services.database.write() as transaction:
        transaction.execute(delete(SmsSender).where(SmsSender.account_id == rows.account_id))


def approve_sender(rows: Rows) -> None:
    rows.add(SmsSender, address=NUMBER, kind="number", list_id=None, creation_time=this_second())


def assign_sender(rows: Rows) -> None:
    change(rows, SmsSender, list_id=rows.add_list())


LOST: dict[str, tuple[str, Change, str, Change]] = {
    "a domain that was deleted": ("email", remove_domain, NO_DOMAIN, add_domain_again),
    "a domain that is not verified any more": (
        "email",
        lambda rows: change(rows, Domain, verified_time=None),
        "not sent: the sending domain acme.example is not verified",
        lambda rows: change(rows, Domain, verified_time=this_second()),
    ),
    "a confirmation that was taken back": (
        "email",
        lambda rows: change(rows, Account, owner_confirmed=False),
        NO_OWNER,
        lambda rows: change(rows, Account, owner_confirmed=True),
    ),
    "a confirmation that was taken back, of a text": (
        "sms",
        lambda rows: change(rows, Account, owner_confirmed=False),
        NO_OWNER,
        lambda rows: change(rows, Account, owner_confirmed=True),
    ),
    "a sender that was withdrawn": ("sms", remove_sender, NO_SENDER, approve_sender),
    "a sender that was assigned to another list": (
        "sms",
        assign_sender,
        NO_SENDER,
        lambda rows: change(rows, SmsSender, list_id=None),
    ),
}
"""What is lost -> the type of the message, what loses it, what the timeline says, and what brings it back."""


def send(rows: Rows, type_: str, **content: Any) -> int:
    (recipient_id,) = rows.add_send(["61411111111" if type_ == "sms" else "ann@example.com"], type=type_, **content)
    return recipient_id


@each("lost", LOST)
def test_a_message_waits_until_its_account_has_again_what_it_needs(
    rows: Rows, worker: Services, mail_server: MailServer, tmp_path: Path, lost: str
) -> None:
    type_, lose, said, bring_back = LOST[lost]
    recipient_id = send(rows, type_)
    lose(rows)
    drain(worker)
    assert (mail_server.mails, texts(tmp_path / "sms")) == ([], [])
    assert (rows.recipient(recipient_id).state, rows.steps(recipient_id)) == ("queued", [("deferred", said)])
    assert rows.recipient(recipient_id).due_time > now()
    bring_back(rows)
    rows.make_due([recipient_id])
    drain(worker)
    assert rows.recipient(recipient_id).state == ("sent" if type_ == "sms" else "delivered")


@each("lost", LOST)
def test_a_scheduled_message_needs_it_when_it_is_due(
    rows: Rows, worker: Services, mail_server: MailServer, tmp_path: Path, lost: str
) -> None:
    """What was there when it was accepted, and was lost and brought back before, does not matter."""
    type_, lose, said, bring_back = LOST[lost]
    late, in_time = send(rows, type_), send(rows, type_)
    rows.schedule([late, in_time], this_second() + timedelta(days=1))
    lose(rows)
    rows.schedule([late], this_second() - timedelta(minutes=1))
    drain(worker)
    assert (mail_server.mails, texts(tmp_path / "sms")) == ([], [])
    assert (rows.states([late, in_time]), rows.steps(late)) == (["queued", "scheduled"], [("deferred", said)])
    bring_back(rows)
    rows.schedule([in_time], this_second() - timedelta(minutes=1))
    drain(worker)
    assert (rows.states([late, in_time]), len(rows.steps(in_time))) == (
        ["queued", "sent" if type_ == "sms" else "delivered"],
        1,
    )


@each("type_, ends", [("email", ("bounced", NO_DOMAIN)), ("sms", ("failed", "expired"))])
def test_what_is_not_brought_back_ends_with_the_retry_period_and_blocks_nobody(
    rows: Rows, worker: Services, type_: str, ends: tuple[str, str]
) -> None:
    rows.add_webhook()
    recipient_id = send(rows, type_, accepted=now() - timedelta(days=1, seconds=1))
    (remove_domain if type_ == "email" else remove_sender)(rows)
    drain(worker)
    recipient = rows.recipient(recipient_id)
    assert (recipient.state, recipient.reason.removesuffix(" (4.7.1)")) == ends
    (event,) = events(rows)
    assert event.get("is_temporary_bounce", True) is True


def test_mail_that_waited_for_its_domain_leaves_signed(rows: Rows, worker: Services, mail_server: MailServer) -> None:
    give_keys(worker, rows.account_id)
    recipient_id = send(rows, "email")
    remove_domain(rows)
    drain(worker)
    add_domain_again(rows)
    rows.make_due([recipient_id])
    drain(worker)
    (mail,) = mail_server.mails
    assert b"DKIM-Signature:" in mail.content


def test_the_domain_of_the_blind_copies_is_asked_for_as_well(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    recipient_id = send(rows, "email", bcc_address="archive@copies.example")
    drain(worker)
    assert rows.steps(recipient_id) == [("deferred", "not sent: the account has no sending domain copies.example")]
    with worker.database.write() as transaction:
        secret_key = worker.settings.secret_key
        add_domain(transaction, rows.account_id, "copies.example", trusted=True, secret_key=secret_key)
    rows.make_due([recipient_id])
    drain(worker)
    assert [mail.recipients for mail in mail_server.mails] == [["ann@example.com"], ["archive@copies.example"]]


def test_a_domain_of_another_account_does_not_count(
    rows: Rows, other_id: int, worker: Services, mail_server: MailServer
) -> None:
    """Both accounts have a message from the domain in one batch. One of them has lost the domain."""
    recipient_id, other = send(rows, "email"), Rows(worker, other_id).add_send(["bob@example.com"])[0]
    remove_domain(rows)
    drain(worker)
    assert rows.states([recipient_id, other]) == ["queued", "delivered"]
    assert [mail.recipients for mail in mail_server.mails] == [["bob@example.com"]]


def test_who_would_be_skipped_is_skipped_whatever_the_send_lacks(rows: Rows, worker: Services) -> None:
    (recipient_id,) = rows.add_send([{"contact_id": 1 << 40}])
    remove_domain(rows)
    drain(worker)
    assert (rows.recipient(recipient_id).state, rows.recipient(recipient_id).reason) == ("failed", "contact_deleted")


def test_it_is_no_refusal_of_a_relay_and_no_back_off_of_a_domain(rows: Rows, worker: Services) -> None:
    ids = rows.add_send([f"ann@{number}.example" for number in range(5)])
    remove_domain(rows)
    drain(worker)
    add_domain_again(rows)
    rows.make_due(ids)
    drain(worker)
    assert set(rows.states(ids)) == {"delivered"}
    with worker.database.read() as session:
        assert session.query(RelayRefusal).filter_by(account_id=rows.account_id).count() == 0


def test_status_says_what_such_messages_lack_and_blames_no_transport(rows: Rows, worker: Services) -> None:
    rows.add_send(["ann@example.com", "bob@example.com"])
    remove_domain(rows)
    drain(worker)
    with worker.database.read() as session:
        groups = [group for group in read_put_off(session, now()) if group.reply == NO_DOMAIN]
    assert [(group.transport, group.number) for group in groups] == [(None, 2)]


def test_asking_takes_no_further_statement(rows: Rows, worker: Services, mail_server: MailServer) -> None:
    """A batch of mail from a domain that is not verified takes no more than one that is sent."""
    counts = []
    for verified in (this_second(), None):
        change(rows, Domain, verified_time=verified)
        send(rows, "email")
        with StatementCounter(worker.database.engine) as counter:
            drain(worker)
        counts.append(counter.count)
    assert len(mail_server.mails) == 1
    assert counts[1] <= counts[0]
