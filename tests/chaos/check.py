"""Compares the guarantees with what was recorded and what is left. Pure; it returns the violated ones, in words.

Nothing is lost. Only the message in flight on a killed connection may be sent twice. A repeated request gets no 409. A
refusal is a 503 with `Retry-After`; a request may be cut off only if a process of the API dies. A change that was
answered with an error is made completely or not at all. A webhook receives every event, once per `jti`, in order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.chaos import check_events, check_runs
from tests.chaos.facts import Facts, Person
from tests.chaos.record import SUBJECT, Course, Mail, Request, Seen

CLOSING = {"delivered": "sent", "bounced": "bounced", "failed": "failed"}
"""State -> the step that led there."""
SHOWN = 5
"""Examples that are shown of each violated guarantee."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The effects that a fault may have. Times are seconds after its end."""

    doubles_in_flight: bool = False
    """Connections of senders to the relay are killed: the message in flight on each may be sent twice."""
    stops_senders: bool = False
    """Senders do not run for longer than their lease: what was in flight on each connection may be sent twice."""
    cuts_requests: bool = False
    """Processes of the API die, and their connections with them."""
    answering: float = 14.0
    """The longest time that a client waits for any answer; the service waits ten seconds for a database."""
    accepting: float = 15.0
    """Until a request is accepted."""
    sending: float = 15.0
    """Until the relay takes a mail."""
    webhook: float = 10.0
    """The longest time without a delivery, while events wait."""


@dataclass(slots=True)
class Result:
    """A row of the table, and the guarantees that were violated."""

    accepted: int = 0
    refused: int = 0
    lost: int = 0
    doubled: int = 0
    wrong_conflicts: int = 0
    stall: float = 0.0
    recovery: float = 0.0
    broken: list[str] = field(default_factory=list)

    def complain(self, what: str, examples: Sequence[object]) -> None:
        """Records a violated guarantee with some examples, if there are any."""
        if examples:
            different = list(dict.fromkeys(map(str, examples)))
            some = ", ".join(different[:SHOWN])
            self.broken.append(f"{len(examples)} {what}: {some}{', …' if len(different) > SHOWN else ''}")


def check(seen: Seen, facts: Facts, course: Course, limits: Limits) -> Result:
    result = Result(accepted=len(seen.accepted))
    _check_messages(result, seen, facts)
    _check_doubles(result, seen.mails, course, limits)
    _check_requests(result, seen, limits)
    _check_undone(result, seen, facts)
    _check_groups(result, facts)
    for account in sorted({delivery.account for delivery in seen.deliveries} | facts.contacts.keys()):
        for what, examples in check_events.broken(account, seen, facts):
            result.complain(f"{what} ({account})", examples)
    for what, examples in check_runs.broken(seen, facts):
        result.complain(what, examples)
    result.complain("left behind", facts.left_behind)
    _check_times(result, seen, course, limits)
    return result


def _check_messages(result: Result, seen: Seen, facts: Facts) -> None:
    """Each accepted recipient got the mail or was refused by the relay, and its state says so."""
    taken = {(mail.to, mail.subject) for mail in seen.mails if mail.step == "taken"}
    refused = {(mail.to, mail.subject) for mail in seen.mails if mail.step == "refused"}
    people = {person.mail: person for person in facts.people}
    lost = [address for address in seen.accepted if (address, SUBJECT) not in taken | refused]
    result.lost = len(lost)
    result.complain("accepted messages lost", lost)
    unknown = [
        address
        for address, uuid in seen.accepted.items()
        if (address, SUBJECT) not in people or people[address, SUBJECT].uuid != uuid
    ]
    result.complain("accepted messages that the database does not have", unknown)
    result.complain("mails of requests that were undone", [to for to, _ in sorted((taken | refused) - people.keys())])
    result.complain("mails for another recipient", [mail.to for mail in seen.mails if not mail.whole])
    wrong = [one for one in facts.people if one.state != _state(one.mail, taken, refused)]
    result.complain("recipients in a wrong state", [f"{one.address} is {one.state}" for one in wrong])


def _state(mail: tuple[str, str], taken: set[tuple[str, str]], refused: set[tuple[str, str]]) -> str:
    """The state that a recipient must have; an accepted mail overrides an earlier refusal."""
    return "delivered" if mail in taken else "bounced" if mail in refused else "unknown to the relay"


def _check_doubles(result: Result, mails: Sequence[Mail], course: Course, limits: Limits) -> None:
    """Of all copies but the last each must have been in flight on a connection that was killed, or whose sender was
    stopped."""
    copies: dict[tuple[str, str], list[Mail]] = defaultdict(list)
    for mail in mails:
        if mail.step == "taken":
            copies[mail.to, mail.subject].append(mail)
    early = [mail for found in copies.values() for mail in found[:-1]]
    result.doubled = len(early)
    excused = _in_flight(mails, course, limits)
    result.complain("messages doubled that were not in flight", [one.to for one in early if one not in excused])


def _in_flight(mails: Sequence[Mail], course: Course, limits: Limits) -> set[Mail]:
    """The last mail of each connection that was killed, or the last one before its sender was resumed."""
    last: dict[str, Mail] = {}
    found: set[Mail] = set()
    for mail in mails:
        if mail.step == "taken" and not (limits.stops_senders and mail.time > course.ended):
            last[mail.connection] = mail
        elif mail.step == "lost" and limits.doubles_in_flight and mail.connection in last:
            found.add(last[mail.connection])
    return found | set(last.values()) if limits.stops_senders else found


