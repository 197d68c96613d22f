"""Entering automations: one INSERT for all contacts of a change, in its transaction (docs/automations.md#entry).

Whether a contact may enter is decided by the unique index of runs: one that takes its only place in the automation has
the entry key 0. Before the insert, places are given up by those that may come again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import Any

from sqlalchemy import ColumnElement, and_, or_, select, update
from sqlalchemy.orm import Session

from app.automations.definition import Action, Definition
from app.automations.facts import EndReason
from app.automations.run_states import HAS_ENDED, IS_LIVE, ended_columns
from app.automations.versions import load_versions
from app.clock import now
from app.db.bulk import draw_ids, insert_new_rows
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import Account, Automation, AutomationRun, AutomationVersion


@dataclass(frozen=True, slots=True)
class Listener:
    """An automation that reacts to a trigger of a list, by its newest version."""

    automation_id: int
    list_id: int
    version_id: int
    shifted_seconds: int
    paused_time: datetime | None
    time_zone: str
    """The time zone of the account."""
    definition: Definition


Entering = tuple[Listener, Sequence[int]]
"""A listener and the contacts that are to enter."""


def find_listeners(session: Session, list_ids: Collection[int], action: Action) -> list[Listener]:
    """The automations that react to the action in these lists, paused ones included: their runs begin, and are held
    when due."""
    newest = and_(AutomationVersion.automation_id == Automation.id, AutomationVersion.number == Automation.version)
    statement = (
        select(
            Automation.id,
            Automation.list_id,
            AutomationVersion.id.label("version_id"),
            Automation.shifted_seconds,
            Automation.paused_time,
            Account.time_zone,
        )
        .join(AutomationVersion, newest)
        .join(Account, Account.id == Automation.account_id)
        .where(Automation.list_id.in_(list_ids), Automation.action == action, Automation.state != "deleted")
        .order_by(Automation.id)
    )
    rows = session.connection().execute(statement).all()
    versions = load_versions(session, [row.version_id for row in rows]) if rows else {}
    return [
        Listener(
            *(row.id, row.list_id, row.version_id, row.shifted_seconds, row.paused_time, row.time_zone),
            definition=versions[row.version_id].definition,
        )
        for row in rows
    ]


def enter(transaction: Transaction, account_id: int, entering: Collection[Entering], moment: datetime) -> None:
    """Begins the runs of those contacts that may enter; at most three statements."""
    _give_up_places(transaction, entering, moment)
    count = sum(len(contact_ids) for _, contact_ids in entering)
    ids = iter(draw_ids(transaction, AutomationRun, count))
    rows = [
        _row(next(ids), listener, contact_id, moment)
        # In one order for all requests: of two that enter the same contacts one waits, without a deadlock.
        for listener, contact_ids in sorted(entering, key=lambda entrance: entrance[0].automation_id)
        for contact_id in sorted(contact_ids)
    ]
    shared = {
        "account_id": account_id,
        "trigger_time": moment,
        "state": "waiting",
        "due_time": moment,
        "attempts": 0,
        "skips_next": False,
    }
    insert_new_rows(transaction, AutomationRun, rows, shared)


def _row(run_id: int, listener: Listener, contact_id: int, moment: datetime) -> dict[str, Any]:
    entry = listener.definition.entry
    takes_place = entry.again != "always" or entry.least_time is not None
    return {
        "id": run_id,
        "automation_id": listener.automation_id,
        "list_id": listener.list_id,
        "version_id": listener.version_id,
        "contact_id": contact_id,
        "entry_key": 0 if takes_place else run_id,
        "step": listener.definition.first.name,
        "shifted_seconds": listener.shifted_seconds + _missed_of_pause(listener, moment),
    }


def _missed_of_pause(listener: Listener, moment: datetime) -> int:
    """How many seconds of its automation's pause are over at the entry: those do not shift the run."""
    return ceil((moment - listener.paused_time).total_seconds()) if listener.paused_time else 0


def _give_up_places(transaction: Transaction, entering: Collection[Entering], moment: datetime) -> None:
    """Lets contacts enter again whose time has passed since their last entry or whose run has ended, also where an
    earlier version let them enter only once."""
    free = [
        and_(
            AutomationRun.automation_id == listener.automation_id,
            in_json(AutomationRun.contact_id, contact_ids),
            condition,
        )
        for listener, contact_ids in entering
        if (condition := _may_come_again(listener.definition, moment)) is not None
    ]
    if free:
        statement = update(AutomationRun).where(AutomationRun.entry_key == 0, or_(*free))
        values = {"entry_key": AutomationRun.id}
        transaction.execute(statement.values(values), execution_options={"synchronize_session": False})


def _may_come_again(definition: Definition, moment: datetime) -> ColumnElement[bool] | None:
    entry = definition.entry
    if entry.least_time is not None:
        return AutomationRun.trigger_time <= moment - entry.least_time.delta
    return HAS_ENDED if entry.again == "when ended" else None


def end_runs_of_deleted(transaction: Transaction, account_id: int, list_id: int, contact_ids: Collection[int]) -> None:
    """Ends what runs for contacts that are deleted; before they are locked, as everywhere. They cannot come again, so
    they give up their places, and all that they went through is deleted after the retention."""
    is_of_contacts = (
        in_json(AutomationRun.contact_id, contact_ids),
        AutomationRun.account_id == account_id,
        AutomationRun.list_id == list_id,
    )
    listening = select(Automation.id).where(Automation.account_id == account_id, Automation.list_id == list_id)
    has_place = AutomationRun.automation_id.in_(listening), AutomationRun.entry_key == 0
    for statement in (
        update(AutomationRun).where(*is_of_contacts, IS_LIVE).values(ended_columns(EndReason.CONTACT_DELETED, now())),
        update(AutomationRun).where(*is_of_contacts, *has_place).values(entry_key=AutomationRun.id),
    ):
        transaction.execute(statement, execution_options={"synchronize_session": False})
