"""Forgetting a person (docs/privacy.md): a used installation is searched for the address afterwards."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import quopri
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from email.message import EmailMessage
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import orjson
import pytest
from sqlalchemy import delete, event, inspect, select, text, update

from app.addresses import AddressKind
from app.clock import now
from app.contacts.suppress import unsubscribe
from app.db.bounded_connection import COMMAND_SECONDS, current
from app.db.models import (
    AutomationRun,
    CapturedMessage,
    Contact,
    Event,
    Group,
    IdempotencyRecord,
    QueueEntry,
    Recipient,
    RecipientStep,
    Remains,
    Send,
    SoftBounces,
    Unsubscriber,
    Webhook,
    WebhookSecret,
)
from app.db.remains import SECONDS_BETWEEN_TRIES, RemainsCleaner, clean_remains, mark_remains
from app.errors import ServiceError
from app.events.dispatch import dispatch_due
from app.infrastructure.logs import JsonFormatter
from app.privacy.export import export_person
from app.privacy.forget import ForgetReport, forget, held
from app.privacy.person import Person, with_test_account
from app.privacy.place import Eraser
from app.privacy.places import PLACES, SINGULARS
from app.privacy.searched import ANSWER_KEYS_TO_KEEP
from app.recipients.timeline import TimelineStep
from app.runs.work import advance_due
from app.secret_keys import encrypt
from app.sends.delivery.drain import drain
from app.sends.delivery.sender_worker import close_sender_worker
from app.sends.outcomes.attempt_result import AttemptResult, Journal, journal_folder
from app.sends.outcomes.requeue import requeue
from app.services import Services
from app.tracking.recorder import VISITS
from app.tracking.tokens import OPEN_PURPOSE, recipient_token
from app.transports.base import DeliveryResult
from tests.cli.conftest import Cli
from tests.jobs.conftest import changed
from tests.support.automations import add_automation
from tests.support.cases import each
from tests.support.client import SENDS, Client
from tests.support.contacts import contacts_path
from tests.support.sends import SendsApi, file, rows_of
from tests.support.servers import PATIENCE, wait_until
from tests.support.statements import StatementCounter
from tests.support.tenants import Tenant, new_email, new_mobile, unique
from tests.support.testing import refreshed
from tests.support.webhook_receiver import Receiver, Reply
from tests.unit.transports.mailserver import MailServer

SECRET_WORD = "a secret of Ann"
WELCOME = {"name": "Welcome", "kind": "advanced", "trigger": "REST API Contact Created"}


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    """The relay."""
    with MailServer() as server:
        yield server


@pytest.fixture
def worker(tenant: Tenant, mail_server: MailServer, tmp_path: Path) -> Iterator[Services]:
    """A worker with a data folder of its own, which finds no messages of other tests."""
    with tenant.services.database.write() as transaction:
        transaction.execute(delete(QueueEntry))
        transaction.execute(delete(Webhook))
    data = tmp_path / "data"
    made = changed(
        tenant.services,
        data_dir=data,
        email_transport_url=mail_server.url(),
        sms_transport_url=f"file://{data / 'sms'}",
        retry_delay=3600.0,
    )
    yield made
    close_sender_worker(made)


@dataclass
class UsedInstallation:
    """An installation in which one person was written to in many ways."""

    tenant: Tenant
    worker: Services
    sends: SendsApi
    mail_server: MailServer
    email: str
    mobile: str
    bob: str

    def forget(self) -> ForgetReport:
        """Forgets the person in the account and its test account."""
        return forget(self.worker, self.accounts, "email", self.email, wait=PATIENCE)

    @property
    def rows_of_bob(self) -> list[tuple[Any, ...]]:
        """What the other recipient has: rows, and the texts that he was sent."""
        bodies = {row.id: row.body_text for row in rows_of(self.tenant, Send)}
        rows = [row for row in self.recipients() if row.email == self.bob]
        return [(row.uuid, row.state, row.values, row.sent_time, bodies[row.send_id]) for row in rows]

    @property
    def sent(self) -> list[int]:
        """What the groups count."""
        return [row.own_sent for row in rows_of(self.tenant, Group)]

    def open(self, recipient_id: int) -> None:
        """Requests the pixel of the recipient's mail."""
        token = recipient_token(self.worker.settings.secret_key, OPEN_PURPOSE, recipient_id)
        assert Client(self.tenant.app, "").get(f"/o/{token}.gif").status_code == 200

    @property
    def accounts(self) -> list[int]:
        with self.worker.database.read() as session:
            return with_test_account(session, self.tenant.id)

    def recipients(self, **columns: Any) -> list[Any]:
        """Rows of recipients of the account."""
        return rows_of(self.tenant, Recipient, **columns)