def _check_requests(result: Result, seen: Seen, limits: Limits) -> None:
    failed = [request for request in seen.requests if request.status is None or request.status >= 300]
    result.refused = len(failed)
    conflicts = [request for request in failed if request.status == 409]
    result.wrong_conflicts = len(conflicts)
    result.complain("wrong 409s", [f"{one.kind}: {one.trouble}" for one in conflicts])
    late = [one for one in seen.requests if one.status is not None and one.ended - one.began > limits.answering]
    result.complain("answers that came late", [f"{one.kind}: after {one.ended - one.began:.1f} s" for one in late])
    lost_answers = {request.key for request in failed if request.status in (None, 503)}
    for what, found in _wrong_refusals(failed, lost_answers, limits):
        result.complain(what, found)
    result.complain("requests repeated in vain", seen.never_answered)


def _wrong_refusals(
    failed: Sequence[Request], lost_answers: set[str | None], limits: Limits
) -> Iterator[tuple[str, list[str]]]:
    yield "requests without an answer in time", [f"{one.kind}: {one.trouble}" for one in failed if one.silent]
    if not limits.cuts_requests:
        cut = [one for one in failed if one.status is None and not one.silent]
        yield "requests cut off", [f"{one.kind}: {one.trouble}" for one in cut]
    hasty = [one for one in failed if one.status == 503 and not (one.retry_after or "").isdecimal()]
    yield "503s without Retry-After", [f"{one.kind}: {one.retry_after}" for one in hasty]
    other = [
        one
        for one in failed
        if one.status not in (None, 409, 503)
        # The response to an earlier attempt was lost, though its work was done.
        and not (one.kind == "deleted" and one.status == 404 and one.key in lost_answers)
    ]
    yield "other refusals", [f"{one.kind}: {one.status} {one.trouble}" for one in other]


def _check_undone(result: Result, seen: Seen, facts: Facts) -> None:
    """What a request writes is there completely or not at all, and never twice."""
    people = Counter(person.address for person in facts.people if person.subject == SUBJECT)
    result.complain("recipients written twice", [address for address, count in people.items() if count > 1])
    halves, gone = [], []
    for one in seen.tried_once:
        contacts = facts.contacts.get(one.account, {})
        counts = [people[mark] if one.kind == "send" else contacts.get(mark, 0) for mark in one.marks]
        with_contact = [contacts.get(mark, 0) for mark in one.marks]
        if sorted({*counts, *with_contact}) not in ([0], [1]):
            halves.append(f"{one.kind} {one.marks[0]} answered {one.status}: {sum(counts)} of {len(counts)}")
        elif one.status is not None and one.status < 300 and 0 in counts:
            gone.append(f"{one.kind} {one.marks[0]}")
    result.complain("requests half done", halves)
    result.complain("answered requests whose work is gone", gone)


def _check_groups(result: Result, facts: Facts) -> None:
    """The counters of a group and its hours, its recipients' states and their timelines agree."""
    members: dict[int, list[Person]] = defaultdict(list)
    for person in facts.people:
        members[person.group].append(person)
    wrong, wrong_hours = [], []
    for group, counters in facts.groups.items():
        states = Counter(person.state for person in members[group])
        steps = Counter(step for person in members[group] for step in person.steps)
        expected = {
            "sent": len(members[group]),
            "delivered": states["delivered"],
            "bounced": states["bounced"],
            "failed_contacts": states["failed"],
        }
        counted = {
            **expected,
            "delivered": steps["sent"],
            "bounced": steps["bounced"],
            "failed_contacts": steps["failed"],
        }
        if not dict(counters) == expected == counted:
            wrong.append(f"group {group} counts {dict(counters)}, has {expected}, timelines count {counted}")
        if facts.hours.get(group) != expected:
            wrong_hours.append(f"the hours of group {group} count {facts.hours.get(group)}, it has {expected}")
    result.complain("groups that miscount", wrong)
    result.complain("hours that miscount", wrong_hours)
    closings = set(CLOSING.values())
    result.complain(
        "timelines without exactly one end",
        [one.address for one in facts.people if sum(step in closings for step in one.steps) != 1],
    )


def _check_times(result: Result, seen: Seen, course: Course, limits: Limits) -> None:
    accepted = [one.ended for one in seen.requests if one.status is not None and one.status < 300]
    taken = [mail.time for mail in seen.mails if mail.step == "taken"]
    accepting, sending = _seconds_until(accepted, course.ended), _seconds_until(taken, course.ended)
    stall = check_events.longest_stall(seen.deliveries, course)
    result.recovery, result.stall = max(accepting, sending), stall
    for what, seconds, most in (
        ("accepting requests again", accepting, limits.accepting),
        ("sending again", sending, limits.sending),
        ("the longest stall of a webhook", stall, limits.webhook),
    ):
        if seconds > most:
            result.broken.append(f"{what} took {seconds:.1f} s, more than {most:g} s")


def _seconds_until(times: Sequence[float], moment: float) -> float:
    """The time from the moment to the first of the times after it."""
    return min((one - moment for one in times if one >= moment), default=float("inf"))
