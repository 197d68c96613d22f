"""The contents of the database and of the data folder after a round, when all work is done."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.cli.status import status_of
from app.db.models import (
    Account,
    AutomationPassedStep,
    AutomationRun,
    AutomationStep,
    Contact,
    Group,
    GroupCount,
    HourlyCount,
    IdempotencyRecord,
    Recipient,
    RecipientStep,
    Webhook,
)
from app.infrastructure.liveness import lock_if_dead
from app.maintenance.figures import read_figures
from app.recipients.conditions import CURRENT_STATE
from app.services import Services
from tests.chaos.record import SUBJECT

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
    """The steps since the message was queued, or requeued by an operator."""
    subject: str = SUBJECT
    """The subject of the mail. For a recipient of an automation, it is the name of the step."""
    earlier: tuple[str, ...] = ()
    """The steps before it was requeued."""

    @property
    def mail(self) -> tuple[str, str]:
        """Address and subject, which no other mail has."""
        return self.address, self.subject


@dataclass(frozen=True, slots=True)
class Run:
    """A run of an automation, with the steps that it has passed and their results."""

    account: str
    contact_id: int
    address: str
    state: str
    reason: str | None
    passed: tuple[tuple[str, str], ...]
    recipients: tuple[tuple[str, int | None], ...]
    """Step and recipient of each message that it has sent."""


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
    runs: Sequence[Run] = ()
    values: Mapping[tuple[str, str], str | None] = field(default_factory=dict)
    """Account and address of a contact -> its first name."""
    counters_in_api: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    """Id of a group -> its counters in the API."""


def in_hand(services: Services) -> dict[str, float]:
    """What the service still has to do, without zeros."""
    with services.database.read() as session:
        figures = status_of(read_figures(session, services.settings))
        return {name: count for name, count in figures.items() if count}


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
    abandoned = []
    for folder in (data_dir / "journals", data_dir / "dispatchers"):
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            with contextlib.ExitStack() as locks:
                if lock_if_dead(path, locks):
                    abandoned.append(path)
    return abandoned


def facts(services: Services, counters_in_api: Mapping[int, Mapping[str, int]] | None = None) -> Facts:
    """`counters_in_api` is what the API shows of groups."""
    with services.database.read() as session:
        names = {row.id: row.name for row in session.execute(select(Account.id, Account.name))}
        steps: dict[int, list[str]] = defaultdict(list)
        for step in session.execute(select(RecipientStep.recipient_id, RecipientStep.step).order_by(RecipientStep.id)):
            steps[step.recipient_id].append(step.step)
        columns = (Recipient.id, Recipient.uuid, Recipient.account_id, Recipient.email, Recipient.mobile)
        step_names = dict(session.execute(select(AutomationStep.id, AutomationStep.name)).tuples().all())
        people = [
            Person(
                *(row.id, row.uuid, names[row.account_id], row.email or row.mobile or "", row.group_id, row.state),
                tuple(steps[row.id][since_requeued(steps[row.id]) :]),
                step_names.get(row.group_id, SUBJECT),
                tuple(steps[row.id][: since_requeued(steps[row.id])]),
            )
            for row in session.execute(
                select(*columns, Recipient.group_id, CURRENT_STATE.label("state")).order_by(Recipient.id)
            )
        ]
        groups = {
            row.id: {name: getattr(row, name) for name in COUNTERS} for row in session.scalars(select(Group)).all()
        }
        column_sums = [func.sum(getattr(GroupCount, name)) for name in COUNTERS]
        step_counters = select(GroupCount.group_id, *column_sums).join(
            AutomationStep, AutomationStep.id == GroupCount.group_id
        )
        for step_id, *counts in session.execute(step_counters.group_by(GroupCount.group_id)):
            groups[step_id] = dict(zip(COUNTERS, map(int, counts), strict=True))
        sums = [func.sum(getattr(HourlyCount, name)) for name in COUNTERS]
        hours = {
            group_id: dict(zip(COUNTERS, map(int, counts), strict=True))
            for group_id, *counts in session.execute(select(HourlyCount.group_id, *sums).group_by(HourlyCount.group_id))
        }
        contacts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        values: dict[tuple[str, str], str | None] = {}
        contact_columns = Contact.account_id, Contact.email, Contact.mobile, Contact.values
        for account_id, email, mobile, fields in session.execute(select(*contact_columns)).tuples():
            account, address = names[account_id], email or mobile or ""
            contacts[account][address] += 1
            values[account, address] = fields.get("first_name")
        runs = _runs(session, names)
    return Facts(people, groups, hours, contacts, left_behind(services), runs, values, counters_in_api or {})


def since_requeued(steps: Sequence[str]) -> int:
    """The place behind the last time that it was requeued."""
    return len(steps) - [*reversed(steps), "requeued"].index("requeued")


def _runs(session: Session, accounts: Mapping[int, str]) -> list[Run]:
    passed: dict[int, list[Any]] = defaultdict(list)
    columns = AutomationPassedStep.run_id, AutomationStep.name, AutomationStep.kind, AutomationPassedStep.result
    statement = select(*columns, AutomationPassedStep.recipient_id).join(
        AutomationStep, AutomationStep.id == AutomationPassedStep.step_id
    )
    for row in session.execute(statement.order_by(AutomationPassedStep.id)):
        passed[row.run_id].append(row)
    runs_with_address = select(AutomationRun, Contact.email).join(Contact, Contact.id == AutomationRun.contact_id)
    return [
        Run(
            *(accounts[run.account_id], run.contact_id, email or "", run.state, run.reason),
            tuple((row.name, row.result) for row in passed[run.id]),
            tuple((row.name, row.recipient_id) for row in passed[run.id] if (row.kind, row.result) == ("send", "done")),
        )
        for run, email in session.execute(runs_with_address.order_by(AutomationRun.id)).tuples()
    ]