@pytest.fixture
def used(tenant: Tenant, worker: Services, mail_server: MailServer) -> UsedInstallation:
    """Contacts, messages, outcomes, visits, replies, tests, events and answers, and a run of an automation, all of one
    person."""
    made = UsedInstallation(
        tenant, worker, SendsApi(tenant), mail_server, new_email("Ann"), new_mobile(), new_email("bob")
    )
    _import(made)
    with Receiver(Reply(503, body=f"refused: {made.email.upper()}".encode()), 204) as receiver:
        _register_webhooks(made, receiver)
        _add_contact_with_keys(made)
        _send_mails(made)
        _send_texts(made)
        _send_tests(made)
        advance_due(worker)
        drain(worker)
        _deliver_events(made, receiver)
    _visit_and_reply(made)
    _leave_messages_waiting(made)
    return made


def _import(made: UsedInstallation) -> None:
    Cli(made.tenant.app, made.tenant.name).text(
        *("contacts", "import", "-", "--list", str(made.sends.list_id)),
        input=f"email,mobile,first_name\n{made.email},{made.mobile},Ann\n{made.bob},,Bob\n",
    )


def _register_webhooks(made: UsedInstallation, receiver: Receiver) -> None:
    """One is held, so that its events wait; the other receives them."""
    for url, held_to in ((f"https://{unique('hook')}.example/", 0), (receiver.url, None)):
        webhook = made.tenant.add(Webhook, url=url, creation_time=now(), due_time=now(), held_to=held_to)
    secret = encrypt(made.worker.settings.secret_key, unique("signing").ljust(32, "-"))
    made.tenant.add(WebhookSecret, webhook_id=webhook, key_id="k1", secret=secret, creation_time=now())


def _deliver_events(made: UsedInstallation, receiver: Receiver) -> None:
    """The first request is refused with an answer that has its body."""

    def dispatched() -> bool:
        with made.worker.database.write() as transaction:
            transaction.execute(update(Webhook).values(due_time=now()))
        dispatch_due(made.worker)
        return len(receiver.hits) > 1

    wait_until(dispatched, "the receiver has accepted the events")
    assert any(made.email.lower() in hit.body.decode().lower() for hit in receiver.hits)


def _add_contact_with_keys(made: UsedInstallation) -> None:
    others = made.tenant.add_list("Others")
    steps = [{"name": "hello", "send": str(made.tenant.add_message())}, {"name": "a day", "wait": "1 day"}]
    add_automation(made.worker, made.tenant.id, others, {**WELCOME, "steps": steps})
    for key in (unique("key"), f"welcome-{made.email}"):
        body = {"email": new_email()} if "welcome" in key else {"email": made.email, "first_name": SECRET_WORD}
        answer = made.tenant.api.post(contacts_path(others), body, headers={"Idempotency-Key": key})
        assert answer.status_code == 201, answer.text


def _send_mails(made: UsedInstallation) -> None:
    email, bob, sends = made.email, made.bob, made.sends
    personal = {"email": email, "secret": SECRET_WORD, "attachments": [file("own.txt", content=email.encode())]}
    sends.send(
        sends.email(
            subject=f"For {email}",
            body_text=f"https://shop.acme.example/orders?who={quote(email)} %%secret%%",
            attachments=[file("all.txt", content=base64.b64encode(email.encode()))],
            recipients=[personal],
            track_clicks=True,
        )
    )
    sends.send(sends.email(recipients=[{"email": email.upper(), "secret": SECRET_WORD}, {"email": bob}]))
    sends.send(sends.email(recipients=[{"email": bob}], reply_to=email))
    (contact,) = made.tenant.api.get(contacts_path(sends.list_id), {"email": email}).get_json()["_embedded"]["contacts"]
    sends.send(sends.email(recipients=[{"contact_id": contact["id"]}]))
    refused = made.sends.send(sends.email(subject="refused", recipients=[{"email": email}]))
    assert refused.uuids
    made.mail_server.reply(email, f"451 4.2.2 <{email}> is full", f"550 5.1.1 <{email}>: unknown user {email}")


def _send_texts(made: UsedInstallation) -> None:
    made.sends.send(made.sends.sms(recipients=[{"mobile": made.mobile}]))


def _send_tests(made: UsedInstallation) -> None:
    test = refreshed(made.tenant)
    body = {**made.sends.email(recipients=[{"email": made.email}], subject="a test"), "list_id": None}
    body = {**body, "list_id": made.sends.list_id}
    answer = test.api.post(SENDS, body)
    assert answer.status_code == 202, answer.text


