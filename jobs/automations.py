"""Job of the queue `automations`: what happens by itself, as time goes by."""

from __future__ import annotations

from functools import cache

from app.bulk_actions.run import run_due
from app.inbound.simulated import simulate_due
from app.runs.due_runs import DueRuns
from app.runs.work import advance_due
from jobs.runtime import process_services


def advance() -> None:
    """Advances the runs of automations that are due, for one time slice, carries out what magic addresses simulate
    (docs/testing.md#magic-addresses), and runs slices of bulk actions (docs/console.md#bulk-actions)."""
    simulate_due(process_services())
    run_due(process_services())
    advance_due(process_services(), _due_runs())


@cache
def _due_runs() -> DueRuns:
    """What this process remembers between two wake-ups."""
    return DueRuns()
