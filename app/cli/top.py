"""`flask top`: the overview of an installation, over and over."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

import click
from flask.cli import with_appcontext

from app.cli.base import Command, echo, print_rows
from app.cli.status import print_overview
from app.clock import now, timestamp
from app.http.context import services
from app.infrastructure.shared_counts import Counts, SharedCounts, add
from app.maintenance.figures import Figures
from app.maintenance.findings import are_complete
from app.maintenance.overview import read_overview

RATES: dict[str, tuple[str, set[tuple[str, str]]]] = {
    "accepted": ("tms_accepted_recipients_total", set()),
    "attempts": ("tms_recipient_outcomes_total", set()),
    "unanswered by relays": ("tms_transport_replies_total", {("reply", "none")}),
    "requests": ("tms_http_requests_total", set()),
    "to webhooks": ("tms_webhook_tries_total", set()),
}
"""What is counted on this host -> its metric, and labels."""


@click.command("top", cls=Command)
@click.option(
    "--interval", type=click.FloatRange(0.1, 3600), default=2.0, show_default=True, help="Seconds between two updates."
)
@click.option(
    "--count", type=click.IntRange(1), metavar="N", help="Stop after this many updates; by default at Ctrl-C."
)
@with_appcontext
def command(interval: float, count: int | None) -> None:
    """Show continuously what needs attention, the queue, the processes, and what this host does per second."""
    parts = services()
    counts = SharedCounts(parts.settings.data_dir / "metrics", dict)
    before, began = _totals(counts), time.monotonic()
    shown_times = 0
    while count is None or shown_times < count:
        time.sleep(interval)
        after, ended = _totals(counts), time.monotonic()
        overview = read_overview(parts)
        if sys.stdout.isatty():
            click.clear()
        echo(timestamp(now()))
        print_overview(overview)
        if are_complete(overview.figures):
            _print_figures(overview.figures)
        rates = {name: (after[name] - before[name]) / (ended - began) for name in RATES}
        echo("per second on this host: " + ", ".join(f"{rate:.1f} {name}" for name, rate in rates.items()))
        before, began, shown_times = after, ended, shown_times + 1


def _totals(counts: SharedCounts) -> Mapping[str, float]:
    summed: Counts = {}
    for process_counts in counts.others():
        add(summed, process_counts)
    return {
        name: sum(value for (counter, given), value in summed.items() if counter == metric and labels <= {*given})
        for name, (metric, labels) in RATES.items()
    }


def _print_figures(figures: Figures) -> None:
    entries, oldest = figures["tms_queue_entries"], figures["tms_queue_oldest_seconds"]
    rows = [
        {
            "messages": " ".join(key),
            "number": f"{number:g}",
            "oldest": f"{oldest[key]:.0f} s" if key in oldest else None,
        }
        for key, number in entries.items()
        if number
    ]
    if rows:
        print_rows(rows, as_json=False)
    waiting, age = figures["tms_events_waiting"][()], figures["tms_events_oldest_seconds"][()]
    echo(f"events that wait: {waiting:g}, the oldest for {age:.0f} s")
    processes = {role: number for (role, state), number in figures["tms_processes"].items() if state == "live"}
    echo("processes: " + ", ".join(f"{number:g} {role}" for role, number in processes.items()))