def _visit_and_reply(made: UsedInstallation) -> None:
    for row in made.recipients(type="email", state="delivered"):
        made.open(row.id)
    assert made.tenant.app.extensions[VISITS].flush(PATIENCE)
    with made.worker.database.write() as transaction:
        opened = RecipientStep.account_id == made.tenant.id, RecipientStep.step == TimelineStep.OPENED
        transaction.execute(update(RecipientStep).where(*opened).values(country="AU"))
    cli = Cli(made.tenant.app)
    cli.text("inbound", "sms", "--from", made.mobile, "--to", made.sends.number, "--text", f"write to {made.email}")
    Cli(made.tenant.app, made.tenant.name).text(
        "suppressions", "unsubscribe", made.email, "--list", str(made.sends.list_id)
    )
    made.tenant.add(SoftBounces, kind="email", address=made.email.lower(), bounces=1, reset_by=None)


def _leave_messages_waiting(made: UsedInstallation) -> None:
    """A message that is due, and the result of one in a journal of a process that has died."""
    made.sends.send(made.sends.email(subject="waits", recipients=[{"email": made.email, "secret": SECRET_WORD}]))
    (row,) = made.sends.send(made.sends.email(subject="journalled", recipients=[{"email": made.email}])).recipients
    journal = Journal(journal_folder(made.worker.settings), "host:1:dead")
    with made.worker.database.write() as transaction:
        values = {"state": "sending", "worker": "host:1:dead", "lease_time": now(), "attempts": 1}
        transaction.execute(update(QueueEntry).where(QueueEntry.recipient_id == row.id).values(**values))
    accepted = DeliveryResult.accepted(f"250 queued for <{made.email}>")
    journal.append(AttemptResult(row.id, 1, made.email, now(), accepted))
    journal.close()


@cache
def forms(address: str) -> set[str]:
    """The address as it may be written, in lower case."""
    plain = address.lower()
    encoded = {base64.b64encode(b"x" * shift + plain.encode()).decode()[4:-4] for shift in range(3)}
    mail = EmailMessage()
    mail["To"] = plain
    quoted = quopri.encodestring(plain.encode(), quotetabs=True).decode()
    return {plain, quote(plain).lower(), quote(plain, safe="").lower(), quoted.lower(), *map(str.lower, encoded)}


def found_in(content: str, *addresses: str) -> bool:
    lower = content.lower()
    return any(form in lower for address in addresses for form in forms(address))


def rows_naming(services: Services, *addresses: str) -> dict[str, int]:
    """The tables with rows in which one of the addresses stands, whatever the column. Each call reads the whole
    database, which takes seconds."""
    counts: dict[str, int] = {}
    engine = services.database.engine
    tables = inspect(engine).get_table_names()
    if services.database.is_postgresql:
        tables.append("pg_stats")
    with engine.connect() as connection:
        for table in tables:
            rows = connection.execute(text(f'SELECT * FROM "{table}"'))
            count = sum(found_in(" ".join(map(_as_text, row)), *addresses) for row in rows)
            counts |= {table: count} if count else {}
    return counts


def _as_text(value: Any) -> str:
    if isinstance(value, bytes | memoryview):
        return bytes(value).decode("latin-1")
    return json.dumps(value, default=str, ensure_ascii=False) if isinstance(value, dict | list) else str(value)


def files_naming(services: Services, *addresses: str) -> list[str]:
    """The files of the data folder, and those of SQLite, in which one of the addresses stands."""
    paths = [path for path in services.settings.data_dir.rglob("*") if path.is_file()]
    if not services.database.is_postgresql:
        database = Path(str(services.database.engine.url.database))
        paths += [path for path in database.parent.glob(f"{database.name}*") if path.is_file()]
    return [path.name for path in paths if found_in(path.read_bytes().decode("latin-1"), *addresses)]


def marked(services: Services) -> bool:
    """Whether the files of the database wait to be cleaned."""
    with services.database.read() as session:
        return session.scalar(select(Remains.since_time)) is not None


