"""What needs attention in an installation, in words, from the figures that Prometheus gets. Pure.

Each finding is the condition of an alert rule (docs/monitoring/alerts.md) without its duration: a terminal shows what
is, and an alert what lasts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from app.db.schema import FITTING_STATES, Schema, misfit
from app.maintenance.alerts import ALERTS, Finding
from app.maintenance.figures import Figures
from app.maintenance.recent_findings import Growths, recent_findings
from app.maintenance.words import counted, lasting, messages
from app.sends.outcomes.relay_refusals import ShownRefusal

NEEDED_ROLES = {
    "api": "requests are not answered",
    "sends": "no message leaves",
    "webhooks": "no event leaves",
    "maintenance": "no cleaning takes place",
    "automations": "no automation step runs",
    "scheduler": "retries and missed wake-ups wait",
}
"""Role -> what does not happen without a live process of it."""
REDIS_DOWN = "Redis does not answer: messages may leave a second later, and rate limits are not enforced"


class HostState(NamedTuple):
    """What is known on this host alone: transports with the number of senders that have set them aside, the bytes of
    the journals, how much counts have grown in the window of each alert, and how many seconds ago something was last
    done, by the alert that says that it was not."""

    set_aside: Mapping[str, float] = MappingProxyType({})
    journal_bytes: int = 0
    growths: Growths = MappingProxyType({})
    ages: Mapping[str, float] = MappingProxyType({})


def findings(
    figures: Figures, *, redis_up: bool, on_host: HostState | None = None, refusals: Sequence[ShownRefusal] = ()
) -> list[Finding]:
    """All findings, first those that cannot wait until the morning, in the order of the runbook. Without figures, as of
    a schema that does not fit, those that need none. `refusals` are the relays that refuse everything of an account."""
    on_host = on_host or HostState()
    unordered = [
        *_schema(figures),
        *([] if redis_up else [Finding("TmsRedisDown", REDIS_DOWN)]),
        *([*_processes(figures), *_messages(figures)] if are_complete(figures) else []),
        *(Finding("TmsRelayRefuses", refusal.words()) for refusal in refusals),
        *_host_findings(on_host),
        *recent_findings(on_host.growths),
        *(_events_and_runs(figures) if are_complete(figures) else []),
    ]
    order = [*ALERTS]
    return sorted(unordered, key=lambda finding: (ALERTS[finding.alert].severity, order.index(finding.alert)))


def are_complete(figures: Figures) -> bool:
    """Whether there is more than the state of the schema."""
    return "tms_queue_entries" in figures


def database_down(reason: str) -> Finding:
    """Instead of the figures, which are in the database."""
    words = "the database does not answer, so requests are refused and senders wait"
    further = "" if reason.startswith("the database") else f": {reason}"  # it would say the same in other words
    return Finding("TmsDatabaseDown", words + further)


def _schema(figures: Figures) -> Iterator[Finding]:
    for revision, needed, state in figures.get("tms_schema_info", ()):
        if state not in FITTING_STATES:
            too_new = f"the database is at revision {revision}, this version needs {needed}: install a newer version"
            words = too_new if state == "too new" else misfit(Schema(state, revision or None))
            yield Finding("TmsSchemaDoesNotFit", words)


def _processes(figures: Figures) -> Iterator[Finding]:
    numbers = figures["tms_processes"]
    for role, consequence in NEEDED_ROLES.items():
        if not numbers[role, "live"]:
            alert = "TmsApiDown" if role == "api" else "TmsProcessMissing"
            yield Finding(alert, f"no process with the role {role} is alive: {consequence}")
    for (role, state), number in numbers.items():
        if state == "silent" and number:
            words = f"{counted(number, 'process', 'processes')} with the role {role} fell silent: killed or hanging"
            yield Finding("TmsProcessSilent", words)
    for (host,), age in figures["tms_host_heartbeat_age_seconds"].items():
        if age > ALERTS["TmsHostLost"].limit:
            words = f"the host {host} is lost: its last process fell silent {lasting(age)} ago without being stopped"
            yield Finding("TmsHostLost", words)
    for (host,), seconds in figures["tms_clock_difference_seconds"].items():
        if abs(seconds) > ALERTS["TmsClockWrong"].limit:
            off = f"{lasting(abs(seconds))} {'ahead of' if seconds > 0 else 'behind'} that of the database"
            yield Finding("TmsClockWrong", f"the clock of the host {host} is {off}: no process can be started there")
    for (stage,), seconds in figures["tms_purge_overdue_seconds"].items():
        if seconds > ALERTS["TmsPurgingLate"].limit:
            yield Finding("TmsPurgingLate", f"purging of {stage} has been overdue for {lasting(seconds)}")


def _messages(figures: Figures) -> Iterator[Finding]:
    oldest, entries = figures["tms_queue_oldest_seconds"], figures["tms_queue_entries"]
    for (account_class, type_, state), number in entries.items():
        age = oldest.get((account_class, type_, state), 0.0)
        if account_class != "live":
            continue
        if state == "due" and age > ALERTS["TmsMessagesWait"].limit:
            yield Finding("TmsMessagesWait", f"due: {messages(number, type_)}, the oldest for {lasting(age)}")
        if state == "uncertain" and age > ALERTS["TmsMessagesUncertain"].limit:
            words = f"uncertain: {messages(number, type_)}, the oldest for {lasting(age)}"
            yield Finding("TmsMessagesUncertain", words)
        if state == "held" and number:
            yield Finding("TmsMessagesHeld", f"held after a restore: {messages(number, type_)}")


LATE_WORDS = {
    "TmsSchedulerDoesNotLook": "the scheduler last looked for due work {} ago: retries wait",
    "TmsCleaningLate": "the last cleaning was completed {} ago: tables grow",
    "TmsBackupOld": "the last complete backup was made {} ago",
}
"""Alert that something was not done for too long -> the finding with how long ago it was last done."""


def _host_findings(on_host: HostState) -> Iterator[Finding]:
    for alert, age in on_host.ages.items():
        if age > ALERTS[alert].limit:
            yield Finding(alert, LATE_WORDS[alert].format(lasting(age)))
    for transport, number in on_host.set_aside.items():
        if number:
            words = f"{counted(number, 'worker')} of this host could not send over it and switched to others"
            yield Finding("TmsTransportSetAside", f"transport {transport}: {words}")
    if on_host.journal_bytes > ALERTS["TmsJournalGrows"].limit:
        size = f"{on_host.journal_bytes / 1_000_000:.0f} MB"
        yield Finding(
            "TmsJournalGrows", f"the journals of this host have {size}: results are not written to the database"
        )


def _events_and_runs(figures: Figures) -> Iterator[Finding]:
    age = figures["tms_events_oldest_seconds"][()]
    if age > ALERTS["TmsWebhooksBehind"].limit:
        behind = counted(figures["tms_webhooks"]["behind",], "webhook")
        yield Finding("TmsWebhooksBehind", f"events wait for {behind}, the oldest for {lasting(age)}")
    if late := figures["tms_automation_runs"]["late",]:
        yield Finding("TmsAutomationsLate", f"late: {counted(late, 'automation run')}")
