"""Mails and texts, compared with what was accepted and with the states of the recipients."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from tests.chaos.facts import Facts, Person
from tests.chaos.limits import Limits
from tests.chaos.record import SUBJECT, Course, Mail, RoundRecord, is_text

WINDOW = 2
"""Texts that await their answer on a bind at once: as many as a sender has connections (docs/sms.md#smpp)."""

BUSY = 2.0
"""Seconds by which a busy machine reads what has arrived, or notes an answer that was read, later than it could."""

Broken = Iterator[tuple[str, list[str]]]
Name = tuple[str, str]
"""Address and subject, which no other message has."""


def lost(seen: RoundRecord) -> list[str]:
    """The addresses of accepted messages that neither relay nor gateway has taken or refused."""
    answered = _with_step(seen, "taken", "refused")
    return [address for address in _kept(seen) if (address, SUBJECT) not in answered]


def broken(seen: RoundRecord, facts: Facts) -> Broken:
    """Each accepted recipient got the message or was refused, and its state says so."""
    taken, refused = _with_step(seen, "taken"), _with_step(seen, "refused")
    people = {person.mail: person for person in facts.people}
    yield "accepted messages lost", lost(seen)
    unknown = [
        address
        for address, uuid in _kept(seen).items()
        if (address, SUBJECT) not in people or people[address, SUBJECT].uuid != uuid
    ]
    yield "accepted messages that the database does not have", unknown
    undone = sorted(name for name in (taken | refused) - people.keys() if name[0] not in seen.forgotten)
    yield "mails of requests that were undone", [to for to, _ in undone if not is_text(to)]
    yield "texts of requests that were undone", [to for to, _ in undone if is_text(to)]
    yield "mails for another recipient", [mail.to for mail in seen.mails if not mail.whole]
    yield "texts that are not whole", [text.to for text in seen.texts if not text.whole]
    yield (
        "mails without exactly their attachments",
        [
            mail.to
            for mail in seen.mails
            if mail.step == "taken" and mail.to in seen.accepted and mail.attached != seen.attached.get(mail.to, "")
        ],
    )
    confirmed = {(text.to, SUBJECT) for text in seen.texts if text.step == "confirmed"}
    named = [person for person in facts.people if person.address]
    wrong = [person for person in named if person.state != _state(person, taken, refused, confirmed)]
    yield "recipients in a wrong state", [f"{person.address} is {person.state}" for person in wrong]
    often = [person for person in named if person.steps.count("acknowledged") != (person.mail in confirmed)]
    yield "receipts not written once", [f"{person.address} {person.steps}" for person in often]
    yield from _broken_forgetting(seen, facts)


def _kept(seen: RoundRecord) -> dict[str, str]:
    """The accepted messages to people who were not forgotten."""
    return {address: uuid for address, uuid in seen.accepted.items() if address not in seen.forgotten}


def _broken_forgetting(seen: RoundRecord, facts: Facts) -> Broken:
    """People who were forgotten are gone and their messages have ended. Nobody else has lost the address."""
    there = {person.address for person in facts.people}.union(*facts.contacts.values())
    yield "forgotten people that are still there", sorted(seen.forgotten & there)
    theirs = {seen.accepted.get(address) for address in seen.forgotten}
    nameless = [person for person in facts.people if not person.address]
    yield (
        "messages without an address whose recipient was not forgotten",
        [person.uuid for person in nameless if person.uuid not in theirs],
    )
    yield (
        "messages to forgotten people that have not ended",
        [
            f"{person.uuid} is {person.state}"
            for person in nameless
            if person.state not in ("delivered", "sent", "bounced", "failed")
        ],
    )


def _with_step(seen: RoundRecord, *steps: str) -> set[Name]:
    return {(mail.to, mail.subject) for mail in (*seen.mails, *seen.texts) if mail.step in steps}


def _state(person: Person, taken: set[Name], refused: set[Name], confirmed: set[Name]) -> str:
    """The state that a recipient must have; an accepted message overrides an earlier refusal."""
    if person.mail in taken:
        return "delivered" if not is_text(person.address) or person.mail in confirmed else "sent"
    if person.mail in refused:
        return "failed" if is_text(person.address) else "bounced"
    return "unknown to relay and gateway"


# ------------------------------------------------------------------------------------------ second copies


def early(seen: RoundRecord) -> list[Mail]:
    """All copies of messages but the last one of each."""
    copies: dict[Name, list[Mail]] = defaultdict(list)
    for mail in (*seen.mails, *seen.texts):
        if mail.step == "taken":
            copies[mail.to, mail.subject].append(mail)
    return [mail for copies_of_mail in copies.values() for mail in copies_of_mail[:-1]]


def broken_doubles(seen: RoundRecord, course: Course, limits: Limits) -> Broken:
    """Each early copy had no answer, or was in flight when its connection was cut, or its sender killed or
    suspended."""
    beyond = beyond_flight(seen, course, limits)
    yield (
        "messages doubled that were not in flight",
        [mail.to for mail in beyond] if len(beyond) > limits.doubled else [],
    )
    in_flight = _in_flight_of(seen, course, limits) - _unanswered(seen, limits)
    counts_by_bind = Counter(mail.connection for mail in early(seen) if is_text(mail.to) and mail in in_flight)
    yield (
        "texts doubled on a bind, more than were in flight",
        [f"{count} on {bind}" for bind, count in counts_by_bind.items() if count > WINDOW],
    )


def beyond_flight(seen: RoundRecord, course: Course, limits: Limits) -> list[Mail]:
    """The early copies that nothing excuses."""
    excused = _unanswered(seen, limits) | _in_flight_of(seen, course, limits)
    return [mail for mail in early(seen) if mail not in excused]


def _unanswered(seen: RoundRecord, limits: Limits) -> set[Mail]:
    return {mail for mail in early(seen) if not mail.answered and limits.doubles_in_flight}


def _in_flight_of(seen: RoundRecord, course: Course, limits: Limits) -> set[Mail]:
    in_flight: set[Mail] = set()
    for messages, window in ((seen.mails, 1), (seen.texts, WINDOW)):
        if limits.doubles_in_flight:
            in_flight |= _in_flight_at_ends(messages, course, window)
        if limits.stops_senders:
            in_flight |= _in_flight_at_stops(messages, course, window)
    return in_flight


def _in_flight_at_ends(messages: Sequence[Mail], course: Course, window: int) -> set[Mail]:
    """What was in flight on connections that were cut, when they were, or whose sender was killed, when it was."""
    in_flight: set[Mail] = set()
    taken: dict[str, list[Mail]] = defaultdict(list)
    for mail in messages:
        if mail.step == "taken":
            taken[mail.connection].append(mail)
        elif mail.step in ("lost", "cut"):
            kills = [moment for moment in course.kills if moment <= mail.time]
            moments = [mail.time] if mail.step == "cut" else kills[-1:]
            in_flight.update(*(_in_flight(taken[mail.connection], moment, window) for moment in moments))
    return in_flight


def _in_flight_at_stops(messages: Sequence[Mail], course: Course, window: int) -> set[Mail]:
    """What was in flight on each connection when a sender was suspended."""
    taken: dict[str, list[Mail]] = defaultdict(list)
    for mail in messages:
        if mail.step == "taken" and mail.time <= course.ended:
            taken[mail.connection].append(mail)
    return {
        mail
        for mails_of_connection in taken.values()
        for moment in course.kills
        for mail in _in_flight(mails_of_connection, moment, window)
    }


def _in_flight(taken: Sequence[Mail], moment: float, window: int) -> Sequence[Mail]:
    """The last messages of a connection, if they were in flight at the moment. Of several that may be, one can be
    overtaken by others, so they are among the last ones."""
    last = taken[-(window if window == 1 else 2 * window) :]
    return [mail for mail in last if mail.began <= moment + BUSY and moment <= mail.time + BUSY]