def clean_files(services: Services) -> None:
    """Runs the maintenance until it has found the files unused for a moment, however slow this machine is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.db.remains.MAX_COMPACTION_SECONDS", PATIENCE)

        def is_clean() -> bool:
            clean_remains(services.database)
            return not marked(services)

        wait_until(is_clean, "the files are clean")


@contextmanager
def statements(services: Services) -> Iterator[list[str]]:
    """Everything that this process asks of the database, also past SQLAlchemy."""
    noted: list[str] = []

    def note(driver: Any, *_: Any) -> None:
        if isinstance(driver, sqlite3.Connection):
            driver.set_trace_callback(noted.append)

    def forget_about(driver: Any, *_: Any) -> None:
        if isinstance(driver, sqlite3.Connection):
            driver.set_trace_callback(None)

    engine = services.database.engine
    event.listen(engine, "checkout", note)
    event.listen(engine, "checkin", forget_about)
    try:
        with StatementCounter(engine) as counted:
            yield noted
        noted += counted.statements
    finally:
        event.remove(engine, "checkout", note)
        event.remove(engine, "checkin", forget_about)


def slow(noted: list[str]) -> list[str]:
    """The statements for whose end other writers wait long, and those that read whole tables."""
    return [
        statement
        for statement in noted
        if statement.startswith(("VACUUM", "ANALYZE", "REINDEX", "PRAGMA wal_checkpoint"))
    ]


def test_forgetting_leaves_compaction_to_the_maintenance_which_acts_only_where_something_was_removed(
    tenant: Tenant, worker: Services
) -> None:
    """Whoever forgets waits for neither, and neither do the sends of others."""
    email = new_email("Ann")
    tenant.new_contact(tenant.add_list(), email=email)
    clean_files(worker)
    with statements(worker) as nobody:
        assert forget(worker, [tenant.id], "email", new_email(), wait=0).removed == {}
        clean_remains(worker.database)
    assert (slow(nobody), marked(worker)) == ([], False)
    with statements(worker) as somebody:
        assert forget(worker, [tenant.id], "email", email, wait=0).removed["contacts"] == 1
    assert (slow(somebody), marked(worker)) == ([], True)
    with statements(worker) as maintained:
        clean_files(worker)
    analyses = any(statement.startswith("ANALYZE") for statement in maintained)
    assert (analyses, "VACUUM" in maintained) == (worker.database.is_postgresql, not worker.database.is_postgresql)


def test_however_often_the_maintenance_runs_it_cleans_once_in_a_while(tenant: Tenant, worker: Services) -> None:
    clean_files(worker)
    moment = [0.0]
    cleaner = RemainsCleaner(worker.database, clock=lambda: moment[0])

    def cleans() -> bool:
        with statements(worker) as noted:
            cleaner.clean()
        return bool(slow(noted))

    assert not cleans(), "nothing was removed"
    for _ in range(2):
        with worker.database.write() as transaction:
            mark_remains(transaction)
        assert cleans()
        with worker.database.write() as transaction:
            mark_remains(transaction)
        assert not cleans()
        moment[0] += SECONDS_BETWEEN_TRIES


@pytest.mark.postgresql("the figures of SQLite are the same in every database")
def test_statistics_may_take_as_long_as_a_command(worker: Services) -> None:
    """The table of recipients has parts, of which each is sampled."""
    limits = set()

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("ANALYZE"):
            limits.add(current().limit())

    event.listen(worker.database.engine, "before_cursor_execute", note)
    with worker.database.write() as transaction:
        mark_remains(transaction)
    clean_remains(worker.database)
    event.remove(worker.database.engine, "before_cursor_execute", note)
    assert limits == {COMMAND_SECONDS}


def test_what_was_removed_is_marked_also_if_forgetting_dies_in_the_middle(
    tenant: Tenant, worker: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    email = new_email("Ann")
    tenant.new_contact(tenant.add_list(), email=email)
    tenant.add(SoftBounces, kind="email", address=email.lower(), bounces=1, reset_by=None)
    clean_files(worker)

    def dies(*_: Any, **__: Any) -> None:
        raise SystemExit

    monkeypatch.setattr("app.privacy.addressed.delete_contacts", dies)
    with pytest.raises(SystemExit):
        forget(worker, [tenant.id], "email", email, wait=0)
    assert marked(worker)


def test_the_maintenance_gives_way_to_writers_and_tries_again(
    tenant: Tenant, worker: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite, where it keeps others from writing; PostgreSQL has nothing to compact."""
    if worker.database.is_postgresql:
        return
    email = new_email("Ann")
    tenant.new_contact(tenant.add_list(), email=email)
    forget(worker, [tenant.id], "email", email, wait=0)
    with monkeypatch.context() as patch:
        patch.setattr("app.db.remains.STEPS_BETWEEN_LOOKS", 1)
        patch.setattr("app.db.remains.MAX_COMPACTION_SECONDS", 0)
        clean_remains(worker.database)
    assert marked(worker)
    clean_files(worker)
    assert files_naming(worker, email) == []


