"""Reports about sent mail: bounces, delays and complaints (docs/inbound.md#reports)."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select

from app.addresses import email_key
from app.contacts.suppress import unblock
from app.db.models import BlockedAddress, Contact, Unsubscriber
from app.inbound.effect import Effect
from app.inbound.email.receive import EmailResult, receive_email
from app.sends.delivery.drain import drain
from app.services import Services
from app.tracking.tokens import return_path, unsubscribe_address
from tests.jobs.delivery.conftest import Changed, events, parsed
from tests.support.mail_reports import complaint, delivery_failure, plain, qmail_failure
from tests.support.relay_replies import BLOCKS, PERMANENT, relay_replies
from tests.support.rows import FROM, Rows
from tests.unit.transports.mailserver import MailServer

ANN = "Ann@Example.com"
RECORDED = EmailResult("failed", Effect.RECORDED)


class SentMail:
    """A mail that the mail server accepted, with the reports about it."""

    def __init__(self, rows: Rows, worker: Services, server: MailServer, **content: Any) -> None:
        self.rows, self.worker = rows, worker
        self.list_id = rows.add_list()
        self.contact_id = rows.add_contact(self.list_id, ANN)
        named = {"email": ANN, "contact_id": self.contact_id}
        (self.id,) = rows.add_send([named], list_id=self.list_id, **content)
        drain(worker)
        self.mail = server.mails[-1]
        self.return_path = self.mail.sender
        rows.add_webhook()

    def comes_back(self, raw: bytes, *envelope: str, patience: float = 0) -> EmailResult:
        return receive_email(self.worker, raw, envelope, patience=patience)

    @property
    def counts(self) -> dict[str, int]:
        group = self.rows.group_of(self.id)
        names = ("delivered", "bounced", "failed_contacts", "unsubscribed")
        return {name: getattr(group, name) for name in names if getattr(group, name)}

    @property
    def state(self) -> str:
        return self.rows.states([self.id])[0]

    @property
    def blocked(self) -> list[tuple[str, str]]:
        statement = select(BlockedAddress.address, BlockedAddress.reason)
        with self.worker.database.read() as session:
            blocked_rows = session.execute(statement.where(BlockedAddress.account_id == self.rows.account_id))
            return [(address, reason) for address, reason in blocked_rows]

    @property
    def is_subscribed(self) -> bool:
        entries = select(Unsubscriber).where(Unsubscriber.account_id == self.rows.account_id)
        with self.worker.database.read() as session:
            flag = session.get_one(Contact, self.contact_id).subscribed_email
            assert flag is (session.scalars(entries).first() is None)
            return flag

    @property
    def steps(self) -> list[str]:
        return [step for step, _ in self.rows.steps(self.id)]


@pytest.fixture
def sent(rows: Rows, worker: Services, mail_server: MailServer) -> SentMail:
    """A delivered mail."""
    return SentMail(rows, worker, mail_server)


def assert_nothing_happened(sent: SentMail) -> None:
    assert (sent.state, sent.counts, sent.blocked, events(sent.rows)) == ("delivered", {"delivered": 1}, [], [])
    assert sent.is_subscribed
    assert sent.steps == ["sent"]


def test_a_failure_bounces_what_counted_as_delivered(sent: SentMail) -> None:
    """An email counts as delivered until a bounce report arrives."""
    report = delivery_failure(sent.return_path, ANN, original=sent.mail.content)
    assert sent.comes_back(report) == RECORDED
    assert (sent.state, sent.counts) == ("bounced", {"bounced": 1})
    assert sent.blocked == [(email_key(ANN), "permanent bounce")]
    assert sent.rows.recipient(sent.id).reason == "550 5.1.1 mailbox does not exist"
    event, update = events(sent.rows)
    assert (update["object"], update["event"], update["id"]) == ("contact", "updated", sent.contact_id)
    assert {name: event[name] for name in ("event", "id", "uuid", "email", "list_id", "contact_id")} == {
        "event": "bounced",
        "id": sent.id,
        "uuid": sent.rows.recipient(sent.id).uuid,
        "email": ANN,
        "list_id": sent.list_id,
        "contact_id": sent.contact_id,
    }
    assert (event["bounce_reason"], event["bounce_string"], event["is_temporary_bounce"]) == (
        "bad destination address",
        "550 5.1.1 mailbox does not exist",
        False,
    )
    assert sent.rows.steps(sent.id)[-1] == ("bounced", "550 5.1.1 mailbox does not exist")
    assert sent.is_subscribed


def test_a_repeated_report_changes_nothing(sent: SentMail) -> None:
    report = delivery_failure(sent.return_path, ANN)
    assert sent.comes_back(report) == RECORDED
    for again in (report, b"Received: by mx\r\n" + report, delivery_failure(sent.return_path, ANN)):
        assert sent.comes_back(again).effect is Effect.KNOWN
    assert (sent.counts, len(events(sent.rows)), sent.steps) == ({"bounced": 1}, 2, ["sent", "bounced"])


def fails_for_now(sent: SentMail) -> None:
    report = delivery_failure(sent.return_path, ANN, status="4.4.7", diagnostic="smtp; 451 try later")
    assert sent.comes_back(report) == RECORDED


def test_five_temporary_bounces_block_the_address(rows: Rows, worker: Services, mail_server: MailServer) -> None:
    """Five in a row, without a delivery between them."""
    mails = [SentMail(rows, worker, mail_server) for _ in range(5)]
    for sent in mails:
        assert sent.blocked == []
        fails_for_now(sent)
        assert (sent.state, sent.counts) == ("bounced", {"bounced": 1})
        bounce = [event for event in events(rows) if event["object"] == "recipient"][-1]
        assert (bounce["is_temporary_bounce"], bounce["bounce_string"]) == (True, "451 try later (4.4.7)")
    assert mails[0].blocked == [(email_key(ANN), "repeated temporary bounces")]


def test_a_delivery_that_bounces_later_does_not_reset_the_count(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    """The relay accepts each mail, which counts as delivered only until its bounce arrives."""
    for _ in range(5):
        sent = SentMail(rows, worker, mail_server)
        assert sent.blocked == []
        fails_for_now(sent)
    assert sent.blocked == [(email_key(ANN), "repeated temporary bounces")]


def test_a_delivery_between_temporary_bounces_resets_their_count(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    """Two deliveries in a row reset the count as one does. Bounces after them are counted from the beginning."""
    for _ in range(4):
        fails_for_now(SentMail(rows, worker, mail_server))
    for _ in range(2):
        SentMail(rows, worker, mail_server)
    for _ in range(4):
        sent = SentMail(rows, worker, mail_server)
        fails_for_now(sent)
        assert sent.blocked == []
    fails_for_now(SentMail(rows, worker, mail_server))
    assert sent.blocked == [(email_key(ANN), "repeated temporary bounces")]


def test_a_report_of_a_delay_adds_a_step_and_nothing_else(sent: SentMail) -> None:
    report = delivery_failure(sent.return_path, ANN, action="delayed", status="4.4.1", diagnostic="smtp; no route")
    assert sent.comes_back(report) == EmailResult("delayed", Effect.RECORDED)
    assert sent.comes_back(report) == EmailResult("delayed", Effect.KNOWN)
    assert sent.rows.steps(sent.id)[1:] == [("reported delayed", "no route (4.4.1)")]
    assert (sent.state, sent.counts, sent.blocked, events(sent.rows)) == ("delivered", {"delivered": 1}, [], [])


@pytest.mark.parametrize(
    ("action", "kind", "step"),
    [("delayed", "delayed", "reported delayed"), ("delivered", "arrived", "reported arrived")],
)
def test_the_number_of_steps_for_reports_without_effect_is_limited(
    sent: SentMail, action: str, kind: str, step: str
) -> None:
    """Anybody who knows the return path can send such reports for ever. A failure still counts."""
    for number in range(25):
        report = delivery_failure(sent.return_path, ANN, action=action, status="4.4.1", diagnostic=f"smtp; {number}")
        effect = Effect.RECORDED if number < 20 else Effect.KNOWN
        assert sent.comes_back(report) == EmailResult(kind, effect)
    assert sent.steps == ["sent", *[step] * 20]
    assert sent.comes_back(delivery_failure(sent.return_path, ANN)) == RECORDED
    assert sent.steps[-1] == "bounced"


def test_bounce_notifications_in_prose_are_understood(sent: SentMail) -> None:
    """Common non-standard notifications; only one that names the recipient counts."""
    assert sent.comes_back(qmail_failure(sent.return_path, "bob@example.com")).effect is Effect.IGNORED
    assert_nothing_happened(sent)
    assert sent.comes_back(qmail_failure(sent.return_path, ANN)) == RECORDED
    assert (sent.state, sent.counts) == ("bounced", {"bounced": 1})
    assert events(sent.rows)[0]["bounce_string"] == "Sorry, no mailbox here by that name. (#5.1.1)"
    assert sent.blocked == [(email_key(ANN), "permanent bounce")]


@pytest.mark.parametrize("meaning", [BLOCKS, PERMANENT])
def test_a_notification_blocks_as_the_table_of_replies_says(
    rows: Rows, worker: Services, mail_server: MailServer, meaning: str
) -> None:
    """Every seventh reply of the table, with the status `5.0.0` of mail servers that know no other."""
    for reply in [listed_reply for listed_reply in relay_replies() if listed_reply.meaning == meaning][::7]:
        sent = SentMail(rows, worker, mail_server)
        report = delivery_failure(sent.return_path, ANN, status="5.0.0", diagnostic=f"smtp; {reply.text}")
        assert sent.comes_back(report) == RECORDED, reply
        expected = [(email_key(ANN), "permanent bounce")] if meaning == BLOCKS else []
        assert (sent.state, sent.blocked) == ("bounced", expected), reply
        rows.services.database.transact(lambda transaction: unblock(transaction, rows.account_id, "email", ANN))
    assert {event["is_temporary_bounce"] for event in events(rows) if event["event"] == "bounced"} == {False}


def test_a_forged_return_path_changes_nothing(sent: SentMail) -> None:
    """A token of another recipient or purpose, a changed one, or none; also when the original mail is attached."""
    local, _, domain = sent.return_path.partition("@")
    changed = local[:-1] + ("a" if local[-1] != "a" else "b")
    for forged in (
        f"{changed}@{domain}",
        f"bounces+@{domain}",
        f"unsubscribe+{local[8:]}@{domain}",
        "hello@acme.example",
    ):
        for raw in (
            delivery_failure(forged, ANN, original=sent.mail.content),
            complaint(forged, ANN),
        ):
            assert sent.comes_back(raw).effect is Effect.IGNORED, forged
    tampered = complaint(f"{changed}@{domain}", ANN, mail_from=sent.return_path)
    assert sent.comes_back(tampered).effect is Effect.IGNORED
    assert_nothing_happened(sent)


def test_the_envelope_recipient_overrides_the_header(sent: SentMail) -> None:
    """Anybody can write the header, so it does not count if the mail server names the envelope recipient."""
    report = delivery_failure(sent.return_path, ANN)
    assert sent.comes_back(report, "hello@acme.example").effect is Effect.IGNORED
    assert_nothing_happened(sent)
    report = delivery_failure("somebody@elsewhere.example", ANN)
    assert sent.comes_back(report, sent.return_path.upper()) == RECORDED


def test_a_bounce_of_the_blind_copy_does_not_bounce_the_recipient(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    """The mail and its blind copy have the same return path, and the copy may have been forwarded to any address."""
    sent = SentMail(rows, worker, mail_server, bcc_address="copy@acme.example")
    for address in ("copy@acme.example", "crm@vendor.example"):
        for report in (delivery_failure, complaint):
            assert sent.comes_back(report(sent.return_path, address)).effect is Effect.IGNORED, address
    assert_nothing_happened(sent)
    assert sent.comes_back(delivery_failure(sent.return_path, ANN)) == RECORDED


def test_without_a_blind_copy_a_bounce_of_any_address_is_the_recipients(sent: SentMail) -> None:
    """The recipient's server forwards the mail, and the next server does not know the address."""
    assert sent.comes_back(delivery_failure(sent.return_path, "ann@elsewhere.example")) == RECORDED


