"""The runs of automations, compared with who has entered and what was sent: each step once, whatever was killed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from tests.chaos.facts import Facts
from tests.chaos.record import SUBJECT, RoundRecord
from tests.chaos.series import PASSED

Broken = Iterator[tuple[str, list[str]]]


def broken(seen: RoundRecord, facts: Facts) -> Broken:
    """The violated guarantees, each with examples."""
    began = Counter((run.account, run.address) for run in facts.runs)
    yield (
        "contacts that did not enter an automation once",
        [
            f"{address} {began[account, address]} times"
            for account, address in seen.entered
            if began[account, address] != 1
        ],
    )
    yield (
        "runs that did not pass each step once",
        [
            f"{run.address} {run.state} {run.reason} {run.passed}"
            for run in facts.runs
            if (run.state, run.reason, tuple(run.passed)) != ("ended", "completed", PASSED)
        ],
    )
    yield from _broken_messages(facts)


def _broken_messages(facts: Facts) -> Broken:
    """A step that a run has passed with a message has exactly one recipient, and a recipient has one step."""
    written = {(person.address, person.subject, person.id) for person in facts.people if person.subject != SUBJECT}
    passed = {(run.address, name, recipient_id) for run in facts.runs for name, recipient_id in run.recipients}
    yield "steps passed without their message", [f"{address} {name}" for address, name, _ in passed - written]
    yield "messages of steps that no run has passed", [f"{address} {name}" for address, name, _ in written - passed]
    sent = Counter(person.mail for person in facts.people if person.subject != SUBJECT)
    yield "messages of steps doubled", [f"{address} {name}" for (address, name), count in sent.items() if count > 1]


def broken_events(account: str, events: Sequence[dict[str, Any]], facts: Facts) -> Broken:
    """Each run has called the webhook once and changed its contact once."""
    runs = [run for run in facts.runs if run.account == account and run.reason == "completed"]
    called = Counter(event["contact_id"] for event in events if event["object"] == "automation")
    yield (
        "calls of runs missing or repeated",
        [f"{run.address} {called[run.contact_id]} times" for run in runs if called[run.contact_id] != 1],
    )
    updated = {event["id"] for event in events if (event["object"], event["event"]) == ("contact", "updated")}
    yield "changes by runs without an event", [run.address for run in runs if run.contact_id not in updated]
