"""Conditions on the state of runs, and what is written of one that ends.

The states are written into the conditions, not bound: with a parameter in their place neither database would use the
partial indexes of runs.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, String, and_, literal_column

from app.automations.definition import Entry
from app.automations.facts import EndReason
from app.db.models import AutomationRun


def _state(name: str) -> ColumnElement[str]:
    return literal_column(f"'{name}'", String)


HAS_ENDED: ColumnElement[bool] = AutomationRun.state == _state("ended")
IS_LIVE: ColumnElement[bool] = AutomationRun.state != _state("ended")
IS_WAITING: ColumnElement[bool] = AutomationRun.state == _state("waiting")
IS_HELD: ColumnElement[bool] = and_(AutomationRun.state == _state("held"), IS_LIVE)
"""The second part is always true; by it the index of live runs answers."""


def ended_columns(reason: str, moment: datetime) -> dict[str, Any]:
    """The columns of a run that has ended, but for its place."""
    return {
        "state": "ended",
        "reason": reason,
        "step": None,
        "step_time": None,
        "watched_step": None,
        "watched_event": None,
        "end_time": moment,
    }


def gives_up_place(entry: Entry, reason: str) -> bool:
    """Whether a run that ends gives up the contact's place, by which it is also deleted after the retention. A contact
    that was deleted cannot come again."""
    return entry.again == "when ended" or reason == EndReason.CONTACT_DELETED
