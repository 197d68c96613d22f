"""The events that a webhook received, compared with what happened: none missing, none twice, in order."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from tests.chaos import check_runs
from tests.chaos.facts import Facts, Person
from tests.chaos.record import Course, Delivery, Seen

OUTCOMES = {"delivered": ("sent",), "sent": ("sent",), "bounced": ("bounced",), "failed": ("failed",)}
"""State of a recipient -> its events."""

Broken = Iterator[tuple[str, list[str]]]


def broken(account: str, seen: Seen, facts: Facts) -> Broken:
    """The violated guarantees of the deliveries to the account's webhook, each with examples."""
    deliveries = [one for one in seen.deliveries if one.account == account]
    yield "deliveries without a valid signature", [one.jti for one in deliveries if not one.signed]
    yield from _broken_batches(deliveries)
    events = accepted_events(deliveries)
    yield from _broken_outcomes(account, events, facts)
    yield from _broken_contacts(account, events, facts)
    yield from check_runs.broken_events(account, events, facts)
    yield from _broken_order(events, seen.chains.get(account, []))


def accepted_events(deliveries: Sequence[Delivery]) -> list[dict[str, Any]]:
    """The events as a receiver sees them that recognizes a `jti`: those of each batch once."""
    known: set[str] = set()
    events: list[dict[str, Any]] = []
    for one in deliveries:
        if one.status is not None and one.jti not in known:
            known.add(one.jti)
            events += one.events
    return events


def _broken_batches(deliveries: Sequence[Delivery]) -> Broken:
    """A batch that was not accepted is repeated next, with the same `jti` and the same events."""
    contents: dict[str, list[dict[str, Any]]] = {}
    changed = [one.jti for one in deliveries if contents.setdefault(one.jti, one.events) != one.events]
    yield "batches that changed their events", changed
    following = itertools.pairwise(deliveries)
    skipped = [one.jti for one, other in following if one.status is None and other.jti != one.jti]
    yield "batches not repeated next", skipped


def _broken_outcomes(account: str, events: Sequence[dict[str, Any]], facts: Facts) -> Broken:
    """One event for each recipient, with its outcome, and another one for the receipt of a text."""
    reported = Counter((event["uuid"], event["event"]) for event in events if event["object"] == "recipient")
    happened = {(one.uuid, name) for one in facts.people if one.account == account for name in _events_of(one)}
    yield "events of recipients missing", [f"{event} {uuid}" for uuid, event in sorted(happened - reported.keys())]
    yield (
        "events of recipients without an outcome",
        [f"{event} {uuid}" for uuid, event in sorted(reported.keys() - happened)],
    )
    yield (
        "events of recipients reported twice",
        [f"{event} {uuid}" for (uuid, event), count in reported.items() if count > 1],
    )


def _events_of(person: Person) -> tuple[str, ...]:
    receipts = [step for step in person.steps if step == "acknowledged"]
    return (*OUTCOMES.get(person.state, (person.state,)), *receipts)


def _broken_contacts(account: str, events: Sequence[dict[str, Any]], facts: Facts) -> Broken:
    """Each contact was created once, and exists until it is deleted."""
    reported: dict[str, Counter[int]] = defaultdict(Counter)
    for event in events:
        if event["object"] == "contact":
            reported[event["event"]][event["id"]] += 1
    for name, counted in reported.items():
        yield f"contacts {name} twice", [str(contact) for contact, count in counted.items() if count > 1]
    there = sum(facts.contacts.get(account, {}).values())
    remaining = reported["created"].keys() - reported["deleted"].keys()
    if len(remaining) != there:
        yield "contacts more or fewer than the events report", [f"{there} instead of {len(remaining)}"]


def _broken_order(events: Sequence[dict[str, Any]], chain: Sequence[tuple[int, str]]) -> Broken:
    """The creation of a contact is reported before its other events, and the changes of one client keep their order."""
    places: dict[tuple[int, str], int] = {}
    created: dict[int, int] = {}
    early = []
    for place, event in enumerate(events):
        if event["object"] == "contact":
            places.setdefault((event["id"], event["event"]), place)
            if event["event"] == "created":
                created.setdefault(event["id"], place)
        elif event.get("contact_id") not in created:
            early.append(f"{event['event']} {event.get('uuid', event.get('contact_id'))}")
    yield "recipients reported before their contact", early
    yield (
        "changes of contacts without an event",
        [f"{name} {one}" for one, name in chain if (one, name) not in places],
    )
    changes = [step for step in chain if step in places]
    turned = [
        f"{name} {one}"
        for (one, name), following in itertools.pairwise(changes)
        if places[one, name] > places[following]
    ]
    yield "changes of contacts out of order", turned


def longest_stall(deliveries: Sequence[Delivery], course: Course) -> float:
    """The longest time without an accepted delivery to some webhook, from the end of the fault to that of the load.

    Events wait all that time. The first delivery after it still counts if its events are older.
    """
    stalls = [0.0]
    for account in {one.account for one in deliveries}:
        times = [one for one in deliveries if one.account == account and one.status is not None]
        before = course.up
        for one in times:
            if one.time < course.up:
                continue
            # Later than its delivery is an event of a clock that was ahead.
            if course.load_ended < min(map(_moment, one.events)) <= one.time:
                break
            stalls.append(one.time - before)
            before = one.time
            if one.time > course.load_ended:
                break
    return max(stalls)


def _moment(event: dict[str, Any]) -> float:
    return datetime.fromisoformat(event["timestamp"]).timestamp()
