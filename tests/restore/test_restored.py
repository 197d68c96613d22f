"""A restored backup is what was backed up, and sends nothing of it by itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from app.accounts.sessions import make_link, start_with_link
from app.backup.take import take_backup
from app.clock import now
from app.db.copies.load import ID_GAP
from app.db.field_indexes import FieldIndex, create_index, index_names
from app.db.history_ranges import SPAN, begin_range, id_ranges, make_ranges_ahead, range_of_new_ids
from app.db.migrate import differences
from app.db.models import (
    Account,
    AutomationRun,
    BulkAction,
    ConsoleLink,
    ConsoleSession,
    Event,
    QueueEntry,
    Recipient,
    RecipientStep,
    Webhook,
)
from app.events.batches import has_due
from app.runs.work import advance_due
from app.sends.delivery.drain import drain
from app.sends.outcomes.attempt_result import AttemptResult, journal_folder
from app.settings import Settings, from_environment
from app.transports.base import DeliveryResult
from tests.restore.conftest import Installation, Installer, rewritten, running
from tests.support.automations import add_automation
from tests.support.client import SENDS, Client
from tests.support.databases import BACKENDS
from tests.support.rows import Rows
from tests.support.tenants import Tenant, new_tenant
from tests.unit.transports.mailserver import MailServer

HARD_TEXT = "tab\there, line\nend, carriage\rreturn, back\\slash, \\N, \\t, ünïcödé 🎈, quote ' and \""
NEW = {"type": "email", "group_name": "New", "subject": "x", "body_text": "y", "list_id": 1}
HELD = ("send_queue", "recipient_steps", "webhooks", "automation_runs", "event_rotation", "audit_entries")
"""Tables in which restoring holds what would be sent, and the one in which it is recorded."""
WAIT = {
    "name": "Later",
    "kind": "advanced",
    "trigger": "REST API Contact Created",
    "steps": [{"name": "a while", "wait": "1 hour"}, {"name": "end", "stop": True}],
}


def fill(source: Installation) -> tuple[Tenant, Rows]:
    """An account with rows that are hard to copy: bytes, texts with the marks of the format, nulls, numbers."""
    tenant = new_tenant(source.app)
    rows = Rows.of(tenant)
    list_id = tenant.add_list()
    tenant.add_message(subject=HARD_TEXT)
    rows.add_contact(list_id, "ann@example.com", values={"no": None, "yes": True, "text": HARD_TEXT, "number": 1.5})
    rows.add_send([{"email": "files@example.com", "attachments": [("a.bin", "text/plain", bytes(range(256)) * 300)]}])
    return tenant, rows


def later(source: Installation, settings: Settings) -> Settings:
    """The settings as a process reads them that starts after a restore."""
    urls = {"DATABASE_URL": settings.database_url, "REDIS_URL": settings.redis_url}
    mail = {"EMAIL_TRANSPORT_URL": settings.email_transport_url}
    variables = {"DATA_DIR": str(settings.data_dir), "RATE_LIMIT": "off", "WEBHOOK_SPACING": "0", "RETRY_DELAY": "0"}
    return from_environment({**urls, **mail, **variables})


def arrived(mail_server: MailServer) -> list[str]:
    """The addresses to which mail has come, in alphabetical order."""
    return sorted(address for mail in mail_server.mails for address in mail.recipients)


def work(installation: Installation) -> None:
    """All that workers do."""
    drain(installation.services)
    advance_due(installation.services)
    with installation.services.database.read() as session:
        assert not has_due(session, installation.services.settings)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_restored_backup_sends_nothing_but_what_is_released(
    installed: Installer, new_settings: Callable[..., Settings], mail_server: MailServer, file: str, backend: str
) -> None:
    source = installed(backend, migrated=True)
    tenant, rows = fill(source)
    drain(source.services)
    begin_month(source)
    first = post_once(source, tenant)
    queued = dict(zip("cd", rows.add_send([f"{letter}@example.com" for letter in "cd"]), strict=True))
    queued["b"] = id_of(source, first)
    (deferred,) = rows.add_send(["e@example.com"], due_in=3600)
    in_flight, journalled, uncertain = rows.add_send([f"{letter}@example.com" for letter in "fgh"])
    lease = {"lease_time": now() + timedelta(seconds=90), "attempts": 1}
    rows.change([in_flight], state="sending", worker="elsewhere", **lease)
    rows.change([journalled], state="sending", worker="gone", **lease)
    rows.change([uncertain], state="uncertain", due_time=now() - timedelta(seconds=1), attempts=1)
    journal(source, AttemptResult(journalled, 1, "g@example.com", now(), DeliveryResult.accepted("2.0.0 queued")))
    webhook = rows.add_webhook()
    rows.add(Event, webhook_id=webhook, payload='{"n": 1}')
    run = add_run(source, rows)

    facts = source.json("backup", file)
    assert (facts["database"], facts["secret_key"], facts["deleted"]) == (backend, True, [])
    before = source.rows(*HELD, "alembic_version")
    release_lease(rows, in_flight)
    drain(source.services)
    assert arrived(mail_server) == [f"{name}@example.com" for name in ("b", "c", "d", "f", "files", "h")]

    settings = new_settings(backend, migrated=backend == "postgresql")
    with running(settings) as target:
        restored = target.json("restore", file)
    assert restored["held"] == {"messages": 6, "runs": 1, "webhooks": 1}
    assert (restored["settled"], restored["secret_key"]) == (1, True)
    with running(later(source, settings)) as target:
        assert target.settings.secret_key == source.settings.secret_key
        check_copied(target, before, journalled)
        check_nothing_is_sent(target, mail_server)
        assert post_once(target, tenant) == first
        check_holds(target, tenant)
        check_release(target, mail_server, queued, uncertain)
        check_rest(target, tenant, mail_server, run=run, webhook=webhook, deferred=deferred)


def id_of(installation: Installation, uuid: str) -> int:
    """The id of a recipient."""
    with installation.services.database.read() as session:
        return session.scalars(select(Recipient.id).where(Recipient.uuid == uuid)).one()


def post_once(installation: Installation, tenant: Tenant) -> str:
    """Sends once, however often it is called: the key of the account and the idempotency key stay valid."""
    to = {"from_address": f"hello@{tenant.domain}", "recipients": [{"email": "b@example.com"}]}
    api = Client(installation.app, tenant.tokens["standard"])
    answer = api.post(SENDS, {**NEW, **to}, headers={"Idempotency-Key": "once"})
    assert answer.status_code == 202, answer.text
    return str(answer.get_json()["_embedded"]["recipients"][0]["uuid"])


def begin_month(source: Installation) -> None:
    """On PostgreSQL recipients are in a range then that a new database does not have."""
    database = source.services.database
    with database.read() as session:
        current = range_of_new_ids(session)
    if current is not None:
        begin_range(database, current)
        assert make_ranges_ahead(database) == 1


def journal(source: Installation, result: AttemptResult) -> None:
    """The journal of a sender that has died."""
    folder = journal_folder(source.settings)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gone.journal").write_bytes(result.line())


def add_run(source: Installation, rows: Rows) -> int:
    """A run of an automation that was due a minute ago."""
    list_id = rows.add_list()
    contact = rows.add_contact(list_id, "run@example.com")
    automation = add_automation(source.services, rows.account_id, list_id, WAIT)
    with source.services.database.read() as session:
        version = session.execute(select(AutomationRun.version_id)).first()
    assert version is None
    due = now() + timedelta(seconds=3600)
    return rows.add(
        AutomationRun, automation_id=automation, version_id=1, list_id=list_id, contact_id=contact, entry_key=0,
        trigger_time=now(), state="waiting", step="a while", due_time=due,
    )  # fmt: skip


def release_lease(rows: Rows, in_flight: int) -> None:
    """Ends the lease of the message, whose sender is done."""
    rows.change([in_flight], state="queued", worker=None, lease_time=None)


def check_copied(target: Installation, before: dict[str, Any], journalled: int) -> None:
    """The journal's outcome is the one thing that has changed beside what is held."""
    after = target.rows(*HELD, "alembic_version")
    different = {name for name in before if before[name] != after[name]}
    assert different <= {"recipients", "events", "group_counts", "hourly_counts"}, different
    assert len(after["recipients"]) == len(before["recipients"])
    assert sum(row != other for row, other in zip(before["recipients"], after["recipients"], strict=True)) == 1
    with target.services.database.read() as session:
        assert session.get_one(Recipient, journalled).state == "delivered"


