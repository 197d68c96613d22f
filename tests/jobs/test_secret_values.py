"""Secret values: encrypted until their recipient is settled, gone then, and shown nowhere
(docs/secret-values.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import delete, select, update

from app.clock import now
from app.db.models import CapturedMessage, QueueEntry, Recipient
from app.errors import ServiceError
from app.infrastructure.logs import JsonFormatter
from app.privacy.export import export_person
from app.privacy.forget import forget
from app.sends.delivery.drain import drain
from app.sends.delivery.sender_worker import close_sender_worker
from app.sends.outcomes.requeue import requeue
from app.services import Services
from tests.cli.conftest import Cli
from tests.databases.test_forgetting import files_naming, found_in, rows_naming
from tests.jobs.conftest import changed
from tests.jobs.delivery.conftest import body, parsed
from tests.support.browser import signed_in, words
from tests.support.client import SENDS
from tests.support.sends import AcceptedSend, SendsApi
from tests.support.servers import PATIENCE
from tests.support.tenants import Tenant, new_email, new_mobile
from tests.support.testing import refreshed
from tests.unit.transports.mailserver import MailServer

SECRET = "https://acme.example/reset?token=9f2c7be0-14d85a36"
CODE = "code-482913-of-ann"
MASK = "••••"


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    """The relay."""
    with MailServer() as server:
        yield server


@dataclass
class Installation:
    """An account, and a worker that finds no messages of other tests."""

    sends: SendsApi
    worker: Services
    mail_server: MailServer
    texts: Path

    @property
    def tenant(self) -> Tenant:
        return self.sends.tenant

    def email(self, **changes: Any) -> AcceptedSend:
        """A password reset."""
        return self.sends.send(self.sends.email(**(self.reset | changes)))

    @property
    def reset(self) -> dict[str, Any]:
        return {
            "subject": "Reset with %%code%%",
            "body_html": '<a href="%%reset_link%%&amp;x=1">%%first_name%%</a> <a href="https://acme.example/">home</a>',
            "body_text": "%%first_name%%: %%reset_link%% %%code**no code%% https://acme.example/",
            "secret_values": ["reset_link", "Code"],
            "track_clicks": True,
            "bcc_address": f"copies@{self.tenant.domain}",
            "recipients": [{"email": new_email(), "first_name": "Ann", "Reset_link": SECRET, "code": CODE}],
        }

    def stored(self, accepted: AcceptedSend) -> list[str | None]:
        """What the queue entries hold, of recipients that have one."""
        ids = [row.id for row in accepted.recipients]
        with self.worker.database.read() as session:
            statement = select(QueueEntry.secret_values).where(QueueEntry.recipient_id.in_(ids))
            return list(session.scalars(statement.order_by(QueueEntry.recipient_id)))

    def states(self, accepted: AcceptedSend) -> list[tuple[str, str | None]]:
        return [(row.state, row.reason) for row in accepted.recipients]

    def set_entries(self, accepted: AcceptedSend, **values: Any) -> None:
        """Changes the queue entries of the recipients."""
        ids = [row.id for row in accepted.recipients]
        with self.worker.database.write() as transaction:
            transaction.execute(update(QueueEntry).where(QueueEntry.recipient_id.in_(ids)).values(**values))

    def retried(self, uuid: str) -> str:
        """The error of a retry; empty if there is none."""
        try:
            with self.worker.database.write() as transaction:
                requeue(transaction, uuid)
        except ServiceError as error:
            return error.errors[0].developer_message
        return ""


@pytest.fixture
def installation(tenant: Tenant, mail_server: MailServer, tmp_path: Path) -> Iterator[Installation]:
    with tenant.services.database.write() as transaction:
        transaction.execute(delete(QueueEntry))
    data = tmp_path / "data"
    texts = data / "sms"
    transports = {"email_transport_url": mail_server.url(), "sms_transport_url": f"file://{texts}"}
    worker = changed(tenant.services, data_dir=data, retry_delay=3600.0, **transports)
    yield Installation(SendsApi(tenant), worker, mail_server, texts)
    close_sender_worker(worker)


def assert_nowhere(installation: Installation, caplog: pytest.LogCaptureFixture) -> None:
    """No table, file or line of the log has one of the values."""
    lines = "\n".join(JsonFormatter().format(record) for record in caplog.records if record.name != "mail.log")
    assert rows_naming(installation.worker, SECRET, CODE) == {}
    assert files_naming(installation.worker, SECRET, CODE) == []
    assert not found_in(lines, SECRET, CODE)


def test_no_table_file_or_log_has_a_secret_value_at_any_time(
    installation: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    """Accepted, deferred, and settled in every way; a relay that quotes the message gives nothing away."""
    person = installation.reset["recipients"][0]
    slow, bounced = new_email(), new_email()
    accepted = installation.sends.send(
        installation.sends.email(
            **installation.reset | {"recipients": [person, {**person, "email": slow}, {**person, "email": bounced}]}
        ),
        headers={"Idempotency-Key": slow},
    )
    assert accepted.recipients[0].values == {"Reset_link": None, "code": None, "first_name": "Ann"}
    assert_nowhere(installation, caplog)
    installation.mail_server.reply(slow, f"451 4.7.1 do not like {SECRET}")
    installation.mail_server.reply(bounced, f"550 5.7.1 do not like {SECRET} or {CODE}")
    drain(installation.worker)
    states = installation.states(accepted)
    assert [state for state, _ in states] == ["delivered", "queued", "bounced"]
    assert states[2][1] == f"550 5.7.1 do not like {MASK} or {MASK}"
    assert len([values for values in installation.stored(accepted) if values]) == 1, "the deferred one keeps them"
    assert_nowhere(installation, caplog)
    installation.set_entries(accepted, due_time=now(), ready_time=now())
    drain(installation.worker)
    assert installation.states(accepted)[1][0] == "delivered"
    assert installation.stored(accepted) == []
    assert_nowhere(installation, caplog)
    for uuid in accepted.uuids:
        printed = Cli(installation.tenant.app).text("sends", "show", uuid)
        assert SECRET not in printed
        assert CODE not in printed


def test_the_message_has_the_values_and_no_link_with_one_is_tracked(installation: Installation) -> None:
    """No link is tracked even if the request asks for tracking. The blind copy has a mask in place of the values."""
    installation.email()
    drain(installation.worker)
    mail, copy = (parsed(mail.content) for mail in installation.mail_server.mails)
    assert mail["Subject"] == f"Reset with {CODE}"
    assert f'<a href="{SECRET}&amp;x=1">Ann</a>' in body(mail, "html")
    assert 'href="https://acme.example/"' not in body(mail, "html"), "the other link is tracked"
    assert f"Ann: {SECRET} {CODE} http://" in body(mail, "plain")
    assert copy["Subject"] == f"Reset with {MASK}"
    assert body(copy, "plain").startswith(f"Ann: {MASK} {MASK} https://acme.example/")


def test_a_text_message_has_the_values(installation: Installation) -> None:
    person = {"mobile": new_mobile(), "code": CODE}
    sms = installation.sends.sms(body_text="%%code%% Reply STOP", recipients=[person], secret_values=["code"])
    accepted = installation.sends.send(sms)
    drain(installation.worker)
    assert [path.read_text() for path in installation.texts.rglob("*") if CODE in path.read_text()]
    assert (accepted.recipient.state, accepted.recipient.values) == ("sent", {"code": None})
    assert installation.stored(accepted) == []


def test_one_whose_values_cannot_be_read_fails_and_nothing_is_sent(installation: Installation) -> None:
    """Encrypted under a key that is lost, moved to another recipient, or gone."""
    person = installation.reset["recipients"][0]
    first, second, third, good = (installation.email(recipients=[{**person, "email": new_email()}]) for _ in range(4))
    (moved,) = installation.stored(first)
    installation.set_entries(second, secret_values=moved)
    installation.set_entries(first, secret_values="gAAAAAB")
    installation.set_entries(third, secret_values=None)
    drain(installation.worker)
    failed = ("failed", "secret_values_unreadable")
    assert [installation.states(send) for send in (first, second, third)] == [[failed]] * 3
    assert installation.states(good) == [("delivered", None)]
    assert len(installation.mail_server.mails) == 2, "the good one and its copy"
    assert "secret values were deleted" in installation.retried(first.uuids[0])


def test_settled_recipients_cannot_be_retried_without_their_values(installation: Installation) -> None:
    """One that was accepted by the same request and has none can be."""
    with_secrets, without = new_email(), new_email()
    installation.mail_server.reply(with_secrets, "550 5.1.1 unknown")
    installation.mail_server.reply(without, "550 4.7.1 not now")
    recipients = [{"email": with_secrets, "code": CODE}, {"email": without}]
    accepted = installation.email(recipients=recipients, secret_values=["code"])
    assert [bool(values) for values in installation.stored(accepted)] == [True, False]
    drain(installation.worker)
    assert installation.stored(accepted) == []
    cli = Cli(installation.tenant.app, installation.tenant.name)
    for address in (with_secrets, without):
        cli.text("suppressions", "unblock", address)
    assert [installation.retried(uuid) for uuid in accepted.uuids] == [
        "uuid: its secret values were deleted with its outcome; make a new send",
        "",
    ]


def test_forgetting_a_person_deletes_the_values_and_handing_out_shows_none(installation: Installation) -> None:
    accepted = installation.email()
    email = accepted.recipient.email
    accounts = [installation.tenant.id]
    handed_out = list(export_person(installation.worker, accounts, "email", email) or ())
    (received,) = next(rows for _, place, rows in handed_out if place == "recipients")
    assert received["values"] == {"first_name": "Ann", "Reset_link": MASK, "code": MASK}
    assert forget(installation.worker, accounts, "email", email, wait=PATIENCE).is_complete
    assert installation.stored(accepted) == []
    assert installation.states(accepted) == [("failed", "forgotten")]


def test_the_list_of_the_inbox_masks_them_and_the_captured_message_is_what_has_left(
    installation: Installation,
) -> None:
    """The secret values of this test occur in no other test. The captured message keeps them, and the other tests look
    for theirs everywhere."""
    captured_link = SECRET.replace("reset", "captured")
    person = installation.reset["recipients"][0] | {"Reset_link": captured_link, "code": "code-of-the-inbox"}
    send = installation.sends.email(**installation.reset | {"bcc_address": None, "recipients": [person]})
    test = refreshed(installation.tenant)
    answer = test.api.post(SENDS, send)
    assert answer.status_code == 202, answer.text
    drain(installation.worker)
    listed = test.api.get("/v1/inbox").get_json()
    assert [message["subject"] for message in listed["_embedded"]["messages"]] == [f"Reset with {MASK}"]
    assert captured_link not in orjson.dumps(listed).decode()
    (captured,) = (message["id"] for message in listed["_embedded"]["messages"])
    assert captured_link in body(parsed(test.api.get(f"/v1/inbox/{captured}").get_json()["content"].encode()), "plain")
    with installation.worker.database.read() as session:
        (row,) = session.scalars(select(CapturedMessage).where(CapturedMessage.id == captured))
        assert row.subject == f"Reset with {MASK}"
        assert session.scalars(select(Recipient.values).where(Recipient.id == row.recipient_id)).one()["code"] is None
        account_id, email = row.account_id, row.address
    browser = signed_in(test)
    assert words(browser.get(f"/console/inbox/{captured}")).startswith(f"Reset with {MASK}")
    for page in ("/console/inbox", "/console/inbox.csv", f"/console/inbox?subject=Reset with {MASK}"):
        page_text = browser.get(page).text
        assert f"Reset with {MASK}" in page_text
        assert not found_in(page_text, captured_link, "code-of-the-inbox")
    guessed = test.api.get("/v1/inbox?subject=Reset with code-of-the-inbox").get_json()
    assert guessed["_embedded"]["messages"] == []
    handed_out = list(export_person(installation.worker, [account_id], "email", email) or ())
    (received,) = next(rows for _, place, rows in handed_out if place == "recipients")
    assert [captured_message["content"] for captured_message in received["captured"]] == [MASK]
    assert not found_in(orjson.dumps(received).decode(), captured_link, "code-of-the-inbox")
