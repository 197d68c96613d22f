"""Conditions on the state of runs. The states are written into the statements, not bound: with a parameter in their
place neither database would use the partial indexes of runs."""

from __future__ import annotations

from sqlalchemy import ColumnElement, String, and_, literal_column

from app.db.models import AutomationRun


def _state(name: str) -> ColumnElement[str]:
    return literal_column(f"'{name}'", String)


HAS_ENDED: ColumnElement[bool] = AutomationRun.state == _state("ended")
IS_LIVE: ColumnElement[bool] = AutomationRun.state != _state("ended")
IS_WAITING: ColumnElement[bool] = AutomationRun.state == _state("waiting")
IS_HELD: ColumnElement[bool] = and_(AutomationRun.state == _state("held"), IS_LIVE)
"""The second part is always true; by it the index of live runs answers."""