def test_a_complaint_that_names_no_address_is_the_recipients_also_with_a_blind_copy(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    sent = SentMail(rows, worker, mail_server, bcc_address="copy@acme.example")
    assert sent.comes_back(complaint(sent.return_path, "")).effect is Effect.RECORDED


def test_a_complaint_blocks_and_unsubscribes(sent: SentMail) -> None:
    """A spam complaint blocks and unsubscribes the address."""
    report = complaint(sent.return_path, ANN)
    assert sent.comes_back(report) == EmailResult("complaint", Effect.RECORDED)
    for again in (report, complaint(sent.return_path, ANN)):
        assert sent.comes_back(again).effect is Effect.KNOWN
    assert sent.blocked == [(email_key(ANN), "complaint")]
    assert not sent.is_subscribed
    assert (sent.state, sent.counts) == ("delivered", {"delivered": 1, "unsubscribed": 1})
    assert [(event["object"], event["event"], event["id"]) for event in events(sent.rows)] == [
        ("contact", "updated", sent.contact_id)
    ]
    assert sent.steps == ["sent", "complained", "unsubscribed"]
    assert sent.rows.recipient(sent.id).complaint_time is not None


def test_a_complaint_sent_to_the_operator_is_attributed_by_the_return_path_in_it(sent: SentMail) -> None:
    report = complaint("abuse@acme.example", ANN, mail_from=sent.return_path)
    assert sent.comes_back(report).effect is Effect.RECORDED
    assert sent.blocked == [(email_key(ANN), "complaint")]


@pytest.mark.parametrize("type_", ["not-spam", "auth-failure", "anything"])
def test_a_feedback_report_of_another_type_is_ignored(sent: SentMail, type_: str) -> None:
    assert sent.comes_back(complaint(sent.return_path, ANN, type_=type_)) == EmailResult("automatic", Effect.IGNORED)
    assert_nothing_happened(sent)


def test_an_opt_out_feedback_report_unsubscribes(sent: SentMail) -> None:
    assert sent.comes_back(complaint(sent.return_path, ANN, type_="opt-out")).effect is Effect.RECORDED
    assert (sent.is_subscribed, sent.blocked, sent.counts["unsubscribed"]) == (False, [], 1)


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({}, "ordinary"),
        ({"Auto_Submitted": "no"}, "ordinary"),
        ({"Auto_Submitted": "auto-replied"}, "automatic"),
        ({"X_Autoreply": "yes"}, "automatic"),
        ({"Precedence": "bulk"}, "automatic"),
    ],
)
def test_replies_are_ignored(sent: SentMail, fields: dict[str, str], kind: str) -> None:
    """Out-of-office notes and personal answers to the return path."""
    reply = plain(sent.return_path, "I am away until Monday", **fields)
    assert sent.comes_back(reply) == EmailResult(kind, Effect.IGNORED)
    assert_nothing_happened(sent)


