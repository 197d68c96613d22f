"""The events that a webhook received, compared with what happened: none missing, none twice, in order."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from tests.chaos import check_runs
from tests.chaos.facts import Facts, Person
from tests.chaos.record import WEBHOOK_SPACING, Course, Delivery, RoundRecord

OUTCOMES = {"delivered": ("sent",), "sent": ("sent",), "bounced": ("bounced",), "failed": ("failed",)}
"""State of a recipient -> its events."""

SPACED = 0.9 * WEBHOOK_SPACING
"""Seconds between the beginnings of three requests to a webhook. Two of them may begin together: a request whose kept
connection the receiver closes is sent once more at once, on a new one."""

Broken = Iterator[tuple[str, list[str]]]


def broken(account: str, seen: RoundRecord, facts: Facts) -> Broken:
    """The violated guarantees of the deliveries to the account's webhook, each with examples."""
    deliveries = [delivery for delivery in seen.deliveries if delivery.account == account]
    yield "deliveries without a valid signature", [delivery.jti for delivery in deliveries if not delivery.signed]
    yield from _broken_batches(deliveries)
    yield from _broken_spacing(deliveries)
    events = accepted_events(deliveries)
    yield from _broken_outcomes(account, events, facts)
    chain = seen.chains.get(account, [])
    yield from _broken_contacts(account, events, chain, facts)
    yield from check_runs.broken_events(account, events, facts)
    yield from _broken_order(events, chain)


def accepted_events(deliveries: Sequence[Delivery]) -> list[dict[str, Any]]:
    """The events as a receiver sees them that recognizes a `jti`: those of each batch once."""
    seen_ids: set[str] = set()
    events: list[dict[str, Any]] = []
    for delivery in deliveries:
        if delivery.status is not None and delivery.jti not in seen_ids:
            seen_ids.add(delivery.jti)
            events += delivery.events
    return events


def _broken_batches(deliveries: Sequence[Delivery]) -> Broken:
    """A batch that was not accepted is repeated next, with the same `jti` and the same events."""
    contents: dict[str, list[dict[str, Any]]] = {}
    changed = [
        delivery.jti for delivery in deliveries if contents.setdefault(delivery.jti, delivery.events) != delivery.events
    ]
    yield "batches that changed their events", changed
    following = itertools.pairwise(deliveries)
    skipped = [delivery.jti for delivery, other in following if delivery.status is None and other.jti != delivery.jti]
    yield "batches not repeated next", skipped


def _broken_spacing(deliveries: Sequence[Delivery]) -> Broken:
    """One request at a time, with the spacing between three of them. A busy machine reads a request later than it came,
    which makes the time to the next one shorter."""
    yield "requests to a webhook that overlap", [delivery.jti for delivery in deliveries if delivery.overlaps]
    threes = zip(deliveries, deliveries[2:], strict=False)
    yield (
        "requests to a webhook in quick succession",
        [f"{last.jti} {last.began - first.began:.2f} s" for first, last in threes if last.began - first.began < SPACED],
    )


def _broken_outcomes(account: str, events: Sequence[dict[str, Any]], facts: Facts) -> Broken:
    """One event for each recipient, with its outcome, and another one for the receipt of a text."""
    reported = Counter((event["uuid"], event["event"]) for event in events if event["object"] == "recipient")
    happened = {
        (person.uuid, name) for person in facts.people if person.account == account for name in _events_of(person)
    }
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
    failures = [step for step in person.earlier if step in ("bounced", "failed")]
    return (*failures, *OUTCOMES.get(person.state, (person.state,)), *receipts)


def _broken_contacts(
    account: str, events: Sequence[dict[str, Any]], chain: Sequence[tuple[int, str]], facts: Facts
) -> Broken:
    """Each contact was created once, changed as often as a client did, and exists until it is deleted."""
    reported: dict[str, Counter[int]] = defaultdict(Counter)
    for event in events:
        if event["object"] == "contact":
            reported[event["event"]][event["id"]] += 1
    made = Counter(chain)
    yield (
        "changes of contacts reported twice",
        [
            f"{name} {contact}"
            for name, counted in reported.items()
            for contact, count in counted.items()
            if count > max(1, made[contact, name])
        ],
    )
    there = sum(facts.contacts.get(account, {}).values())
    remaining = reported["created"].keys() - reported["deleted"].keys()
    if len(remaining) != there:
        yield "contacts more or fewer than the events report", [f"{there} instead of {len(remaining)}"]


def _broken_order(events: Sequence[dict[str, Any]], chain: Sequence[tuple[int, str]]) -> Broken:
    """The creation of a contact is reported before its other events, and the changes of one client keep their order."""
    places: dict[tuple[int, str, int], int] = {}
    """Contact, event and the number of such events so far -> its place."""
    counted: Counter[tuple[int, str]] = Counter()
    created: dict[int, int] = {}
    early = []
    for place, event in enumerate(events):
        if event["object"] == "contact":
            counted[event["id"], event["event"]] += 1
            places[event["id"], event["event"], counted[event["id"], event["event"]]] = place
            if event["event"] == "created":
                created.setdefault(event["id"], place)
        elif event.get("contact_id") not in created:
            early.append(f"{event['event']} {event.get('uuid', event.get('contact_id'))}")
    yield "recipients reported before their contact", early
    numbered = [(*step, chain[: place + 1].count(step)) for place, step in enumerate(chain)]
    yield (
        "changes of contacts without an event",
        [f"{name} {event}" for event, name, number in numbered if (event, name, number) not in places],
    )
    changes = [step for step in numbered if step in places]
    turned = [
        f"{step[1]} {step[0]}" for step, following in itertools.pairwise(changes) if places[step] > places[following]
    ]
    yield "changes of contacts out of order", turned


def longest_stall(deliveries: Sequence[Delivery], course: Course) -> float:
    """The longest time without an accepted delivery to some webhook, from the end of the fault to that of the load.

    Events wait all that time. The first delivery after it still counts if its events are older.
    """
    stalls = [0.0]
    for account in {delivery.account for delivery in deliveries}:
        times = [delivery for delivery in deliveries if delivery.account == account and delivery.status is not None]
        before = course.up
        for delivery in times:
            if delivery.time < course.up:
                continue
            # Later than its delivery is an event of a clock that was ahead.
            if course.load_ended < min(map(_moment, delivery.events)) <= delivery.time:
                break
            stalls.append(delivery.time - before)
            before = delivery.time
            if delivery.time > course.load_ended:
                break
    return max(stalls)


def _moment(event: dict[str, Any]) -> float:
    return datetime.fromisoformat(event["timestamp"]).timestamp()