def test_a_large_file_is_not_compacted_beside_writers_but_keeps_no_log_of_what_was_forgotten(
    tenant: Tenant, worker: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    if worker.database.is_postgresql:
        return
    email = new_email("Ann")
    tenant.new_contact(tenant.add_list(), email=email)
    forget(worker, [tenant.id], "email", email, wait=0)
    monkeypatch.setattr("app.db.remains.SMALL_FILE_BYTES", 0)
    with statements(worker) as noted:
        clean_files(worker)
    assert "VACUUM" not in noted
    assert not [name for name in files_naming(worker, email) if name.endswith("-wal")]


def test_the_search_for_a_forgotten_person_finds_nothing(
    used: UsedInstallation, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is found in any table, file or line of the log. The data was handed out before, and others keep
    theirs."""
    assert [row.state for row in rows_of(used.tenant, AutomationRun)] == ["waiting", "waiting"]
    before = rows_naming(used.worker, used.email)
    assert {"contacts", "recipients", "recipient_steps", "sends", "attachments", "events", "unsubscribers"} <= {*before}
    assert {"captured_messages", "idempotency_records", "webhook_attempts", "soft_bounces"} <= {*before}
    assert_all_is_handed_out(used)
    rows_of_bob, sent = used.rows_of_bob, used.sent

    forgotten = used.forget()
    assert forgotten.is_complete
    assert all(noun in SINGULARS or noun.endswith("s") for noun in forgotten.removed)
    assert sorted(row.state for row in rows_of(used.tenant, AutomationRun)) == ["ended", "waiting"]
    clean_files(used.worker)
    # The number, too: all that was sent to the contact is gone with it.
    assert rows_naming(used.worker, used.email, SECRET_WORD, used.mobile) == {}
    assert files_naming(used.worker, used.email) == []
    lines = "\n".join(JsonFormatter().format(record) for record in caplog.records if record.name != "mail.log")
    assert not found_in(lines, used.email)

    assert (forgotten.kept, forgotten.other_addresses) == ({"unsubscribed": 1, "blocked": 1}, {used.mobile})
    assert [row.address[:10] for row in rows_of(used.tenant, Unsubscriber)] == ["forgotten:"]
    assert (used.rows_of_bob, used.sent) == (rows_of_bob, sent)
    assert_countries_are_gone(used)
    assert_waiting_messages_have_failed(used)
    assert_visits_bring_nothing_back(used)
    assert used.forget().removed == {}
    assert export_person(used.worker, used.accounts, "email", used.email) is None


def assert_all_is_handed_out(used: UsedInstallation) -> None:
    """Everything that will be forgotten."""
    documents = list(export_person(used.worker, used.accounts, "email", used.email.upper()) or ())
    assert {place for _, place, _ in documents} == {place.name for place in PLACES} - {
        "parts_of_replies",
        "blind_copies",
    }
    assert {name for name, *_ in documents} == {used.tenant.name, f"{used.tenant.name} (test)"}
    whole = orjson.dumps([rows for *_, rows in documents]).decode()
    assert SECRET_WORD in whole
    assert '"country":"AU"' in whole
    assert base64.b64encode(used.email.encode()).decode() in whole, "attachments are in it"
    counts = held(used.worker, used.accounts, "email", used.email)
    assert counts["recipients"] == sum(len(rows) for _, place, rows in documents if place == "recipients")


def assert_countries_are_gone(used: UsedInstallation) -> None:
    """Checks that the countries in which the person has opened mails are gone, and that those of others stay."""
    others = {row.id for row in used.recipients() if row.email is not None}
    opened = rows_of(used.tenant, RecipientStep, step=TimelineStep.OPENED)
    assert {(row.recipient_id in others, row.country) for row in opened} == {(True, "AU"), (False, None)}


def assert_waiting_messages_have_failed(used: UsedInstallation) -> None:
    """Checks that waiting messages are not sent and cannot be retried, and that their events have no address."""
    sent = len(used.mail_server.mails)
    drain(used.worker)
    assert len(used.mail_server.mails) == sent
    dropped = [row for row in used.recipients() if row.reason == "forgotten"]
    assert {row.state for row in dropped} == {"failed"}
    payloads = [orjson.loads(row.payload) for row in rows_of(used.tenant, Event)]
    failed = [payload for payload in payloads if payload.get("fail_reason") == "forgotten"]
    assert {payload["uuid"] for payload in failed} == {row.uuid for row in dropped}
    assert not any("email" in payload for payload in failed)
    with pytest.raises(ServiceError) as refused, used.worker.database.write() as transaction:
        requeue(transaction, dropped[0].uuid)
    assert "was forgotten" in refused.value.errors[0].developer_message


def assert_visits_bring_nothing_back(used: UsedInstallation) -> None:
    """The pixel of a mail that the person still has."""
    forgotten = {row.id for row in used.recipients(type="email", email=None)}
    steps = [row.id for row in rows_of(used.tenant, RecipientStep)]
    for recipient_id in forgotten:
        used.open(recipient_id)
    assert used.tenant.app.extensions[VISITS].flush(PATIENCE)
    assert [row.id for row in rows_of(used.tenant, RecipientStep)] == steps


def test_events_are_found_beyond_those_that_one_statement_looks_through(
    tenant: Tenant, worker: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events that name nothing but a contact's earlier address are found as well."""
    webhook = tenant.add(Webhook, url=f"https://{unique('hook')}.example/", creation_time=now(), due_time=now())
    email, former = new_email("Ann"), new_email("former")
    contact_id = tenant.new_contact(tenant.add_list(), email=email)["id"]
    texts = [
        *(orjson.dumps({"object": "recipient", "id": number, "email": email.upper()}) for number in range(3)),
        *[orjson.dumps({"object": "recipient", "id": 3, "email": new_email()})] * 5,
        orjson.dumps({"object": "recipient", "id": 4, "contact_id": contact_id, "email": former}),
    ]
    for text_ in texts:
        tenant.add(Event, webhook_id=webhook, payload=text_.decode())
    monkeypatch.setattr("app.db.pages.WINDOW", 2)
    assert forget(worker, [tenant.id], "email", email, wait=0).removed["events"] == 4
    assert rows_naming(worker, email, former) == {}


def add_event(tenant: Tenant, webhook: int, contact_id: int, email: str) -> None:
    """An event of a contact."""
    payload = orjson.dumps({"object": "contact", "id": 1, "contact_id": contact_id, "email": email})
    tenant.add(Event, webhook_id=webhook, payload=payload.decode())


def test_later_rounds_look_through_new_events_alone(
    tenant: Tenant, worker: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All events are looked through once more if a contact has been given the address meanwhile."""
    webhook = tenant.add(Webhook, url=f"https://{unique('hook')}.example/", creation_time=now(), due_time=now())
    email, former, list_id = new_email(), new_email("former"), tenant.add_list()
    other = tenant.new_contact(list_id, email=former)["id"]
    looked_after = []

    def noted(eraser: Eraser, person: Person) -> Mapping[str, int]:
        looked_after.append(person.after_event)
        return PLACES[0].erase(eraser, person)

    def meanwhile(_removed: int) -> None:
        if len(looked_after) == 1:
            add_event(tenant, webhook, 2**40, email)
        elif len(looked_after) == 2:
            assert tenant.api.patch(f"{contacts_path(list_id)}/{other}", {"email": email}).status_code == 200

    assert PLACES[0].name == "events"
    monkeypatch.setattr("app.privacy.forget.PLACES", (replace(PLACES[0], erase=noted), *PLACES[1:]))
    add_event(tenant, webhook, 2**40, email)
    add_event(tenant, webhook, other, former)
    last = max(row.id for row in rows_of(tenant, Event))
    forgotten = forget(worker, [tenant.id], "email", email, wait=0, advance=meanwhile)
    first, second, third, fourth = looked_after
    assert (first, third) == (0, 0)
    assert last <= second < fourth
    assert forgotten.removed["contacts"] == 1
    assert rows_naming(worker, email) == rows_naming(worker, former) == {}


def test_the_fingerprint_of_a_request_confirms_no_address_that_was_forgotten(tenant: Tenant, worker: Services) -> None:
    """The request that created the contact is still recognised, and gets the ids."""
    path, body, key = contacts_path(tenant.add_list()), {"email": new_email()}, {"Idempotency-Key": unique("key")}
    created = tenant.api.post(path, body, headers=key).get_json()
    guess = hashlib.sha256(f"POST\n{path}?\n".encode() + orjson.dumps(body)).hexdigest()
    assert [row.fingerprint for row in rows_of(tenant, IdempotencyRecord)] == [guess]
    assert forget(worker, [tenant.id], "email", body["email"], wait=0).removed["stored answers"] == 1
    assert guess not in rows_of(tenant, IdempotencyRecord)[0].fingerprint
    repeated = tenant.api.post(path, body, headers=key)
    assert (repeated.status_code, repeated.get_json()) == (
        201,
        {name: created[name] for name in ANSWER_KEYS_TO_KEEP if name in created},
    )


@each("kind", ["email", "mobile"])
def test_the_answer_to_a_suppression_keeps_ids_alone_of_a_forgotten_person(
    tenant: Tenant, worker: Services, kind: AddressKind
) -> None:
    """Its link to itself has the address in the query, in which an email is written with `%40`."""
    list_id, key = tenant.add_list(), unique("key")
    address = {"email": new_email(), "mobile": new_mobile()}[kind]
    body = {kind: address, "state": "unsubscribed", "list_id": list_id}
    added = tenant.api.post("/v1/suppressions", body, headers={"Idempotency-Key": key})
    assert (added.status_code, address in unquote(added.get_json()["_links"]["self"]["href"])) == (201, True)
    removed = forget(worker, [tenant.id], kind, address, wait=0).removed
    assert removed == {"stored answers": 1, "suppressions": 1}
    (answer,) = rows_of(tenant, IdempotencyRecord, key=key)
    assert orjson.loads(answer.body or "") == {
        **{name: added.get_json()[name] for name in ("list_id", "creation_time")},
        "_links": {"list": {"href": f"/v1/lists/{list_id}"}},
    }


def test_a_person_who_got_blind_copies_of_the_mails_of_others_is_forgotten(
    tenant: Tenant, worker: Services, mail_server: MailServer
) -> None:
    """In the inbox of test keys, in folders, and in timelines, which quote the refusal of a copy. The others keep
    theirs."""
    ann, folder = f"{unique('Ann')}@{tenant.domain}", worker.settings.data_dir / "mail"
    filing = changed(worker, email_transport_url=folder.as_uri())
    sends = SendsApi(tenant)
    copied = sends.email(recipients=[{"email": new_email("bob")}], bcc_address=ann)
    tests = SendsApi(refreshed(tenant))
    accepted = tests.send(copied)
    mail_server.reply(ann, f"550 5.1.1 unknown user {ann}")
    (refused,) = sends.send(copied).uuids
    drain(worker)
    (filed,) = sends.send(copied).uuids
    drain(filing)
    close_sender_worker(filing)
    assert {path.name for path in folder.iterdir()} == {f"{filed}.eml", f"{filed}-bcc.eml"}
    accounts = [tenant.id, tests.tenant.id]
    documents = export_person(filing, accounts, "email", ann) or ()
    ((copy,),) = [rows for _, place, rows in documents if place == "blind_copies"]
    assert copy["address"] == ann.lower()
    assert {"sends", "recipient_steps", "captured_messages"} <= {*rows_naming(filing, ann)}

    removed = forget(filing, accounts, "email", ann, wait=0).removed
    assert removed == {"blind copies": 1, "sends that named the address": 3}
    assert rows_naming(filing, ann) == {}
    assert [path.name for path in folder.iterdir()] == [f"{filed}.eml"]
    assert [row.uuid for row in rows_of(tests.tenant, CapturedMessage)] == accepted.uuids
    (row,) = rows_of(tenant, Recipient, uuid=refused)
    (step,) = rows_of(tenant, RecipientStep, recipient_id=row.id)
    assert (step.step, step.detail) == ("sent", None)


@pytest.mark.parametrize("local", ["Änna", "ÄNNA", "a\N{COMBINING DIAERESIS}nna", "A\N{COMBINING DIAERESIS}nna"])
@pytest.mark.parametrize("domain", ["x.example", "X。BÜCHER.example"])
def test_a_person_is_forgotten_however_the_address_is_written(
    tenant: Tenant, worker: Services, local: str, domain: str
) -> None:
    number, sends = unique(""), SendsApi(tenant)
    written, named = f"{local}{number}@{domain}", f"ä{local[-3:].lower()}{number}@{domain.lower()}"
    other, unlike = new_email(), f"Ö{local}{number}@{domain}"
    webhook = tenant.add(Webhook, url=f"https://{unique('hook')}.example/", creation_time=now(), due_time=now())
    add_event(tenant, webhook, 2**40, written)
    sends.send(sends.email(recipients=[{"email": written}, {"email": unlike}]))
    sends.send(sends.email(recipients=[{"email": other}], reply_to=written))
    sends.send(sends.email(recipients=[{"email": other}], reply_to=unlike))
    with worker.database.write() as transaction:
        transaction.execute(update(Send).where(Send.reply_to == unlike).values(bcc_address=written))
        transaction.execute(delete(Contact).where(Contact.account_id == tenant.id))  # by whom messages are found, too
    forgotten = forget(worker, [tenant.id], "email", named, wait=0)
    assert (forgotten.removed["sends that named the address"], forgotten.removed["events"]) == (2, 1)
    assert [row.email for row in rows_of(tenant, Recipient)] == [None, unlike, other, other]
    assert [(row.reply_to, row.bcc_address) for row in rows_of(tenant, Send)] == [
        (None, None),
        (None, None),
        (unlike, None),
    ]


def test_a_person_is_forgotten_by_the_address_as_it_was_written(tenant: Tenant, worker: Services) -> None:
    """In other characters for the letters and full stops of ASCII, which are not looked for otherwise."""
    written, sends = f"Ann{unique('')}@ｅx。example", SendsApi(tenant)
    sends.send(sends.email(recipients=[{"email": written}]))
    sends.send(sends.email(recipients=[{"email": new_email()}], reply_to=written))
    with worker.database.write() as transaction:
        transaction.execute(delete(Contact).where(Contact.account_id == tenant.id))
    forgotten = forget(worker, [tenant.id], "email", written, wait=0)
    assert forgotten.removed["sends that named the address"] == 1
    assert [row.email is None for row in rows_of(tenant, Recipient)] == [True, False]
    assert [row.reply_to for row in rows_of(tenant, Send)] == [None, None]


def test_a_message_that_comes_meanwhile_is_forgotten_however_its_address_is_written(
    tenant: Tenant, worker: Services
) -> None:
    """How messages write the address is read at the beginning, and again once nothing more is found."""
    email, sends, passes = f"änna{unique('')}@x.example", SendsApi(tenant), []
    written = [email.replace("ä", "Ä").replace("x.", "X。")]

    def come(_removed: int) -> None:
        if written:
            sends.send(sends.email(recipients=[{"email": written.pop()}]))
            with worker.database.write() as transaction:
                transaction.execute(delete(Contact).where(Contact.account_id == tenant.id))

    sends.send(sends.email(recipients=[{"email": email}, {"email": new_email()}]))
    for _ in range(2):
        with StatementCounter(worker.database.engine) as counted:
            forget(worker, [tenant.id], "email", email, wait=0, advance=come)
        passes.append(sum("DISTINCT lower(recipients.email)" in statement for statement in counted.statements))
    assert [row.email is None for row in rows_of(tenant, Recipient)] == [True, False, True]
    assert passes == [3, 2]


def test_a_message_that_is_being_handed_over_is_waited_for(tenant: Tenant, worker: Services) -> None:
    sends, address = SendsApi(tenant), new_email()
    (row,) = sends.send(sends.email(recipients=[{"email": address}])).recipients
    with worker.database.write() as transaction:
        values = {"state": "sending", "worker": "another:1:x", "lease_time": now().replace(year=2100), "attempts": 1}
        transaction.execute(update(QueueEntry).where(QueueEntry.recipient_id == row.id).values(**values))
    first = forget(worker, [tenant.id], "email", address, wait=0)
    assert (first.is_complete, first.in_flight) == (False, [row.uuid])
    with worker.database.write() as transaction:
        transaction.execute(update(QueueEntry).where(QueueEntry.recipient_id == row.id).values(state="queued"))
    second = forget(worker, [tenant.id], "email", address, wait=PATIENCE)
    assert (second.is_complete, second.removed["messages not sent"]) == (True, 1)
    assert rows_naming(worker, address) == {}


def test_waiting_is_no_round(tenant: Tenant, worker: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many times it looks, the time that was given is what ends it."""
    monkeypatch.setattr("app.privacy.forget.MAX_ROUNDS", 2)
    sends, address, looks = SendsApi(tenant), new_email(), itertools.count(1)
    (row,) = sends.send(sends.email(recipients=[{"email": address}])).recipients
    has_id = QueueEntry.recipient_id == row.id
    with worker.database.write() as transaction:
        values = {"state": "sending", "worker": "another:1:x", "lease_time": now().replace(year=2100), "attempts": 1}
        transaction.execute(update(QueueEntry).where(has_id).values(**values))

    def arrive(_: int) -> None:
        if next(looks) == 4:
            with worker.database.write() as transaction:
                transaction.execute(update(QueueEntry).where(has_id).values(state="queued"))

    forgotten = forget(worker, [tenant.id], "email", address, wait=PATIENCE, advance=arrive)
    assert (forgotten.is_complete, forgotten.removed["messages not sent"]) == (True, 1)


def test_a_run_that_was_interrupted_is_completed_by_repeating_it(
    tenant: Tenant, worker: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever place was the last that it came to."""
    sends, mark = SendsApi(tenant), unique("ended")
    addresses = [f"{mark}-{number}@example.com" for number in range(len(PLACES))]
    tenant.add(Webhook, url=f"https://{unique('hook')}.example/", creation_time=now(), due_time=now(), held_to=0)
    sends.send(sends.email(recipients=[{"email": address} for address in addresses]))
    with worker.database.write() as transaction:
        for address in addresses:
            unsubscribe(transaction, tenant.id, "email", address, None)
    drain(worker)
    for number, address in enumerate(addresses):
        with monkeypatch.context() as patch:
            patch.setattr("app.privacy.forget.PLACES", PLACES[: number + 1])
            forget(worker, [tenant.id], "email", address, wait=0)
        assert forget(worker, [tenant.id], "email", address, wait=PATIENCE).kept == {"unsubscribed": 1}
    assert rows_naming(worker, mark) == {}
    assert {row.body_text for row in rows_of(tenant, Send)} == {None}
