"""Deleting automations (docs/automation-runs.md#deleting).

Deleting changes one row, whatever the number of runs: what is due is ended when it is found (`advance`), and the rest
in chunks. The row is kept for the reports and events of what the automation has sent.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, exists, literal, literal_column, select, tuple_, update

from app.automations.run_states import HAS_ENDED, IS_LIVE, ended_columns
from app.clock import now, this_second
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import Automation, AutomationRun, List
from app.runs.pause import DELETION_REASON, locked_automation

Position = tuple[datetime, int]
"""Trigger time and id of a run: their order in an automation."""
OCCUPIES_PLACE = AutomationRun.entry_key == literal_column("0", BigInteger)


def delete_automation(transaction: Transaction, account_id: int, automation_id: int) -> Automation:
    """Deletes the automation: no contact enters it any more, and its runs end. Its name is free again.

    Raises `not_found`, and `conflict` if it was deleted before.
    """
    automation = locked_automation(transaction, account_id, automation_id)
    automation.name = f"{automation.name} (deleted {automation.id})"
    automation.state, automation.paused_time, automation.release = "deleted", None, "end"
    automation.last_modified_time = this_second()
    transaction.flush()
    _let_list_forget(transaction, automation)
    return automation


def _let_list_forget(transaction: Transaction, automation: Automation) -> None:
    """Contacts of a list whose last automation was deleted cost what they did before it had any."""
    # Whoever creates another automation of the list changes its row, too: before this or after it.
    is_list = List.account_id == automation.account_id, List.id == automation.list_id
    transaction.execute(select(List.id).where(*is_list).with_for_update(key_share=True))
    others = exists().where(Automation.list_id == automation.list_id, Automation.state != "deleted")
    statement = update(List).where(*is_list, ~others).values(has_automations=False)
    transaction.execute(statement, execution_options={"synchronize_session": False})


def end_chunk(
    transaction: Transaction, automation_id: int, last: Position | None, size: int
) -> tuple[bool, Position | None]:
    """Ends the next runs of a deleted automation: returns whether there may be more, and the last run that has been
    looked at. An automation that others have locked is left to them."""
    deleted = select(Automation.id).where(Automation.id == automation_id, Automation.release == "end")
    if transaction.scalar(deleted.with_for_update(key_share=True, skip_locked=True)) is None:
        return False, last
    run, options = AutomationRun, {"synchronize_session": False}
    # In the order of the index of live runs, of which those before are none any more.
    live = select(run.id).where(run.automation_id == automation_id, IS_LIVE).order_by(run.state, run.step).limit(size)
    if ids := transaction.scalars(live.with_for_update()).all():
        ended = {**ended_columns(DELETION_REASON, now()), "entry_key": run.id}
        transaction.execute(update(run).where(in_json(run.id, ids)).values(ended), execution_options=options)
        return True, last
    last = _free_places(transaction, automation_id, last, size)
    if last is None:
        done = update(Automation).where(Automation.id == automation_id).values(release=None)
        transaction.execute(done, execution_options=options)
    return last is not None, last


def _free_places(transaction: Transaction, automation_id: int, last: Position | None, size: int) -> Position | None:
    """Has the next runs give up their places, and returns the last of them; None at the end. A run that keeps its
    contact from entering again does not any more, so that it is deleted like the others."""
    run = AutomationRun
    order = run.trigger_time, run.id
    # Without a condition on what is to be changed, so that the index gives the next ones in their order.
    statement = select(*order).where(run.automation_id == automation_id)
    if last is not None:
        position = tuple_(literal(last[0], run.trigger_time.type), literal(last[1], run.id.type))
        statement = statement.where(tuple_(*order) > position)
    rows = transaction.execute(statement.order_by(*order).limit(size).with_for_update()).all()
    occupying = update(run).where(in_json(run.id, [row.id for row in rows]), HAS_ENDED, OCCUPIES_PLACE)
    transaction.execute(occupying.values(entry_key=run.id), execution_options={"synchronize_session": False})
    return (rows[-1].trigger_time, rows[-1].id) if len(rows) == size else None
