"""Compares the guarantees with what was recorded and what is left. Pure; it returns the violated ones, in words.

Nothing is lost. Only what was in flight on a killed connection may be sent twice. A repeated request gets no 409. A
refusal is a 503 with `Retry-After`; a request may be cut off only if a process of the API dies. A change that was
answered with an error is made completely or not at all. A webhook receives every event, once per `jti`, in order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.chaos import check_events, check_messages, check_runs
from tests.chaos.facts import Facts, Person
from tests.chaos.limits import Limits
from tests.chaos.promises import CHECKS
from tests.chaos.record import SUBJECT, Course, Request, RoundRecord, is_text

CLOSING = {"sent", "bounced", "failed"}
"""The steps of which a timeline has exactly one."""
TIME = " took "
"""Part of each complaint that only a time was exceeded, and of no other one."""
CUT_BEHIND = (502, 504)
"""What a balancer answers when the connection behind it is cut."""
MAX_EXAMPLES = 5
"""Examples that are shown of each violated guarantee."""


@dataclass(slots=True)
class Result:
    """A row of the table, and the guarantees that were violated."""

    mails: int = 0
    """Accepted recipients of emails."""
    texts: int = 0
    refused: int = 0
    lost: int = 0
    doubled: int = 0
    beyond: int = 0
    """How many of the doubled messages were not in flight."""
    wrong_conflicts: int = 0
    stall: float = 0.0
    recovery: float = 0.0
    broken: list[str] = field(default_factory=list)
    """What was found, in words."""
    violated: set[str] = field(default_factory=set)
    """The names of the checks that found it (promises.py)."""

    def complain(self, check: str, examples: Sequence[object], of: str = "") -> None:
        """Records what a check has found, with some examples, if there are any; `of` is the account."""
        assert check in CHECKS, check
        if examples:
            different = list(dict.fromkeys(map(str, examples)))
            some = ", ".join(different[:MAX_EXAMPLES])
            where = f" ({of})" if of else ""
            self.violated.add(check)
            self.broken.append(
                f"{len(examples)} {check}{where}: {some}{', …' if len(different) > MAX_EXAMPLES else ''}"
            )

    def note(self, check: str, words: str) -> None:
        """Records what a check has found, in its own words."""
        assert check in CHECKS, check
        self.violated.add(check)
        self.broken.append(words)


def check(seen: RoundRecord, facts: Facts, course: Course, limits: Limits) -> Result:
    texts = sum(map(is_text, seen.accepted))
    result = Result(mails=len(seen.accepted) - texts, texts=texts)
    result.lost = len(check_messages.lost(seen))
    result.doubled = len(check_messages.early(seen))
    result.beyond = len(check_messages.beyond_flight(seen, course, limits))
    for what, examples in (
        *check_messages.broken(seen, facts),
        *check_messages.broken_doubles(seen, course, limits),
    ):
        result.complain(what, examples)
    _check_requests(result, seen, limits)
    _check_undone(result, seen, facts)
    for what, examples in broken_groups(facts):
        result.complain(what, examples)
    result.complain("groups that the API counts otherwise", _shown_otherwise(facts))
    result.complain("contacts without the values of their last change", _without_values(seen, facts))
    result.complain(
        "timelines without exactly one end",
        [person.address for person in facts.people if sum(step in CLOSING for step in person.steps) != 1],
    )
    for account in sorted({delivery.account for delivery in seen.deliveries} | facts.contacts.keys()):
        for what, examples in check_events.broken(account, seen, facts):
            result.complain(what, examples, account)
    for what, examples in check_runs.broken(seen, facts):
        result.complain(what, examples)
    result.complain("left behind", facts.left_behind)
    _check_times(result, seen, course, limits)
    return result


def _check_requests(result: Result, seen: RoundRecord, limits: Limits) -> None:
    failed = [request for request in seen.requests if request.status is None or request.status >= 300]
    result.refused = len(failed)
    conflicts = [request for request in failed if request.status == 409]
    result.wrong_conflicts = len(conflicts)
    if not limits.loses_hosts:
        result.complain("wrong 409s", [f"{conflict.kind}: {conflict.trouble}" for conflict in conflicts])
    late = [
        request
        for request in seen.requests
        if request.status is not None and request.ended - request.began > limits.answering
    ]
    result.complain(
        "answers that took too long",
        [f"{request.kind}: after {request.ended - request.began:.1f} s" for request in late],
    )
    lost_answers = {request.key for request in failed if request.status in (None, 503)}
    for what, examples in _wrong_refusals(failed, lost_answers, limits):
        result.complain(what, examples)
    result.complain("requests repeated in vain", seen.never_answered)


def _wrong_refusals(
    failed: Sequence[Request], lost_answers: set[str | None], limits: Limits
) -> Iterator[tuple[str, list[str]]]:
    yield (
        "requests without an answer in time",
        [f"{request.kind}: {request.trouble}" for request in failed if request.silent],
    )
    if not limits.cuts_requests:
        cut = [request for request in failed if request.status is None and not request.silent]
        yield "requests cut off", [f"{request.kind}: {request.trouble}" for request in cut]
    hasty = [request for request in failed if request.status == 503 and not (request.retry_after or "").isdecimal()]
    yield "503s without Retry-After", [f"{request.kind}: {request.retry_after}" for request in hasty]
    other = [
        request
        for request in failed
        if request.status not in (None, 409, 503, *(CUT_BEHIND if limits.cuts_requests else ()))
        # The response to an earlier attempt was lost, though its work was done.
        and not (request.kind == "deleted" and request.status == 404 and request.key in lost_answers)
    ]
    yield "other refusals", [f"{request.kind}: {request.status} {request.trouble}" for request in other]


def _check_undone(result: Result, seen: RoundRecord, facts: Facts) -> None:
    """What a request writes is there completely or not at all, and never twice."""
    people = Counter(person.address for person in facts.people if person.subject == SUBJECT and person.address)
    result.complain("recipients written twice", [address for address, count in people.items() if count > 1])
    halves, gone = [], []
    for request in seen.tried_once:
        contacts = facts.contacts.get(request.account, {})
        counts = [people[mark] if request.kind == "send" else contacts.get(mark, 0) for mark in request.marks]
        with_contact = [contacts.get(mark, 0) for mark in request.marks]
        if sorted({*counts, *with_contact}) not in ([0], [1]):
            halves.append(
                f"{request.kind} {request.marks[0]} answered {request.status}: {sum(counts)} of {len(counts)}"
            )
        elif request.status is not None and request.status < 300 and 0 in counts:
            gone.append(f"{request.kind} {request.marks[0]}")
    result.complain("requests half done", halves)
    result.complain("answered requests whose work is gone", gone)


def broken_groups(facts: Facts) -> Iterator[tuple[str, list[str]]]:
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
            "delivered": states["delivered"] + states["sent"],
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
    yield "groups that miscount", wrong
    yield "hours that miscount", wrong_hours


def _shown_otherwise(facts: Facts) -> list[str]:
    return [
        f"group {group} shows {dict(counters)}, has {dict(facts.groups.get(group, {}))}"
        for group, counters in facts.counters_in_api.items()
        if dict(counters) != dict(facts.groups.get(group, {}))
    ]


def _without_values(seen: RoundRecord, facts: Facts) -> list[str]:
    """Contacts that are still there, but without the value that was written last."""
    return [
        f"{address} is {facts.values[account, address]}, not {name}"
        for (account, address), name in seen.values.items()
        if (account, address) in facts.values and facts.values[account, address] != name
    ]


def _check_times(result: Result, seen: RoundRecord, course: Course, limits: Limits) -> None:
    accepted = [request.ended for request in seen.requests if request.status is not None and request.status < 300]
    mails, texts = (
        [mail.time for mail in sent_messages if mail.step == "taken"] for sent_messages in (seen.mails, seen.texts)
    )
    accepting, mailing, texting = (_seconds_until(times, course.ended) for times in (accepted, mails, texts))
    stall = check_events.longest_stall(seen.deliveries, course)
    result.recovery, result.stall = max(accepting, mailing, texting), stall
    for what, seconds, most in (
        ("accepting requests again", accepting, limits.accepting),
        ("sending again", mailing, limits.sending),
        ("sending texts again", texting, limits.sending),
        ("the longest stall of a webhook", stall, limits.webhook),
    ):
        if seconds > most:
            result.note(what, f"{what}{TIME}{seconds:.1f} s, more than {most:g} s")


def _seconds_until(times: Sequence[float], moment: float) -> float:
    """The time from the moment to the first of the times after it."""
    return min((moment_taken - moment for moment_taken in times if moment_taken >= moment), default=float("inf"))