def test_a_mail_to_the_unsubscribe_address_unsubscribes(
    rows: Rows, make_worker: Changed, mail_server: MailServer
) -> None:
    """`List-Unsubscribe` contains it if a bounce domain is set. A mail program sends such a mail when its user asks
    it to; automatic replies do not count."""
    worker = make_worker(bounce_domain="bounces.acme.example")
    sent = SentMail(rows, worker, mail_server)
    assert sent.return_path.endswith("@bounces.acme.example")
    address = unsubscribe_address(worker.settings, sent.id)
    assert address is not None
    assert f"<mailto:{address}>" in str(parsed(sent.mail.content)["List-Unsubscribe"])
    for raw in (plain(address, Auto_Submitted="auto-replied"), delivery_failure(address, ANN)):
        assert sent.comes_back(raw).effect is Effect.IGNORED
    assert_nothing_happened(sent)
    by_program = plain(address, Auto_Submitted="auto-generated", Precedence="bulk")
    assert sent.comes_back(by_program) == EmailResult("opt-out", Effect.RECORDED)
    assert (sent.is_subscribed, sent.counts) == (False, {"delivered": 1, "unsubscribed": 1})


def test_a_report_that_arrives_before_the_outcome_is_written_waits_for_it(sent: SentMail) -> None:
    """A mail server may report before the sender has written that the mail was accepted."""
    report = delivery_failure(sent.return_path, ANN)
    sent.rows.change([sent.id], state="sending")
    assert sent.comes_back(report, patience=0.2).effect is Effect.EARLY
    sent.rows.change([sent.id], state="delivered")
    assert sent.comes_back(report) == RECORDED


@pytest.mark.parametrize("state", ["queued", "uncertain"])
def test_a_bounce_counts_for_a_deferred_mail(rows: Rows, worker: Services, state: str) -> None:
    """The connection was lost after the end of the mail, which had arrived and could not be delivered from there."""
    (recipient_id,) = rows.add_send([ANN], due_in=3600)
    report = delivery_failure(return_path(worker.settings, recipient_id, FROM), ANN)
    rows.change([recipient_id], state=state)
    assert receive_email(worker, report, patience=0).effect is Effect.KNOWN  # no attempt was made, so nothing was sent
    report = delivery_failure(return_path(worker.settings, recipient_id, FROM), ANN)
    rows.change([recipient_id], attempts=1)
    assert receive_email(worker, report, patience=0) == RECORDED
    group = rows.group_of(recipient_id)
    assert (rows.recipient(recipient_id).state, group.bounced, group.delivered) == ("bounced", 1, 0)


def test_a_report_about_a_deleted_recipient_is_ignored(sent: SentMail) -> None:
    gone = return_path(sent.worker.settings, 999_999_999, "hello@acme.example")
    assert sent.comes_back(delivery_failure(gone, ANN)).effect is Effect.IGNORED
