"""What `flask status` and `flask top` print of the overview."""

from __future__ import annotations

from app.cli.base import echo
from app.distribution import COMMAND_LINE
from app.maintenance.findings import COMMANDS, Finding
from app.maintenance.overview import Overview


def print_overview(overview: Overview) -> None:
    """A line for each finding, with its section of the page Alerts and a command that shows more, and for each note."""
    if not overview.found and not overview.notes:
        echo("all is well")
    for one in overview.found:
        echo(f"! {one.words} ({_what_to_do(one)})")
    for note in overview.notes:
        echo(f"- {note}")


def _what_to_do(finding: Finding) -> str:
    command = COMMANDS.get(finding.alert)
    return finding.alert if command is None else f"{finding.alert}: `{COMMAND_LINE} {command}`"
