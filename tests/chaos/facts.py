"""The contents of the database and of the data folder after a round, when all work is done."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import func, select

from app.clock import now
from app.db.models import Account, Contact, Group, HourlyCount, IdempotencyRecord, Recipient, RecipientStep, Webhook
from app.infrastructure.liveness import lock_if_dead
from app.maintenance.status import status
from app.recipients.current import CURRENT_STATE
from app.services import Services

COUNTERS = ("sent", "failed_contacts", "bounced", "delivered")


@dataclass(frozen=True, slots=True)
class Person:
    """A recipient, with the steps of its timeline."""

    id: int
    uuid: str
    account: str
    address: str
    group: int
    state: str
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    people: Sequence[Person]
    groups: Mapping[int, Mapping[str, int]]
    """Id -> counters."""
    hours: Mapping[int, Mapping[str, int]]
    """Id -> the sums of the counters by hour."""
    contacts: Mapping[str, Mapping[str, int]]
    """Account -> address -> how many contacts have it."""
    left_behind: Sequence[str]


def in_hand(services: Services) -> dict[str, float]:
    """What the service still has to do, without zeros."""
    with services.database.read() as session:
        shown = status(session, services.settings, now())
        return {name: count for name, count in shown.items() if count}


def left_behind(services: Services) -> list[str]:
    """Claims, leases and files without a living owner."""
    files = [f"{path.parent.name}/{path.name}" for path in _abandoned_files(services.settings.data_dir)]
    with services.database.read() as session:
        claims = session.scalars(
            select(func.count()).select_from(IdempotencyRecord).where(IdempotencyRecord.status.is_(None))
        ).one()
        held = session.scalars(select(Webhook.url).where(Webhook.worker.is_not(None))).all()
    if claims:
        files.append(f"{claims} claims of idempotency keys")
    return [*files, *(f"the claim of webhook {url}" for url in held)]


def _abandoned_files(data_dir: Path) -> list[Path]:
    """Files that a running process would have locked, and their drafts."""
    found = []
    for folder in (data_dir / "journals", data_dir / "dispatchers"):
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            with contextlib.ExitStack() as locks:
                if lock_if_dead(path, locks):
                    found.append(path)
    return found


def facts(services: Services) -> Facts:
    with services.database.read() as session:
        names = {row.id: row.name for row in session.execute(select(Account.id, Account.name))}
        steps: dict[int, list[str]] = defaultdict(list)
        for step in session.execute(select(RecipientStep.recipient_id, RecipientStep.step).order_by(RecipientStep.id)):
            steps[step.recipient_id].append(step.step)
        columns = (Recipient.id, Recipient.uuid, Recipient.account_id, Recipient.email)
        people = [
            Person(
                row.id, row.uuid, names[row.account_id], row.email or "", row.group_id, row.state, tuple(steps[row.id])
            )
            for row in session.execute(
                select(*columns, Recipient.group_id, CURRENT_STATE.label("state")).order_by(Recipient.id)
            )
        ]
        groups = {
            row.id: {name: getattr(row, name) for name in COUNTERS} for row in session.scalars(select(Group)).all()
        }
        sums = [func.sum(getattr(HourlyCount, name)) for name in COUNTERS]
        hours = {
            group_id: dict(zip(COUNTERS, map(int, counts), strict=True))
            for group_id, *counts in session.execute(select(HourlyCount.group_id, *sums).group_by(HourlyCount.group_id))
        }
        contacts: dict[str, dict[str, int]] = defaultdict(dict)
        counted = select(Contact.account_id, Contact.email, func.count()).group_by(Contact.account_id, Contact.email)
        for account_id, email, count in session.execute(counted):
            contacts[names[account_id]][email or ""] = count
    return Facts(people, groups, hours, contacts, left_behind(services))
