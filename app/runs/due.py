"""Due runs: what is loaded of them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import String, bindparam, select

from app.automations.run_states import IS_WAITING
from app.db.database import Transaction
from app.db.expressions import in_json, json_array
from app.db.models import Account, Automation, AutomationRun
from app.db.prepared import PreparedStatement


class DueRun(NamedTuple):
    """A run that is due and locked, with its automation and account."""

    id: int
    account_id: int
    automation_id: int
    version_id: int
    list_id: int
    contact_id: int
    entry_key: int
    trigger_time: datetime
    step: str
    step_time: datetime | None
    due_time: datetime
    attempts: int
    skips_next: bool
    shifted_seconds: int
    watched_step: int | None
    watched_event: str | None
    automation_state: str
    automation_shifted_seconds: int
    time_zone: str
    """The time zone of the account; the next two are settings of the account, too."""
    is_test: bool
    has_digests: bool


_JOINED_COLUMNS: dict[str, Any] = {
    "automation_state": Automation.state,
    "automation_shifted_seconds": Automation.shifted_seconds,
    "time_zone": Account.time_zone,
    "is_test": Account.test_of.is_not(None),
    "has_digests": Account.has_digests,
}
_COLUMNS = [
    (_JOINED_COLUMNS[name] if name in _JOINED_COLUMNS else getattr(AutomationRun, name)).label(name)
    for name in DueRun._fields
]

RUNS = PreparedStatement(
    select(*_COLUMNS)
    .join(Automation, Automation.id == AutomationRun.automation_id)
    .join(Account, Account.id == AutomationRun.account_id)
    .where(in_json(AutomationRun.id, bindparam("ids", type_=String)))
    .order_by(AutomationRun.due_time, AutomationRun.id)
    .with_for_update(read=True, of=Automation, skip_locked=True)
)
"""Nobody pauses, resumes or changes the automations before the end of the transaction. Runs of one that is being
changed now are left out: who changes it waits for runs."""


def read_runs(transaction: Transaction, ids: Collection[int]) -> list[DueRun]:
    """The runs with these ids, which are locked; those that have been due for longest first."""
    return [DueRun._make(row) for row in RUNS.tuples(transaction, ids=json_array(ids))]


def lock_again(transaction: Transaction, ids: Collection[int], moment: datetime) -> list[int]:
    """Locks the runs that are due still and that nobody else has locked; returns their ids."""
    run = AutomationRun
    statement = select(run.id).where(in_json(run.id, ids), IS_WAITING, run.due_time <= moment)
    return list(transaction.scalars(statement.order_by(run.id).with_for_update(skip_locked=True)))
