"""What needs attention in an installation, in words, from the figures that Prometheus gets. Pure.

Each finding is the condition of an alert rule (docs/monitoring/alerts.md) without its duration: a terminal shows what
is, and an alert what lasts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from app.maintenance.figures import Figures

LIMITS = {"TmsMessagesWait": 60.0, "TmsMessagesUncertain": 3600.0, "TmsWebhooksBehind": 900.0}
"""Alert -> seconds from which it is one."""
NEEDED = {
    "api": "requests are not answered",
    "sends": "no message leaves",
    "webhooks": "no event leaves",
    "maintenance": "nothing is cleaned",
    "automations": "no step of an automation is taken",
    "scheduler": "retries and what lost its wake-up wait",
}
"""Role -> what does not happen without a live process of it."""
FITTING = ("ok", "newer", "pending")
"""States of a schema on which this code works."""


class Finding(NamedTuple):
    """The alert that it belongs to, and what is the matter."""

    alert: str
    words: str


def findings(shown: Figures, *, redis_up: bool) -> list[Finding]:
    """All findings, in the order of the runbook."""
    return [
        *_schema(shown),
        *(
            []
            if redis_up
            else [Finding("TmsRedisDown", "Redis does not answer: messages may leave half a second later")]
        ),
        *_processes(shown),
        *_messages(shown),
        *_events_and_runs(shown),
    ]


def lasting(seconds: float) -> str:
    """A duration in its two largest units."""
    rest, parts = round(seconds), []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        number, rest = divmod(rest, size)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2]) or "0 s"


def _schema(shown: Figures) -> Iterator[Finding]:
    for revision, needed, state in shown["tms_schema_info"]:
        if state not in FITTING:
            words = f"the schema {revision or 'is missing and'} does not fit this code, which needs {needed}"
            yield Finding("TmsSchemaDoesNotFit", words)


def _processes(shown: Figures) -> Iterator[Finding]:
    numbers = shown["tms_processes"]
    for role, consequence in NEEDED.items():
        if not numbers[role, "live"]:
            alert = "TmsApiDown" if role == "api" else "TmsProcessMissing"
            yield Finding(alert, f"no process of {role} shows a sign of life: {consequence}")
    for (role, state), number in numbers.items():
        if state == "silent" and number:
            yield Finding("TmsProcessSilent", f"{number:g} of {role}: killed, or hanging")


def _messages(shown: Figures) -> Iterator[Finding]:
    oldest, entries = shown["tms_queue_oldest_seconds"], shown["tms_queue_entries"]
    for (account_class, type_, state), number in entries.items():
        age = oldest.get((account_class, type_, state), 0.0)
        if account_class != "live":
            continue
        if state == "due" and age > LIMITS["TmsMessagesWait"]:
            yield Finding("TmsMessagesWait", f"{number:g} of {type_} are due, the oldest for {lasting(age)}")
        if state == "uncertain" and age > LIMITS["TmsMessagesUncertain"]:
            yield Finding("TmsMessagesUncertain", f"{number:g} of {type_} are uncertain, for up to {lasting(age)}")
        if state == "held" and number:
            yield Finding("TmsMessagesHeld", f"{number:g} of {type_} are held after a restore")


def _events_and_runs(shown: Figures) -> Iterator[Finding]:
    age = shown["tms_events_oldest_seconds"][()]
    if age > LIMITS["TmsWebhooksBehind"]:
        words = f"{shown['tms_webhooks']['behind',]:g} webhooks are behind, the oldest event waits for {lasting(age)}"
        yield Finding("TmsWebhooksBehind", words)
    if late := shown["tms_automation_runs"]["late",]:
        yield Finding("TmsAutomationsLate", f"{late:g} runs of automations are late")