def check_nothing_is_sent(target: Installation, mail_server: MailServer) -> None:
    had = arrived(mail_server)
    work(target)
    assert arrived(mail_server) == had
    status = target.json("status")
    names = ("due", "deferred", "in_flight", "uncertain", "held", "runs_waiting", "runs_due", "runs_held")
    assert [status[name] for name in (*names, "webhooks_held")] == [0, 0, 0, 0, 6, 0, 0, 1, 1]


def check_holds(target: Installation, tenant: Tenant) -> None:
    rows = target.json("holds", "list", "--account", tenant.name)
    assert [(row["what"], row["of"], row["held"]) for row in rows if row["what"] == "messages"] == [
        ("messages", "queued", 4),
        ("messages", "sending", 1),
        ("messages", "uncertain", 1),
    ]
    assert [(row["what"], row["of"], row["held"]) for row in rows if row["what"] == "runs"] == [("runs", "Later", 1)]
    assert [row["held"] for row in rows if row["what"] == "events"] == [2], "that of the journal's outcome included"


def check_release(target: Installation, mail_server: MailServer, queued: dict[str, int], uncertain: int) -> None:
    """Exactly what is released is sent."""
    with target.services.database.read() as session:
        uuids = {name: session.get_one(Recipient, id_).uuid for name, id_ in queued.items()}
    had = arrived(mail_server)
    previewed = target.json("holds", "release", "messages", "--uuid", uuids["c"], "--dry-run")
    assert (previewed["held"], previewed["left_out"]) == (1, {})
    drain(target.services)
    assert arrived(mail_server) == had
    released = target.json("holds", "release", "messages", "--uuid", uuids["c"], "--yes")
    assert released == {"released": 1, "arrived": 0}
    drain(target.services)
    assert arrived(mail_server) == sorted([*had, "c@example.com"])
    own_rows = Rows(target.services, 0)
    own_rows.account_id = own_rows.recipient(queued["b"]).account_id
    own_rows.add(RecipientStep, recipient_id=queued["b"], time=now(), step="opened")
    assert target.json("holds", "release", "messages", "--uuid", uuids["b"], "--yes") == {"released": 0, "arrived": 1}
    dropped = target.json("holds", "drop", "messages", "--as", "failed", "--was", "uncertain", "--yes")
    assert dropped == {"dropped": 1, "outcome": "failed"}
    sent = target.json("holds", "drop", "messages", "--as", "sent", "--due-before", now().isoformat(), "--yes")
    assert sent == {"dropped": 2, "outcome": "sent"}
    drain(target.services)
    assert arrived(mail_server) == sorted([*had, "c@example.com"])
    assert own_rows.states([*queued.values(), uncertain]) == ["delivered", "delivered", "delivered", "failed"]
    assert own_rows.recipient(uncertain).reason == "dropped"
    assert [step for step, _ in own_rows.steps(queued["c"])] == ["held", "requeued", "sent"]


