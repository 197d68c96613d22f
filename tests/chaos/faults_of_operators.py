"""What operators do while the service runs: rotations, backups, purging and forgetting. Each must go unnoticed."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Mapping
from typing import Any

from sqlalchemy import func, select

from app.db.models import Group, Recipient, Send
from tests.chaos import check_backup
from tests.chaos.limits import Limits
from tests.chaos.promises import Promise
from tests.chaos.record import RoundRecord, read_mails, say_mode
from tests.chaos.registry import PROCESSES, RESTART, fault, run_again
from tests.chaos.stage import NAMES, Stage
from tests.support.servers import wait_until

LINKS = 20
REST = 150.0
"""Seconds in which thousands of messages whose attempts have failed are sent, on a busy machine."""
"""Links of mails that are tried, of the first and of the last ones each."""


# ------------------------------------------------------------------------------------------ rotations


def _after_key_rotations(stage: Stage, _seen: RoundRecord) -> list[str]:
    """Within the overlap each secret works, and after a rotation without one only the newest."""
    troubles = []
    for name in NAMES[:2]:
        former = stage.former_tokens[name]
        troubles += [
            f"a former secret of {name} does not work" for secret in former if stage.status_with(secret) != 200
        ]
        newest = stage.command("keys", "rotate", "backend", "--overlap", "0", "--account", name)["token"]
        stale = [*former, stage.tokens[name]]
        troubles += [f"a secret of {name} works for too long" for secret in stale if stage.status_with(secret) != 401]
        troubles += [f"the newest secret of {name} does not work"] * (stage.status_with(newest) != 200)
    return troubles


@fault("key-rotated", Promise.ROTATED_KEY, afterwards=_after_key_rotations)
def key_rotated(stage: Stage, chance: random.Random) -> None:
    """The key of each account is rotated with an overlap, that of the first one twice. Clients use the new secret a
    moment later."""
    for name in (*NAMES, NAMES[0]):
        made = stage.command("keys", "rotate", "backend", "--overlap", "1d", "--account", name)
        time.sleep(chance.uniform(0.2, 1))
        stage.former_tokens[name].append(stage.tokens[name])
        stage.tokens[name] = made["token"]


def after_secret_rotations(stage: Stage, _seen: RoundRecord) -> list[str]:
    """Links of mails that were sent before, between and after the rotations work, and all secrets are encrypted under
    the newest key."""
    links = list(dict.fromkeys(mail.link for mail in read_mails(stage.folder / "relay.log") if mail.link))
    dead = [link for link in (*links[:LINKS], *links[-LINKS:]) if not stage.is_open(link)]
    newest, *others = stage.command("secrets", "status")
    stored = [key["key"] for key in others if _count(key)]
    complaints = [] if links else ["there are no links in mails"]
    complaints += [f"{len(dead)} links in mails are dead: {dead[0]}"] if dead else []
    complaints += [f"secrets are encrypted under {stored}"] if stored or not _count(newest) else []
    return complaints


def _count(key: Mapping[str, Any]) -> int:
    """The secrets in all tables that are encrypted under it."""
    return sum(value for name, value in key.items() if isinstance(value, int) and name != "signing_processes")


@fault(
    "secrets-rotated",
    Promise.LINKS,
    limits=Limits(cuts_requests=True, accepting=RESTART, sending=RESTART),
    afterwards=after_secret_rotations,
)
def secrets_rotated(stage: Stage, _chance: random.Random) -> float:
    """SECRET_KEY is rotated, the service is restarted, since processes sign with the new key from then on, and it is
    rotated again."""
    stage.command("secrets", "rotate")
    os.killpg(stage.service.process.pid, signal.SIGTERM)
    stage.service.process.wait()
    began = time.time()
    stage.start_service()
    stage.await_workers()
    stage.command("secrets", "rotate")
    return began


# ------------------------------------------------------------------------------------------ backups


@fault("backup-running", Promise.BACKUP, Promise.RESTORED, afterwards=check_backup.complaints)
def backup_running(stage: Stage, _chance: random.Random) -> None:
    """Three backups are made one after the other. Afterwards the second one is restored into another folder and
    database, and compared with what had been accepted."""
    for number in range(3):
        file = stage.folder / f"backup-{number}.zip"
        stage.backups.append((time.time(), file))
        stage.command("backup", str(file))


# ------------------------------------------------------------------------------------------ purging and forgetting


def after_purging(stage: Stage, _seen: RoundRecord) -> list[str]:
    """In the end the content of all sends is purged."""
    stage.kill(*stage.pids(PROCESSES["scheduler"]))
    try:
        wait_until(lambda: not _sends(stage, purged=False), "all content is purged", REST)
    except AssertionError:
        return [f"the content of {_sends(stage, purged=False)} settled sends is not purged"]
    return []


def _sends(stage: Stage, *, purged: bool) -> int:
    """How many sends have content, or none any more."""
    condition = Send.content_purged_time.is_not(None) if purged else Send.content_purged_time.is_(None)
    with stage.services.database.read() as session:
        return session.scalars(select(func.count()).where(condition)).one()


def purged(stage: Stage) -> int:
    """How many sends have lost their content."""
    return _sends(stage, purged=True)


@fault(
    "purge-while-sending",
    Promise.PURGING,
    hook="seconds-for-hours",
    settings={"RETAIN_CONTENT": "1h"},
    afterwards=after_purging,
    rest=REST,
)
def purge_while_sending(stage: Stage, _chance: random.Random) -> float:
    """Content is purged a second after the last outcome of its send, over and over, since each start of the scheduler
    purges. Half of the mails are deferred meanwhile, and half of the texts."""
    say_mode(stage.folder / "relay.mode", "451")
    say_mode(stage.folder / "gateway.mode", "throttle")
    for _ in range(5):
        stage.kill(*stage.pids(PROCESSES["scheduler"]))
        run_again(stage)
    for peer in ("relay", "gateway"):
        say_mode(stage.folder / f"{peer}.mode", "take")
    return run_again(stage)


def choose_people(stage: Stage, *, waits: bool) -> list[str]:
    """Addresses of people whose messages wait, or have been sent."""
    condition = Recipient.state == "queued" if waits else Recipient.state != "queued"
    repeated = Recipient.group_id.in_(select(Group.id).where(Group.name.not_like("tried once%")))
    newest = select(Recipient.email, Recipient.mobile).where(condition, repeated)
    with stage.services.database.read() as session:
        people = session.execute(newest.order_by(Recipient.id.desc()).limit(20)).tuples().all()
    return [address for email, mobile in people if (address := email or mobile) and address not in stage.forgotten]


def _forget(stage: Stage, address: str) -> bool:
    """Whether nothing is left."""
    command = ("contacts", "forget", address, "--yes", "--no-compact", "--all-accounts", "--wait", "10")
    return bool(stage.command(*command, statuses=(0, 1))["complete"])


def after_forgetting(stage: Stage, seen: RoundRecord) -> list[str]:
    seen.forgotten = set(stage.forgotten)
    return []


@fault("forget-while-sending", Promise.FORGETTING, afterwards=after_forgetting, slowly=4.0, rest=REST)
def forget_while_sending(stage: Stage, chance: random.Random) -> None:
    """People are forgotten whose messages wait, are being sent or have been sent, with a slow relay. The command is
    repeated if a message was in flight for too long."""
    say_mode(stage.folder / "relay.mode", "slow")
    time.sleep(1)
    incomplete = []
    for waits in (True, False) * 3:
        address = chance.choice(choose_people(stage, waits=waits))
        stage.forgotten.append(address)
        if not _forget(stage, address):
            incomplete.append(address)
    say_mode(stage.folder / "relay.mode", "take")
    for address in incomplete:
        wait_until(lambda address=address: _forget(stage, address), f"{address} is forgotten")
