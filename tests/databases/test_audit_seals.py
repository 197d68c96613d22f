"""The audit log is sealed behind those who act, and says where it was changed (docs/audit.md#seals)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import Connection, insert, select, text, update
from sqlalchemy.exc import DBAPIError

from app.audit.record import Act, record
from app.audit.seals import has_unsealed
from app.audit.verify import Break, NotedSeal, Verification, verify
from app.clock import now
from app.db.copies.snapshot import snapshot
from app.db.models import Account, AuditEntry, AuditSeal, DigestKey
from app.infrastructure.redis_client import AUTOMATIONS
from app.maintenance import sweeps
from app.maintenance.audit_seals import seal_entries
from app.maintenance.stored_secrets import count_secrets, encrypt_anew
from app.settings import Settings
from jobs.schedule import tick
from tests.cli.conftest import Cli
from tests.databases.running import Alone, alone
from tests.support.databases import BACKENDS
from tests.support.servers import wait_until
from tests.support.statements import StatementCounter
from tests.support.tenants import new_email

OLD = timedelta(days=401)


@pytest.fixture(params=BACKENDS)
def parts(request: pytest.FixtureRequest) -> Iterator[Alone]:
    with alone(request.getfixturevalue("postgres") if request.param == "postgresql" else None) as services:
        add_acts(services)
        seal_entries(services.services)
        yield services


def add_acts(parts: Alone, count: int = 1) -> list[int]:
    """Records acts, a transaction each; returns the ids of their entries."""
    for number in range(count):
        with parts.services.database.write() as transaction:
            record(transaction, Act("list.imported", parts.tenant.id, number, "Friends", counts={"rows": number}))
    return ids(parts)[-count:]


def add_old(parts: Alone, age: timedelta, account_id: int | None = None) -> int:
    """Adds an entry of that age."""
    actor = {"actor_kind": "command", "actor": "root", "action": "list.updated", "object": "list"}
    account = {"account_id": parts.tenant.id if account_id is None else account_id}
    values = {"time": now() - age, "changes": [], "counts": {}, **actor, **account}
    with parts.services.database.write() as transaction:
        added = transaction.execute(insert(AuditEntry).values(values).returning(AuditEntry.id))
        return int(added.scalar_one())


def ids(parts: Alone) -> list[int]:
    with parts.services.database.read() as session:
        return list(session.scalars(select(AuditEntry.id).order_by(AuditEntry.id)))


def seals(parts: Alone) -> Sequence[AuditSeal]:
    with parts.services.database.read() as session:
        return session.scalars(select(AuditSeal).order_by(AuditSeal.number)).all()


def verified(parts: Alone, settings: Settings | None = None, noted: NotedSeal | None = None) -> Verification:
    settings = settings or parts.services.settings
    with snapshot(settings.database_url) as log:
        return verify(log.connection, settings, noted)


def test_committed_entries_are_sealed_in_the_order_of_their_commits_without_gaps(parts: Alone) -> None:
    before = seals(parts)[-1].number
    added = add_acts(parts, 3)
    assert verified(parts).waiting == 3
    tick(parts.services, [])
    assert parts.waiting(AUTOMATIONS) == 1
    assert seal_entries(parts.services) == 3
    made = seals(parts)[-3:]
    assert [seal.entry_id for seal in made] == added
    assert [seal.number for seal in made] == [before + 1, before + 2, before + 3]
    report = verified(parts)
    assert (report.breaks, report.sealed, report.purged, report.waiting) == ([], len(ids(parts)), 0, 0)
    assert report.last == NotedSeal(made[-1].number, made[-1].hash)
    parts.services.redis.flushall()
    tick(parts.services, [])
    assert parts.waiting(AUTOMATIONS) == 0
    assert seal_entries(parts.services) == 0


def test_an_act_costs_no_statement_more_and_sealing_a_fixed_number(parts: Alone) -> None:
    counts = []
    for number in (1, 20):
        add_acts(parts, number)
        with StatementCounter(parts.services.database.engine) as counted:
            assert seal_entries(parts.services) == number
        counts.append(counted.count)
    assert counts[0] == counts[1]
    with StatementCounter(parts.services.database.engine) as counted:
        add_acts(parts)
    assert [statement for statement in counted.statements if "audit_seals" in statement] == []


@pytest.mark.postgresql("SQLite has one writer at a time")
def test_nothing_is_sealed_before_an_entry_that_is_still_to_be_committed(parts: Alone) -> None:
    """Ids are not drawn in the order of commits. Nobody waits."""
    database = parts.services.database
    with database.write() as open_:
        record(open_, Act("list.imported", parts.tenant.id, "first"))
        open_.write_last()
        (second,) = add_acts(parts)
        assert seal_entries(parts.services) == 0
        assert (verified(parts).waiting, verified(parts).breaks) == (1, [])
    assert seal_entries(parts.services) == 2
    first, last = seals(parts)[-2:]
    assert (first.entry_id < second, last.entry_id) == (True, second)
    with database.write() as reading:
        reading.scalars(select(AuditEntry.id)).all()
        add_acts(parts)
        assert seal_entries(parts.services) == 1
    assert verified(parts).breaks == []


def test_several_seal_while_others_act_at_once(parts: Alone) -> None:
    """Each entry has one seal, whoever seals it."""
    before, stopped, failures = len(ids(parts)), threading.Event(), list[Exception]()

    def sealing() -> None:
        try:
            while not stopped.is_set():
                seal_entries(parts.services, time_slice=0)
        except Exception as error:
            failures.append(error)

    sealers = [threading.Thread(target=sealing) for _ in range(2)]
    actors = [threading.Thread(target=add_acts, args=(parts, 15)) for _ in range(4)]
    for thread in (*sealers, *actors):
        thread.start()
    for thread in actors:
        thread.join()
    wait_until(lambda: not verified(parts).waiting, "all entries to be sealed")
    stopped.set()
    for thread in sealers:
        thread.join()
    assert failures == []
    assert [seal.entry_id for seal in seals(parts)] == ids(parts)
    assert (len(ids(parts)), verified(parts).breaks) == (before + 60, [])


def test_it_seals_in_slices_and_stops_when_asked(parts: Alone) -> None:
    add_acts(parts, 150)
    assert seal_entries(parts.services, time_slice=0) == 100
    assert verified(parts).waiting == 50
    with parts.services.database.read() as session:
        assert has_unsealed(session)
    parts.services.stopping.set()
    assert seal_entries(parts.services) == 0
    parts.services.stopping.clear()
    assert seal_entries(parts.services) == 50


Tamper = Callable[[Connection, int, int], object]
"""Changes the log: called with the id of an entry and the number of its seal."""


def sql(*statements: str) -> Tamper:
    """Runs statements with `:entry` and `:seal`."""

    def run(connection: Connection, entry: int, seal: int) -> None:
        for statement in statements:
            connection.execute(text(statement), {"entry": entry, "seal": seal})

    return run


TAMPERED: dict[str, tuple[Tamper, list[tuple[int | None, int | None, str]]]] = {
    "an entry is changed": (
        sql("UPDATE audit_entries SET actor = 'nobody' WHERE id = :entry"),
        [(0, 0, "the entry was changed")],
    ),
    "its counts are": (
        sql("UPDATE audit_entries SET counts = '{\"rows\": 7}' WHERE id = :entry"),
        [(0, 0, "the entry was changed")],
    ),
    "an entry is deleted": (
        sql("DELETE FROM audit_entries WHERE id = :entry"),
        [(0, 0, "the entry is missing")],
    ),
    "its seal is deleted": (
        sql("DELETE FROM audit_seals WHERE number = :seal"),
        [(None, 0, "the seal is missing"), (0, None, "the seal is missing")],
    ),
    "both are deleted": (
        sql("DELETE FROM audit_entries WHERE id = :entry", "DELETE FROM audit_seals WHERE number = :seal"),
        [(None, 0, "the seal is missing")],
    ),
    "both are, and those behind are numbered anew": (
        sql(
            "DELETE FROM audit_entries WHERE id = :entry",
            "DELETE FROM audit_seals WHERE number = :seal",
            "UPDATE audit_seals SET number = number - 1, first_number = first_number - 1 WHERE number = :seal + 1",
        ),
        [(1, 0, "the seal was changed"), (None, 1, "the seal is missing")],
    ),
    "a seal is changed": (
        sql("UPDATE audit_seals SET hash = 'abc' WHERE number = :seal"),
        [(0, 0, "the seal was changed")],
    ),
    "entry and digest are changed": (
        sql("UPDATE audit_seals SET digest = 'abc' WHERE number = :seal"),
        [(0, 0, "the seal was changed")],
    ),
    "two seals change places": (
        sql(
            "UPDATE audit_seals SET number = -1, first_number = -1 WHERE number = :seal",
            "UPDATE audit_seals SET number = :seal, first_number = :seal WHERE number = :seal + 1",
            "UPDATE audit_seals SET number = :seal + 1, first_number = :seal + 1 WHERE number = -1",
        ),
        [(0, 1, "the entry is out of order"), (1, 0, "the seal was changed")],
    ),
    "an entry is put before sealed ones": (
        sql(
            "DELETE FROM audit_entries WHERE id = :entry + 1",
            "DELETE FROM audit_seals WHERE entry_id = :entry + 1",
            "INSERT INTO audit_entries (id, time, action, object, actor_kind, actor, changes, counts) "
            "SELECT id + 1, time, action, object, actor_kind, actor, changes, counts FROM audit_entries "
            "WHERE id = :entry",
        ),
        [(None, 1, "the seal is missing"), (1, None, "the seal is missing")],
    ),
    "a deletion is passed off as one of the retention": (
        sql(
            "DELETE FROM audit_entries WHERE id = :entry",
            "UPDATE audit_seals SET purged_time = time, purged_mark = hash WHERE number = :seal",
        ),
        [(0, 0, "the seal was changed")],
    ),
    "all seals are deleted": (
        sql("DELETE FROM audit_seals"),
        [(None, None, "the seal is missing")],
    ),
}
"""What is done -> entry, seal and problem of each break; 0 and 1 are the entry that is meant and the one behind it."""
UNREADABLE: dict[str, Tamper] = {
    "a time that is none": sql("UPDATE audit_entries SET time = 'yesterday' WHERE id = :entry"),
    "JSON that is none": sql("UPDATE audit_entries SET changes = '{' WHERE id = :entry"),
    "bytes": sql("UPDATE audit_entries SET actor = x'00ff' WHERE id = :entry"),
    "text that is not UTF-8": sql("UPDATE audit_entries SET actor = CAST(x'ff' AS TEXT) WHERE id = :entry"),
}
"""What only SQLite can store."""


def disarm(connection: Connection) -> None:
    """What anybody does first who changes entries."""
    on_table = "" if connection.dialect.name == "sqlite" else " ON audit_entries"
    connection.execute(text(f"DROP TRIGGER audit_entries_unchanged{on_table}"))


def breaks_after(parts: Alone, tamper: Tamper, entry: int, seal: int, settings: Settings | None = None) -> list[Break]:
    """What verifying finds once the log was changed, which is taken back."""
    with parts.services.database.write() as transaction:
        connection = transaction.connection()
        disarm(connection)
        tamper(connection, entry, seal)
        breaks = verify(connection, settings or parts.services.settings).breaks
        transaction.rollback()
    return list(breaks)


@pytest.mark.both("what cannot be read is stored on SQLite alone")
def test_each_kind_of_tampering_is_found_where_it_was_done(parts: Alone) -> None:
    entry, *_ = add_acts(parts, 4)
    seal_entries(parts.services)
    number = next(seal.number for seal in seals(parts) if seal.entry_id == entry)
    for what, (tamper, expected) in TAMPERED.items():
        breaks = breaks_after(parts, tamper, entry, number)
        expected_breaks = [
            Break(None if e is None else entry + e, None if s is None else number + s, p) for e, s, p in expected
        ]
        assert sorted(breaks, key=str) == sorted(expected_breaks, key=str), what
    if not parts.services.database.is_postgresql:
        for what, tamper in UNREADABLE.items():
            assert breaks_after(parts, tamper, entry, number) == [Break(entry, number, "the entry was changed")], what
    assert verified(parts).breaks == []


def test_a_log_that_was_sealed_anew_is_told_by_a_seal_that_was_noted(parts: Alone) -> None:
    add_acts(parts, 2)
    seal_entries(parts.services)
    noted = verified(parts).last
    assert noted is not None
    add_acts(parts)
    seal_entries(parts.services)
    assert verified(parts, noted=noted).breaks == []
    with parts.services.database.write() as transaction:
        disarm(transaction.connection())
        for statement in ("DELETE FROM audit_seals", "UPDATE audit_entries SET actor = 'nobody'"):
            transaction.execute(text(statement))
    seal_entries(parts.services)
    assert verified(parts).breaks == []
    (broken,) = verified(parts, noted=noted).breaks
    assert (broken.seal, broken.problem) == (noted.number, "the seal differs from the noted seal")
    late = NotedSeal(1000, noted.hash)
    assert verified(parts, noted=late).breaks == [Break(None, 1000, "the seal is missing")]


def test_purging_leaves_a_checkpoint_from_which_the_chain_goes_on(parts: Alone) -> None:
    """Entries from before the seals are purged, too; nothing is left of those."""
    with parts.services.database.write() as transaction:
        transaction.execute(text("DELETE FROM audit_seals"))
        transaction.execute(text("DELETE FROM audit_entries"))
    for _ in range(3):
        add_old(parts, OLD)
    seal_entries(parts.services)
    never_sealed = add_old(parts, OLD)
    noted = [NotedSeal(seal.number, seal.hash) for seal in seals(parts)]
    sweeps.clean(parts.services)
    assert never_sealed not in ids(parts)
    (checkpoint,) = seals(parts)
    assert (checkpoint.first_number, checkpoint.number, checkpoint.hash) == (1, 3, noted[-1].hash)
    assert checkpoint.purged_time is not None
    add_acts(parts, 2)
    seal_entries(parts.services)
    report = verified(parts)
    assert (report.breaks, report.purged, report.sealed) == ([], 3, 2)
    assert report.purged_time == checkpoint.purged_time
    assert verified(parts, noted=noted[0]).is_noted_purged
    assert not verified(parts, noted=noted[-1]).is_noted_purged
    forged = sql("UPDATE audit_seals SET first_number = 2 WHERE number = 3")
    assert breaks_after(parts, forged, 0, 0)[-1].problem == "the seal was changed"


def test_checkpoints_between_kept_entries_are_joined(parts: Alone) -> None:
    """One account keeps its entries for ever, and others do not."""
    with parts.services.database.write() as transaction:
        transaction.execute(text("DELETE FROM audit_seals"))
        transaction.execute(text("DELETE FROM audit_entries"))
        transaction.execute(update(Account).where(Account.id == parts.tenant.id).values(retain_audit="off"))
    other, third = parts.tenant.id + 1000, parts.tenant.id + 2000
    for account_id in (other, parts.tenant.id, other, third, other, parts.tenant.id):
        add_old(parts, OLD if account_id != third else timedelta(days=300), account_id)
    seal_entries(parts.services)
    sweeps.clean(parts.services)
    shape = [(seal.first_number, seal.number, seal.purged_time is not None) for seal in seals(parts)]
    assert shape == [(1, 1, True), (2, 2, False), (3, 3, True), (4, 4, False), (5, 5, True), (6, 6, False)]
    assert (verified(parts).breaks, verified(parts).purged, verified(parts).sealed) == ([], 3, 3)
    sweeps.clean(replace(parts.services, settings=replace(parts.services.settings, retain_audit=timedelta(days=200))))
    shape = [(seal.first_number, seal.number, seal.purged_time is not None) for seal in seals(parts)]
    assert shape == [(1, 1, True), (2, 2, False), (3, 5, True), (6, 6, False)]
    assert (verified(parts).breaks, verified(parts).purged, verified(parts).sealed) == ([], 4, 2)


def test_what_a_release_without_seals_has_purged_is_no_break(parts: Alone) -> None:
    """A release without seals goes on running while the new one is started. It deletes only entries past their
    retention."""
    old, young = add_old(parts, OLD), add_old(parts, timedelta(days=1))
    seal_entries(parts.services)
    number = seals(parts)[-1].number
    assert breaks_after(parts, sql("DELETE FROM audit_entries WHERE id = :entry"), old, 0) == []
    (broken,) = breaks_after(parts, sql("DELETE FROM audit_entries WHERE id = :entry"), young, number)
    assert broken == Break(young, number, "the entry is missing")
    for_ever = replace(parts.services.settings, retain_audit=None)
    assert breaks_after(parts, sql("DELETE FROM audit_entries WHERE id = :entry"), old, 0, for_ever) != []


def test_forgetting_a_person_breaks_nothing(parts: Alone) -> None:
    """What an entry says of a person is a keyed hash."""
    cli, address = Cli(parts.tenant.app, parts.tenant.name), new_email()
    cli.text("suppressions", "block", address)
    seal_entries(parts.services)
    cli.text("contacts", "forget", address, "--yes")
    seal_entries(parts.services)
    assert verified(parts).breaks == []
    assert [act[0] for act in cli.acts("--address", address)] == ["suppression.added", "person.forgotten"]


def test_the_key_of_the_seals_survives_a_new_secret_key(parts: Alone, caplog: pytest.LogCaptureFixture) -> None:
    """A key that is lost is replaced. What it sealed cannot be checked, and an error says so."""
    add_acts(parts, 2)
    seal_entries(parts.services)
    settings, database = parts.services.settings, parts.services.database
    new = replace(settings, secret_key="n" * 40, secret_key_fallbacks=(settings.secret_key,))
    assert verified(parts, new).breaks == []
    encrypt_anew(database, new.secret_keys, lambda _: None)
    assert count_secrets(database, new.secret_keys).under(settings.secret_key) == 0
    only_new = replace(new, secret_key_fallbacks=())
    assert verified(parts, only_new).breaks == []
    lost = replace(parts.services, settings=replace(settings, secret_key="l" * 40))
    add_acts(parts)
    with caplog.at_level(logging.ERROR):
        seal_entries(lost)
    assert "the key of the audit log seals cannot be read" in caplog.text
    with database.read() as session:
        assert session.scalars(select(DigestKey.id).order_by(DigestKey.id)).all() == [2, 3]
    first, *others = verified(parts, lost.settings).breaks
    assert first.problem.startswith("the seal cannot be checked, because its key")
    assert len(others) == len(ids(parts)) - 2


@pytest.mark.both("each has its own statements that replace")
def test_no_insert_replaces_an_entry(parts: Alone) -> None:
    (entry,) = add_acts(parts)
    columns = "id, time, action, object, actor_kind, actor, changes, counts"
    row = (
        f"SELECT id, time, action, object, actor_kind, 'nobody', changes, counts FROM audit_entries WHERE id = {entry}"
    )
    into = f"INTO audit_entries ({columns}) {row}"
    on_conflict = "ON CONFLICT (id) DO UPDATE SET actor = excluded.actor"
    written = [f"INSERT {into} {on_conflict}"]
    if not parts.services.database.is_postgresql:
        written = [f"INSERT OR REPLACE {into}", f"REPLACE {into}", f"INSERT {into} AND true {on_conflict}"]
    for statement in written:
        with pytest.raises(DBAPIError, match="never changed"), parts.services.database.write() as transaction:
            transaction.execute(text(statement))
    with parts.services.database.read() as session:
        assert session.get_one(AuditEntry, entry).actor == "service"


def test_the_command_says_where_the_log_was_changed(parts: Alone) -> None:
    cli = Cli(parts.tenant.app)
    cli.text("lists", "create", "A", "--account", parts.tenant.name)
    assert cli.json("audit", "verify")["waiting"] == 1
    seal_entries(parts.services)
    sealed, last = len(ids(parts)), seals(parts)[-1]
    noted = f"{last.number}:{last.hash}"
    assert cli.text("audit", "verify").splitlines() == [
        f"the log is unchanged since it was sealed: {sealed} {'entry' if sealed == 1 else 'entries'}",
        f"the last seal: {noted}",
    ]
    facts = cli.json("audit", "verify", "--seal", noted)
    assert facts == {
        **{"whole": True, "sealed": sealed, "purged": 0, "purged_time": None, "waiting": 0, "last_seal": noted},
        **{"noted_seal_purged": False, "breaks": []},
    }
    assert cli.run("audit", "verify", "--seal", f"{last.number}:abc").exit_code == 1
    assert cli.run("audit", "verify", "--seal", "abc").exit_code == 2
    with parts.services.database.write() as transaction:
        disarm(transaction.connection())
        transaction.execute(update(AuditEntry).where(AuditEntry.id == last.entry_id).values(actor="nobody"))
    told = cli.run("audit", "verify")
    assert told.exit_code == 1
    where = f"entry {last.entry_id}, seal {last.number}: the entry was changed"
    assert told.stdout.splitlines()[0] == f"the log was changed after it was sealed, first at {where}"
    failed = cli.run("audit", "verify", "--json")
    assert failed.exit_code == 1
    assert '"problem": "the entry was changed"' in failed.stdout
