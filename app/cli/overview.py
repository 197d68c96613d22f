"""What `flask status` and `flask top` print of the overview."""

from __future__ import annotations

from app.cli.base import echo
from app.maintenance.overview import Overview

RUNBOOK = "docs/monitoring/alerts.md"


def print_overview(overview: Overview) -> None:
    """A line for each finding, with the section of the runbook, and for each note."""
    if not overview.found and not overview.notes:
        echo("all is well")
    for one in overview.found:
        echo(f"! {one.words} ({RUNBOOK}#{one.alert.lower()})")
    for note in overview.notes:
        echo(f"- {note}")