def check_rest(
    target: Installation, tenant: Tenant, mail_server: MailServer, *, run: int, webhook: int, deferred: int
) -> None:
    """A message for later keeps its time; runs and events go on; what is accepted after the restore is sent, under ids
    that no lost recipient had."""
    assert target.json("holds", "release", "messages", "--yes") == {"released": 1, "arrived": 0}
    status = target.json("status")
    assert (status["deferred"], status["held"]) == (1, 0)
    assert target.json("holds", "release", "runs", "--yes") == {"released": 1}
    assert target.json("holds", "drop", "events", "--dry-run") == {"held": 2, "webhooks": 1}
    assert target.json("holds", "release", "events", "--yes") == {"released": 2, "webhooks": 1}
    audited = target.json("audit", "list", "action:in=backup.taken,backup.restored,webhook.released")
    assert [(entry["action"], entry["via"]) for entry in reversed(audited)] == [
        ("backup.taken", "backup"),
        ("backup.restored", "restore"),
        ("webhook.released", "holds release events"),
    ]
    with target.services.database.read() as session:
        assert has_due(session, target.services.settings)
        assert session.get_one(AutomationRun, run).state == "waiting"
        assert session.get_one(Webhook, webhook).held_to is None
        last = session.scalars(select(func.max(Recipient.id))).one()
        assert session.scalars(select(QueueEntry.recipient_id)).all() == [deferred]
    api = Client(target.app, tenant.tokens["standard"])
    new = {**NEW, "from_address": f"hello@{tenant.domain}", "recipients": [{"email": "new@example.com"}]}
    accepted = api.post(SENDS, new)
    assert accepted.status_code == 202, accepted.text
    drain(target.services)
    assert arrived(mail_server).count("new@example.com") == 1
    with target.services.database.read() as session:
        newest = session.scalars(select(func.max(Recipient.id))).one()
        assert newest > last + ID_GAP // 2
        ranges, current = id_ranges(session), range_of_new_ids(session)
    if current is not None:
        # A range that the lost recipients of the next month cannot have been in either, with those made ahead of it.
        assert (newest // SPAN, current.first // SPAN, len(ranges)) == (5, 5, 9)
        assert make_ranges_ahead(target.services.database) == 0


def test_a_backup_of_one_database_can_be_restored_into_the_other(
    installed: Installer, file: str, tmp_path: Any
) -> None:
    """Backups are restored in both directions, with the indexes on list fields, so that SQLite can be outgrown."""
    source, middle, end = (
        installed("sqlite", migrated=True),
        installed("postgresql"),
        installed("sqlite"),
    )
    fill(source)
    drain(source.services)
    create_index(source.settings.database_url, index := FieldIndex("first_name", "date"))
    source.json("backup", file)
    before = source.rows(*HELD)
    middle.json("restore", file)
    assert middle.rows(*HELD) == before
    assert index_names(middle.settings.database_url) == [index.name]
    middle.json("backup", second := str(tmp_path / "second.zip"))
    end.json("restore", second)
    assert end.rows(*HELD) == before
    assert index_names(end.settings.database_url) == [index.name]


@pytest.mark.parametrize("backend", BACKENDS)
def test_nobody_is_signed_in_to_a_restored_console(
    installed: Installer, new_settings: Callable[..., Settings], file: str, backend: str
) -> None:
    """Sessions may have ended since, and links may have been used."""
    source = installed(backend, migrated=True)
    tenant, _ = fill(source)
    with source.services.database.write() as transaction:
        start_with_link(transaction, make_link(transaction, None), timedelta(hours=1))
        make_link(transaction, transaction.get_one(Account, tenant.id))
    source.json("backup", file)
    with running(new_settings(backend, migrated=backend == "postgresql")) as target:
        target.json("restore", file)
        with target.services.database.read() as session:
            left = [session.scalar(select(func.count()).select_from(model)) for model in (ConsoleSession, ConsoleLink)]
    assert left == [0, 0]


@pytest.mark.parametrize("backend", BACKENDS)
def test_bulk_actions_that_had_not_ended_are_cancelled(
    installed: Installer, new_settings: Callable[..., Settings], file: str, backend: str
) -> None:
    """What they were about may have been sent since."""
    source = installed(backend, migrated=True)
    tenant, _ = fill(source)
    texts = {"action": "retry", "query": "state=failed", "asked_by": "ann", "state": "running"}
    times = dict.fromkeys(("creation_time", "due_time", "newest_time"), now())
    tenant.add(BulkAction, **texts, **times, messages=1, newest_id=1, done=0, left_out={})
    source.json("backup", file)
    with running(new_settings(backend, migrated=backend == "postgresql")) as target:
        target.json("restore", file)
        with target.services.database.read() as session:
            (left,) = session.scalars(select(BulkAction)).all()
    assert (left.state, left.end_time is None) == ("cancelled", False)


STRUCTURE = {
    "sqlite": "SELECT tbl_name, coalesce(sql, name) FROM sqlite_master WHERE name NOT LIKE 'sqlite_stat_'",
    "postgresql": """
        SELECT one.relname, regexp_replace(pg_get_indexdef(indexrelid), 'INDEX \\S+ ON', 'INDEX ON'), indisvalid,
            CASE WHEN one.relispartition THEN '' ELSE own.relname END
        FROM pg_index JOIN pg_class AS own ON own.oid = indexrelid JOIN pg_class AS one ON one.oid = indrelid
        WHERE one.relnamespace = CAST(current_schema() AS regnamespace) AND one.relname !~ '_r[1-9][0-9]*$'
        UNION ALL
        SELECT CAST(CAST(conrelid AS regclass) AS text), pg_get_constraintdef(oid), convalidated, conname
        FROM pg_constraint
        WHERE connamespace = CAST(current_schema() AS regnamespace) AND conparentid = 0 AND contype IN ('f', 'p', 'u')
        """,
}
"""Tables with their indexes and constraints; not of the ranges that restoring makes."""


def structure(installation: Installation) -> list[str]:
    """In any order."""
    engine = installation.services.database.engine
    with engine.connect() as connection:
        rows = connection.exec_driver_sql(STRUCTURE[engine.dialect.name])
        return sorted(repr(tuple(row)).replace("IF NOT EXISTS ", "") for row in rows)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_set_aside_while_large_tables_are_loaded_is_there_afterwards(
    installed: Installer, file: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Indexes, keys and references, those of partitions included; and they find out about rows that do not fit."""
    monkeypatch.setattr("app.backup.restore.MANY_ROWS", 1)
    source, target = installed(backend, migrated=True), installed(backend, migrated=True)
    fill(source)
    source.json("backup", file)
    target.json("restore", file)
    assert target.rows(*HELD) == source.rows(*HELD)
    assert structure(target) == structure(source)
    assert differences(target.settings.database_url) == []
    path = rewritten(file, lists=lambda lines: lines.replace(b"\t1\t", b"\t999\t", 1))
    other = installed(backend, migrated=True)
    empty = other.rows()
    assert other.refused("restore", path, code=1).startswith("Error: nothing was restored: ")
    assert other.rows() == empty


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backup_shows_one_moment_while_others_write(installed: Installer, file: str, backend: str) -> None:
    """Nobody waits for a backup: what is written while it runs is committed before the backup goes on."""
    source = installed(backend, migrated=True)
    rows = Rows.of(new_tenant(source.app))
    rows.add_send(["before@example.com"])

    def write(_rows: int) -> Callable[[int], None]:
        rows.add_send(["after@example.com"])
        return lambda _: None

    manifest = take_backup(source.settings, Path(file), with_secret_key=True, begin=write)
    assert [manifest.tables[name].rows for name in ("sends", "recipients", "send_queue")] == [1, 1, 1]
    assert source.json("status")["due"] == 2


def test_what_was_paused_is_held_and_put_aside_once_more_when_it_is_released(
    installed: Installer, new_settings: Callable[..., Settings], mail_server: MailServer, file: str
) -> None:
    source = installed("sqlite", migrated=True)
    tenant = new_tenant(source.app)
    rows = Rows.of(tenant)
    source.json("sends", "pause", "--account", tenant.name)
    (recipient_id,) = rows.add_send(["ann@example.com"])
    drain(source.services)
    assert rows.states([recipient_id]) == ["paused"]
    source.json("backup", file)
    settings = new_settings("sqlite", migrated=False)
    with running(settings) as target:
        assert target.json("restore", file)["held"]["messages"] == 1
    with running(later(source, settings)) as target:
        own_rows = Rows(target.services, tenant.id)
        entry = own_rows.recipient(recipient_id)
        assert (entry.state, entry.held_state, entry.pause_id) == ("held", "queued", None)
        assert target.json("holds", "release", "messages", "--yes")["released"] == 1
        work(target)
        assert own_rows.states([recipient_id]) == ["paused"]
        target.json("sends", "resume", "--account", tenant.name)
        work(target)
        assert own_rows.states([recipient_id]) == ["delivered"]
        assert [step for step, _ in own_rows.steps(recipient_id)] == [
            *("paused", "held", "requeued", "paused", "resumed", "sent")
        ]
    assert arrived(mail_server) == ["ann@example.com"]
