"""A restore that is killed at any moment has left nothing, or all: repeated, it ends as one that nobody disturbed
(docs/restore.md)."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from sqlalchemy import Engine, event, func, select, text

from app.backup.restore import OutcomeNotKnown, restore_backup
from app.clock import now
from app.db.models import Account, Event, QueueEntry, ReplyPart
from app.events.batches import has_due
from app.secret_keys import FALLBACKS_FILE, FILE
from app.sends.delivery.drain import drain
from app.sends.outcomes.attempt_result import AttemptResult
from app.services import make_services
from app.settings import Settings, from_environment
from app.transports.base import DeliveryResult
from tests.restore.conftest import Installation, Installer, running
from tests.restore.test_known_since import write_journal
from tests.support.databases import BACKENDS
from tests.support.forked import ForkedProcess
from tests.support.rows import Rows
from tests.support.servers import wait_until
from tests.support.tenants import new_tenant
from tests.unit.transports.mailserver import MailServer

NUMBER = "61400000000"
CHANGING = ("os.rename", "os.link", "os.remove")
"""What changes the data folder, as the interpreter audits it: each is a step at which a kill leaves it half changed."""


def restoring(environ: dict[str, str], file: str, log: str, last: int | None) -> None:
    """Restores, in a process of its own, and is killed before that step: a statement, or a change of the data folder.
    Writes how many there were without it."""
    settings = from_environment(environ)
    services, steps = make_services(settings), 0

    def step(*_: Any) -> None:
        nonlocal steps
        steps += 1
        if steps == last:
            os.kill(os.getpid(), signal.SIGKILL)

    def audited(name: str, arguments: tuple[Any, ...]) -> None:
        if name in CHANGING and str(settings.data_dir) in str(arguments[0]):
            step()

    def begin(part: str, _size: int) -> Callable[[int], None]:
        if part == "restoring":
            for name in ("before_cursor_execute", "commit"):
                event.listen(Engine, name, step)
        return lambda _: None

    sys.addaudithook(audited)
    restore_backup(services, Path(file), any_secret_key=False, begin=begin)
    Path(log).write_text(str(steps))


@dataclass(frozen=True)
class Restores:
    """Restores of a backup into installations of its own."""

    file: str
    folder: Path

    def run(self, settings: Settings, last: int | None = None) -> int | None:
        """Restores in a process that is killed at that step; returns how many there were if it was not."""
        environ = environment_of(settings)
        log = self.folder / "steps"
        log.unlink(missing_ok=True)
        process = ForkedProcess(self.folder / "log", restoring, environ, self.file, str(log), last)
        wait_until(process.has_ended, "it has ended")
        status = process.wait()
        assert status in (0, -signal.SIGKILL), (status, sorted(self.folder.iterdir()))
        return int(log.read_text()) if status == 0 else None


@pytest.fixture
def source(request: pytest.FixtureRequest, installed: Installer) -> Installation:
    """An installation of which a sender has died with outcomes in its journal, and that waits for a part of a reply;
    its key was rotated."""
    made = installed("sqlite", migrated=True)
    tenant = new_tenant(made.app)
    rows = Rows.of(tenant)
    rows.add_webhook()
    sent = rows.add_send([f"{number}@example.com" for number in range(6)])
    rows.change(sent[:4], state="sending", worker="dead", lease_time=now() + timedelta(minutes=1), attempts=1)
    accepted = DeliveryResult.accepted("2.0.0 queued")
    write_journal(made.settings, [AttemptResult(recipient_id, 1, None, now(), accepted) for recipient_id in sent[:4]])
    tenant.add_sender(NUMBER)
    part = {"number": NUMBER, "mobile": "61411111111", "reference": 7, "total": 2, "position": 1, "coding": 0}
    rows.add(ReplyPart, **part, body=b"yes and", time=now(), recorded=False)
    made.json("secrets", "rotate")
    return made


@pytest.fixture
def restores(source: Installation, file: str, tmp_path: Path) -> Restores:
    """A backup of it."""
    source.json("backup", file)
    return Restores(file, tmp_path)


def seen(settings: Settings) -> dict[str, Any]:
    """The end state: what is stored but for the times, and what is in the files of keys."""
    with running(settings) as target, target.services.database.read() as session:
        rows = target.rows()
        held = session.execute(select(QueueEntry.recipient_id, QueueEntry.state).order_by(QueueEntry.recipient_id))
        events = session.scalars(select(Event.payload).order_by(Event.id)).all()
        return {
            "rows": {name: len(table_rows) for name, table_rows in rows.items()},
            "recipients": rows["recipients"] and [row.split("Timezone")[0][:40] for row in rows["recipients"]],
            "held": [tuple(row) for row in held],
            "events": [event.partition('"timestamp"')[0] for event in events],
            "waits": has_due(session, target.services.settings),
            "keys": [(settings.data_dir / name).read_text() for name in (FILE, FALLBACKS_FILE)],
        }


def chosen(steps: int) -> list[int]:
    """The first ones, which change files, the last ones, about the commit, and some of those between."""
    return sorted({*range(1, 8), *range(8, steps, max(1, steps // 8)), *range(steps - 8, steps + 1)})


def accounts(settings: Settings) -> int:
    with running(settings) as target, target.services.database.read() as session:
        return session.scalars(select(func.count()).select_from(Account)).one()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_restore_that_is_killed_at_any_step_has_left_nothing_or_all_and_is_repeated(
    restores: Restores, new_settings: Callable[..., Settings], mail_server: MailServer, backend: str
) -> None:
    """Journals of the installation that was here before say nothing, after a kill as without one."""
    undisturbed, target = (new_settings(backend, migrated=True) for _ in range(2))
    stranger = [AttemptResult(5, 1, None, now(), DeliveryResult.accepted("of another installation"))]
    for settings in (undisturbed, target):
        write_journal(settings, stranger)
    steps = restores.run(undisturbed)
    assert steps is not None
    expected = seen(undisturbed)
    assert [state for _, state in expected["held"]] == ["held", "held"]
    assert (len(expected["events"]), expected["waits"]) == (5, False)
    for step in chosen(steps):
        if restores.run(target, step) is not None:
            break  # the keys are installed once, so that a repeat has a few steps less
        if accounts(target):
            assert step > steps - 8, "before its end"
            break
    if not accounts(target):
        restores.run(target)
    assert seen(target) == expected
    with running(target) as installation:
        drain(installation.services)
        assert installation.json("holds", "release", "messages", "--yes") == {"released": 2, "arrived": 0}
        drain(installation.services)
    assert len(mail_server.mails) == 2, "what the journal knows is not sent again"


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_of_a_restore_is_seen_before_it_has_ended(
    restores: Restores, installed: Installer, backend: str
) -> None:
    """No command, page, sender or scheduler sees a part of it. A restore is one transaction, with the results in the
    journals."""
    target, seen_meanwhile = installed(backend, migrated=True), []
    other = make_services(target.settings)

    def look(*_: Any) -> None:
        with other.database.read() as session:
            seen_meanwhile.append(session.scalars(select(func.count()).select_from(QueueEntry)).one())

    def begin(part: str, _size: int) -> Callable[[int], None]:
        if part == "restoring":
            event.listen(Engine, "savepoint", look)
        return lambda _: None

    try:
        restore_backup(target.services, Path(restores.file), any_secret_key=False, begin=begin)
    finally:
        event.remove(Engine, "savepoint", look)
        other.database.close()
    assert set(seen_meanwhile) == {0}
    assert target.json("holds", "list")[0]["held"] == 2


def test_a_repeated_restore_says_that_it_is_done(restores: Restores, installed: Installer) -> None:
    settings = installed("sqlite").settings
    with running(settings) as target:
        target.json("restore", restores.file)
    with running(from_environment(environment_of(settings))) as target:
        before = target.rows()
        error = target.refused("restore", restores.file)
        assert f"is not empty: {Path(restores.file).name} was completely restored into it at " in error
        assert "and what it would send is held" in error
        assert target.rows() == before


def test_a_server_that_goes_at_the_commit_leaves_it_open_and_the_restore_is_repeated(
    restores: Restores, installed: Installer
) -> None:
    """The keys stay, since all may have been restored."""
    target = installed("postgresql", migrated=True)

    def cut(connection: Any) -> None:
        backend_pid = connection.connection.driver_connection.info.backend_pid
        with target.services.database.engine.connect() as other:
            other.execute(text("SELECT pg_terminate_backend(:own)"), {"own": backend_pid})

    def begin(part: str, _size: int) -> Callable[[int], None]:
        if part == "restoring":
            event.listen(Engine, "commit", cut)
        return lambda _: None

    try:
        with pytest.raises(OutcomeNotKnown):
            restore_backup(target.services, Path(restores.file), any_secret_key=False, begin=begin)
    finally:
        event.remove(Engine, "commit", cut)
    with running(from_environment(environment_of(target.settings))) as repeated:
        result: Result = repeated.run("restore", restores.file)
        assert result.exit_code == 0, result.output
        assert repeated.json("holds", "list")[0]["held"] == 2


def environment_of(settings: Settings) -> dict[str, str]:
    """The environment of a process with these settings."""
    return {
        "DATABASE_URL": settings.database_url,
        "REDIS_URL": settings.redis_url,
        "DATA_DIR": str(settings.data_dir),
    }


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_result_in_a_journal_that_cannot_be_written_prevents_no_restore(
    source: Installation, installed: Installer, file: str, backend: str
) -> None:
    """The message of a result that cannot be written stays held. The other results in the journals are settled."""
    with source.services.database.read() as session:
        ids = list(session.scalars(select(QueueEntry.recipient_id).order_by(QueueEntry.recipient_id)))
    broken = DeliveryResult.accepted("2.0.0 queued")._replace(segments=2**63)
    more = source.settings.data_dir / "journals" / "more.journal"
    more.write_bytes(AttemptResult(ids[4], 1, None, now(), broken).line())
    source.json("backup", file)
    target = installed(backend)
    restored = target.json("restore", file)
    assert (restored["settled"], restored["held"]["messages"]) == (4, 2)
