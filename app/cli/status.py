"""`flask status`: the work in progress of the whole installation, and what needs attention."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from typing import Any

import click
from flask.cli import with_appcontext

from app.cli.base import Command, Row, Unavailable, echo, json_option, print_json, print_row, print_rows
from app.db.schema import misfit, schema_of
from app.distribution import COMMAND_LINE
from app.http.context import services
from app.infrastructure.metrics import BACKUP_TIME, CLASSES, counts_of_host, noted_time
from app.maintenance.alerts import ALERTS, Finding
from app.maintenance.figures import Figures, asked_redis, read_figures
from app.maintenance.findings import are_complete
from app.maintenance.overview import Overview, overview_of, read_overview

# What `flask status` and `flask top` print of the overview.


def print_overview(overview: Overview) -> None:
    """A line for each finding, with its section of the page Alerts and a command that shows more, and for each note."""
    if not overview.findings and not overview.lines:
        echo("all is well")
    for finding in overview.findings:
        echo(f"! {finding.words} ({_what_to_do(finding)})")
    for note in overview.lines:
        echo(f"- {note}")


def _what_to_do(finding: Finding) -> str:
    command = ALERTS[finding.alert].command
    return finding.alert if command is None else f"{finding.alert}: `{COMMAND_LINE} {command}`"


@click.command("status", cls=Command)
@click.option("--check", is_flag=True, help="Exit with 1 if something needs attention.")
@json_option
@with_appcontext
@click.pass_context
def command(ctx: click.Context, check: bool, as_json: bool) -> None:
    """Show what needs attention. Then show how many messages are due, in flight or uncertain, how many events wait, and
    for how long, over all accounts, and which hosts run which roles."""
    if as_json:
        overview = _required_overview()
        print_json({**_figures(overview), "refusals": _refusals(overview), "hosts": _hosts(overview)})
    else:
        overview = read_overview(services())
        print_overview(overview)
        if not are_complete(overview.figures):
            ctx.exit(1)
        echo("")
        print_row(_figures(overview), as_json=False)
        if overview.hosts:
            echo("")
            print_rows(_hosts(overview), as_json=False)
    ctx.exit(1 if check and overview.findings else 0)


def _required_overview() -> Overview:
    """Raises `SQLAlchemyError`, and `Unavailable` for a schema whose tables may be others."""
    parts = services()
    redis_up, begin = asked_redis(parts.redis)
    with parts.database.read() as session:
        figures = read_figures(session, parts.settings, begin)
        if not are_complete(figures):
            raise Unavailable(misfit(schema_of(session.connection())))
        return overview_of(parts, session, figures, redis_up=redis_up)


def _refusals(overview: Overview) -> list[Row]:
    """The relays that refuse everything of an account, with what to do, for programs."""
    return [
        {
            **{name: getattr(refusal, name) for name in ("account", "transport", "reply", "bounced")},
            **{name: getattr(refusal, name) for name in ("first_time", "noticed_time", "ended_time")},
            "words": refusal.words(),
        }
        for refusal in overview.refusals
    ]


def _hosts(overview: Overview) -> list[Row]:
    """The hosts, lost ones first: what runs there, since when and with which release."""
    return [
        {
            "host": host.name,
            "state": host.state,
            "roles": host.roles,
            "processes": host.processes,
            "releases": host.releases,
            "since": host.since_time,
            "seen": host.seen_time,
            "clock_difference_seconds": host.clock_difference,
        }
        for host in overview.hosts
    ]


def _figures(overview: Overview) -> Row:
    backup = noted_time(counts_of_host(services().settings), BACKUP_TIME, "done")
    age = None if backup is None else max(0.0, round(time.time() - backup, 1))
    return {**status_of(overview.figures), "backup_age_seconds": age}


STATES = {
    "due": ("due",),
    "deferred": ("deferred",),
    "in_flight": ("in_flight", "abandoned"),
    "abandoned": ("abandoned",),
    "uncertain": ("uncertain",),
    "held": ("held",),
    "paused": ("paused",),
}
"""Number of messages -> the states of the send queue that count."""
STATES_WITH_AGE = ("due", "in_flight", "uncertain")


def status_of(figures: Figures) -> Row:
    """Numbers of messages, events and runs, and for some the age of the oldest in seconds; None if there is none.

    `due` can be sent now and `deferred` later; `in_flight` are claimed, `abandoned` of them under an expired lease;
    `uncertain` may have arrived; those `held` came with a restored backup, as did waiting events of `webhooks_held`;
    those `paused` wait for the end of a pause. `relays_refusing` are transports that refuse everything of an account.
    `events_waiting` have not been accepted by their webhook, and `webhooks_in_flight` have a request in flight.
    `runs_…` are those of automations: `late` ones have been due for a minute, `held` ones fell due in a pause, or came
    with a restored backup. `test_…` are those of them that are of test accounts (docs/testing.md).
    """
    runs, webhooks = figures["tms_automation_runs"], figures["tms_webhooks"]
    events = int(figures["tms_events_waiting"][()])
    return {
        **_queue_figures(figures),
        "relays_refusing": int(figures["relays_refusing"][()]),
        "events_waiting": events,
        "events_waiting_oldest_seconds": _age(events, figures["tms_events_oldest_seconds"].values()),
        "runs_waiting": int(runs["waiting",]),
        "runs_due": int(runs["due",]),
        "runs_due_oldest_seconds": _age(int(runs["due",]), figures["runs_due_oldest_seconds"].values()),
        "runs_late": int(runs["late",]),
        "runs_held": int(runs["held",]),
        "webhooks_in_flight": int(webhooks["in_flight",]),
        "webhooks_held": int(webhooks["held",]),
        **{f"test_{name}": _number(figures, STATES[name], ("test",)) for name in STATES_WITH_AGE},
        "test_events_waiting": int(figures["test_events_waiting"][()]),
    }


def _queue_figures(figures: Figures) -> Row:
    numbers: dict[str, Any] = {}
    for name, states in STATES.items():
        numbers[name] = number = _number(figures, states)
        if name in STATES_WITH_AGE:
            ages = (age for key, age in figures["tms_queue_oldest_seconds"].items() if key[2] in states)
            numbers[f"{name}_oldest_seconds"] = _age(number, ages)
    return numbers


def _number(figures: Figures, states: Collection[str], classes: Collection[str] = CLASSES) -> int:
    entries = figures["tms_queue_entries"].items()
    return int(
        sum(number for (account_class, _, state), number in entries if state in states and account_class in classes)
    )


def _age(number: int, ages: Iterable[float]) -> float | None:
    """The age of the oldest of a number of messages; None if there is none."""
    return round(max(ages), 1) if number else None
