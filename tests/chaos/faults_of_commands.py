"""Commands of operators that are killed in the middle, at a statement of theirs, and repeated until one gets through;
and what workers do for operators, killed while they do it. In the end all must be as if it had run once."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from sqlalchemy import func, select

from app.db.models import BulkAction, Contact, Recipient, RecipientStep, SendPause
from app.db.phases import newest_revision
from app.recipients.conditions import CURRENT_STATE
from tests.chaos import check_backup
from tests.chaos.faults_of_operators import (
    REST,
    after_forgetting,
    after_purging,
    after_secret_rotations,
    choose_people,
    purged,
)
from tests.chaos.limits import Limits
from tests.chaos.promises import Promise
from tests.chaos.record import RoundRecord, say_mode
from tests.chaos.registry import PROCESSES, RESTART, fault, run_again
from tests.chaos.stage import NAMES, Stage
from tests.support.next_release import CONTRACTED, copy_code, write_next_migrations
from tests.support.servers import wait_until

ROWS = 2500
"""Rows of the file that is imported, which take several transactions."""
SLOWLY = 4.0
"""Commands take long on a busy machine."""
REFUSED = 60
"""Texts that a gateway refuses, at least."""
MOST_KILLS = 6
"""How often the worker of bulk actions is killed at most. The launcher starts it again more slowly each time."""
RESTARTED = Limits(cuts_requests=True, accepting=RESTART, sending=RESTART)


def _unkilled(stage: Stage) -> list[str]:
    return [] if stage.killed_commands else ["nothing was killed in the middle"]


# ------------------------------------------------------------------------------------------ commands


def _after_import(stage: Stage, _seen: RoundRecord) -> list[str]:
    """Each row of the file is one contact with its values."""
    with stage.services.database.read() as session:
        imported = select(Contact.email, Contact.values).where(Contact.email.like("imported-%"))
        rows = session.execute(imported).tuples().all()
    times = Counter(email for email, _ in rows)
    complaints = [f"{email} was imported {count} times" for email, count in times.items() if count > 1]
    complaints += [f"{len(times)} of {ROWS} rows were imported"] if len(times) != ROWS else []
    wrong = [email for email, values in rows if values.get("first_name") != (email or "").partition("@")[0]]
    return [*complaints, *(f"{email} has other values than its row" for email in wrong), *_unkilled(stage)]


@fault(
    "import-killed", Promise.COMMAND, Promise.EVENT, Promise.VALUES, afterwards=_after_import, rest=REST, slowly=SLOWLY
)
def import_killed(stage: Stage, chance: random.Random) -> None:
    """An import of 2500 contacts is killed, and goes on with --resume."""
    file = stage.folder / "people.csv"
    names = [f"imported-{number}" for number in range(ROWS)]
    file.write_text("\n".join(("Email,First Name", *(f"{name}@people.example,{name}" for name in names))) + "\n")
    into = ("--list", "People", "--account", NAMES[0])
    stage.command_with_kills(chance, "contacts", "import", str(file), *into, "--resume")


def _after_pauses(stage: Stage, _seen: RoundRecord) -> list[str]:
    """Nothing is paused, and each pause was made once."""
    with stage.services.database.read() as session:
        paused = session.scalars(select(SendPause).where(SendPause.resumed_time.is_(None))).all()
    return [*(f"account {pause.account_id} is still paused" for pause in paused), *_unkilled(stage)]


@fault("pause-killed", Promise.COMMAND, Promise.LOST, afterwards=_after_pauses, rest=REST, slowly=SLOWLY)
def pause_killed(stage: Stage, chance: random.Random) -> None:
    """Two accounts are paused and resumed; all four commands are killed and repeated."""
    for name in NAMES[:2]:
        stage.command_with_kills(chance, "sends", "pause", "--account", name, done="has been paused since")
    time.sleep(1)
    for name in NAMES[:2]:
        stage.command_with_kills(chance, "sends", "resume", "--account", name, done="is not paused")


@fault("forget-killed", Promise.COMMAND, Promise.FORGETTING, afterwards=after_forgetting, slowly=SLOWLY, rest=REST)
def forget_killed(stage: Stage, chance: random.Random) -> None:
    """Three people are forgotten whose messages have been sent, with commands that are killed."""
    for _ in range(3):
        address = chance.choice(choose_people(stage, waits=False))
        stage.forgotten.append(address)
        options = ("--yes", "--no-compact", "--all-accounts", "--wait", "10")
        stage.command_with_kills(chance, "contacts", "forget", address, *options)


@fault(
    "secrets-killed", Promise.COMMAND, Promise.LINKS, limits=RESTARTED, afterwards=after_secret_rotations, slowly=SLOWLY
)
def secrets_killed(stage: Stage, chance: random.Random) -> float:
    """SECRET_KEY is rotated, the service is restarted, and it is rotated again; both commands are killed and
    repeated."""
    stage.command_with_kills(chance, "secrets", "rotate")
    began = _restarted(stage)
    stage.command_with_kills(chance, "secrets", "rotate")
    return began


def _restarted(stage: Stage, between: Callable[[], object] = lambda: None) -> float:
    """Ends the service in an orderly way, and starts it again; returns when it was started."""
    os.killpg(stage.service.process.pid, signal.SIGTERM)
    stage.service.process.wait()
    wait_until(lambda: not stage.pids(""), "the service has ended")
    between()
    began = time.time()
    stage.start_service()
    stage.await_workers()
    return began


def _after_backup(stage: Stage, seen: RoundRecord) -> list[str]:
    """The backup is whole, and nothing is left of those that were killed."""
    (_, file), *_ = stage.backups
    left = [path.name for path in file.parent.iterdir() if path != file]
    complaints = [f"{len(left)} unfinished files are left beside the backup: {left[0]}"] if left else []
    return [*complaints, *check_backup.complaints(stage, seen), *_unkilled(stage)]


@fault("backup-killed", Promise.COMMAND, Promise.BACKUP, afterwards=_after_backup, slowly=SLOWLY)
def backup_killed(stage: Stage, chance: random.Random) -> None:
    """A backup into a folder is killed and repeated; the one that gets through is restored afterwards."""
    folder = stage.folder / "backups"
    folder.mkdir()
    began = time.time()
    stage.command_with_kills(chance, "backup", str(folder))
    stage.backups.append((began, max(folder.glob("tms-*.zip"))))


def _after_restore(stage: Stage, seen: RoundRecord) -> list[str]:
    """The restore that gets through is as good as one that was never killed."""
    with_kills = partial(stage.command_with_kills, random.Random(stage.seed))
    return [*check_backup.complaints(stage, seen, with_kills), *_unkilled(stage)]


@fault("restore-killed", Promise.COMMAND, Promise.RESTORED, afterwards=_after_restore, slowly=SLOWLY)
def restore_killed(stage: Stage, _chance: random.Random) -> None:
    """A backup is made under load, and restored afterwards by commands that are killed."""
    file = stage.folder / "backup.zip"
    stage.backups.append((time.time(), file))
    stage.command("backup", str(file))


@fault("migration-killed", Promise.COMMAND, Promise.LOST, limits=RESTARTED, slowly=SLOWLY)
def migration_killed(stage: Stage, chance: random.Random) -> float:
    """The service is stopped, its database is migrated to a next release and back, both by commands that are killed;
    then the service is started again."""
    code, own_revision = copy_code(stage.folder / "next"), newest_revision()
    write_next_migrations(code / "app" / "db" / "migrations" / "versions")

    def migrate() -> None:
        for arguments, revision in ((("upgrade",), CONTRACTED), (("downgrade", own_revision, "--yes"), own_revision)):
            killed = len(stage.killed_commands)
            stage.command_with_kills(chance, "db", *arguments, code=code)
            current = stage.command("db", "current", code=code)["current"]
            stage.complaints += [] if current == revision else [f"db {arguments[0]} has led to {current}"]
            stage.complaints += [] if len(stage.killed_commands) > killed else [f"db {arguments[0]} was not killed"]

    return _restarted(stage, migrate)


# ------------------------------------------------------------------------------------------ what workers do


def _requeued(stage: Stage) -> int:
    """How often messages were requeued."""
    with stage.services.database.read() as session:
        requeued = select(func.count()).select_from(RecipientStep).where(RecipientStep.step == "requeued")
        return session.scalars(requeued).one()


def _has_ended(stage: Stage) -> bool:
    """Whether no bulk action waits or runs."""
    with stage.services.database.read() as session:
        return not session.scalars(select(func.count()).where(BulkAction.end_time.is_(None))).one()


def _failed(stage: Stage) -> int:
    """How many messages have failed."""
    with stage.services.database.read() as session:
        return session.scalars(select(func.count()).select_from(Recipient).where(CURRENT_STATE == "failed")).one()


@fault(
    *("purge-killed", Promise.COMMAND, Promise.PURGING),
    hook="seconds-for-hours",
    settings={"RETAIN_CONTENT": "1h"},
    afterwards=after_purging,
    rest=REST,
)
def purge_killed(stage: Stage, chance: random.Random) -> float:
    """The worker that purges content is killed while it does, three times; each start of the scheduler purges."""
    for _ in range(3):
        before = purged(stage)
        stage.kill(*stage.pids(PROCESSES["scheduler"]))
        wait_until(lambda before=before: purged(stage) > before, "content is purged", REST)
        time.sleep(chance.uniform(0, 0.1))
        stage.kill(*stage.pids(PROCESSES["maintenance"]))
        run_again(stage)
    return run_again(stage)


def _after_bulk_actions(stage: Stage, _seen: RoundRecord) -> list[str]:
    """Each action has ended, and has requeued all that it was about."""
    with stage.services.database.read() as session:
        actions = session.scalars(select(BulkAction)).all()
    complaints = [f"action {action.id} is {action.state}" for action in actions if action.state != "done"]
    done, requeued = sum(action.done for action in actions), _requeued(stage)
    complaints += [f"{requeued} messages were requeued, {done} are counted"] if requeued != done or not done else []
    complaints += [f"{_failed(stage)} messages have still failed"] if _failed(stage) else []
    return [*complaints, *_unkilled(stage)]


@fault(
    *("bulk-action-killed", Promise.COMMAND, Promise.COUNTERS, Promise.EVENT),
    hook="small-turns,prompt-bulk-actions",
    afterwards=_after_bulk_actions,
    rest=REST,
)
def bulk_action_killed(stage: Stage, chance: random.Random) -> float:
    """Texts that a gateway has refused are sent again by bulk actions, whose worker is killed while it requeues them,
    up to six times."""
    say_mode(stage.folder / "gateway.mode", "refuse")
    wait_until(lambda: stage.texts("refused") > REFUSED, "texts are refused")
    say_mode(stage.folder / "gateway.mode", "take")
    wait_until(lambda: _failed(stage) == stage.texts("refused"), "all refusals are written")
    with ThreadPoolExecutor(len(NAMES)) as pool:
        retry = ("sends", "retry", "state=failed", "--yes", "--account")
        asked = [pool.submit(stage.command, *retry, name) for name in NAMES]
        while not (all(future.done() for future in asked) and _has_ended(stage)):
            before = _requeued(stage)
            wait_until(lambda before=before: _requeued(stage) > before or _has_ended(stage), "messages are requeued")
            time.sleep(chance.uniform(0, 0.1))
            if not _has_ended(stage) and len(stage.killed_commands) < MOST_KILLS:
                stage.kill(*stage.pids(PROCESSES["automations"]))
                stage.killed_commands.append("a bulk action")
                run_again(stage)
        for future in asked:
            future.result()
    return run_again(stage)
