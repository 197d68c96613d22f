"""What clients, relay and gateway have seen of a fault, compared with what must be reached. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from app.http.errors import OUTCOME_UNKNOWN
from tests.chaos.check import Result
from tests.chaos.record import Request, RoundRecord

UNAVAILABLE = 503
SETTLED = 10.0
"""Seconds after the loss of a Redis after which it is no longer felt."""
COMMON = 0.95
ON_ITS_WAY = 3.0
"""Seconds that an answer takes at most, on a busy machine, when its commit is done."""
MARGIN = 0.2
"""Seconds between a moment that is noted and the effect on a request that has begun meanwhile."""


@dataclass(frozen=True, slots=True)
class Span:
    """The seconds of the system clock between which a fault lasts."""

    struck: float
    healed: float


@dataclass(frozen=True, slots=True)
class Figures:
    """A row of the table."""

    accepted: int
    refusals: int
    refusing: float
    """Seconds from the first 503 to the last one."""
    longest: float
    """Seconds of the longest answer."""
    pause: float
    """The longest time without an accepted request, in seconds."""
    silence: float
    """The longest time without a mail, in seconds."""
    lost: int
    doubled: int
    beyond: int
    """How many of the doubled messages were not in flight."""

    def cells(self) -> tuple[str, ...]:
        """The figures in the order of `HEAD`."""
        times = (self.refusing, self.longest, self.pause, self.silence)
        counts = (self.lost, self.doubled, self.beyond)
        return (*map(str, (self.accepted, self.refusals)), *(f"{time:.1f}" for time in times), *map(str, counts))


HEAD = (
    *("fault", "accepted", "503", "of 503, s", "longest answer, s", "without 2xx, s", "without mail, s"),
    *("lost", "doubled", "not in flight", "must reach", "result"),
)


def figures(seen: RoundRecord, result: Result, span: Span) -> Figures:
    refused = [request.ended for request in seen.requests if request.status == UNAVAILABLE]
    return Figures(
        accepted=len(seen.accepted),
        refusals=len(refused),
        refusing=max(refused) - min(refused) if refused else 0.0,
        longest=max((request.ended - request.began for request in seen.requests), default=0.0),
        pause=_longest_pause((request.ended for request in seen.requests if _is_accepted(request)), span),
        silence=_longest_pause((mail.time for mail in seen.mails if mail.step == "taken"), span),
        lost=result.lost,
        doubled=result.doubled,
        beyond=result.beyond,
    )


def _is_accepted(request: Request) -> bool:
    return request.status is not None and request.status < 300


def _longest_pause(moments: Iterator[float], span: Span) -> float:
    """The longest time between two of the moments that begins while the fault lasts."""
    pairs = itertools.pairwise(sorted(moments))
    return max((after - before for before, after in pairs if after > span.struck and before < span.healed), default=0)


# ------------------------------------------------------------------------------------------ what must be reached

Judge = Callable[[RoundRecord, Span], list[str]]
"""Returns what was missed, in words."""


def refuses_at_most(seconds: float) -> Judge:
    """Requests are refused for at most so many seconds."""

    def judge(seen: RoundRecord, span: Span) -> list[str]:
        refusing = figures(seen, Result(), span).refusing
        return [f"{refusing:.1f} s of 503, more than {seconds:g}"] if refusing > seconds else []

    judge.__name__ = refuses_at_most.__name__
    return judge


def answers_within(seconds: float) -> Judge:
    """No answer takes longer."""

    def judge(seen: RoundRecord, _span: Span) -> list[str]:
        late = [request for request in seen.requests if request.ended - request.began > seconds]
        return _told(f"answers took longer than {seconds:g} s", late)

    judge.__name__ = answers_within.__name__
    return judge


def refuses_commits_alone(seen: RoundRecord, _span: Span) -> list[str]:
    """Only a request that was lost in its commit is refused."""
    refused = [request for request in seen.requests if request.status == UNAVAILABLE]
    return _told("503 of requests that were not in their commit", [each for each in refused if not _is_unknown(each)])


def _is_unknown(request: Request) -> bool:
    return request.trouble.startswith(OUTCOME_UNKNOWN[: len(request.trouble)]) and bool(request.trouble)


def fails_in_flight_alone(seen: RoundRecord, span: Span) -> list[str]:
    """Only a request fails that was in flight when the fault began, and its repetitions while nobody knows what became
    of it."""
    failed = [request for request in seen.requests if request.status is None or request.status >= 500]
    keys = {request.key for request in failed if request.began < span.struck + MARGIN} - {None}
    later = [request for request in failed if request.began >= span.struck + MARGIN and request.key not in keys]
    return _told("requests failed that were not in flight", later)


def fails_never(seen: RoundRecord, _span: Span) -> list[str]:
    """No request fails."""
    failed = [request for request in seen.requests if request.status is None or request.status >= 500]
    return _told("requests failed", failed)


def accepts_nothing(seen: RoundRecord, span: Span) -> list[str]:
    """No request is accepted while the fault lasts, but for those that had been replicated before it."""
    moments = (span.struck + ON_ITS_WAY, span.healed)
    within = [each for each in seen.requests if moments[0] < each.ended < moments[1] and _is_accepted(each)]
    return _told("requests were accepted that no standby had", within)


def sends_promptly(seen: RoundRecord, span: Span) -> list[str]:
    """Some time after the beginning of the fault, a message is handed over within a second of its 202."""
    taken = {mail.to: mail.began for mail in reversed(seen.mails) if mail.step == "taken"}
    later = [to for to, moment in seen.answered.items() if moment > span.struck + SETTLED and to in taken]
    waits = sorted(taken[to] - seen.answered[to] for to in later)
    if not waits:
        return ["no mail was accepted after that"]
    typical = waits[math.ceil(COMMON * len(waits)) - 1]
    return [f"from 202 to DATA {typical:.1f} s at p95, more than 1"] if typical > 1 else []


def _told(what: str, requests: Sequence[Request]) -> list[str]:
    """The requests as one complaint, with some examples."""
    examples = [f"{each.kind} {each.status} after {each.ended - each.began:.1f} s: {each.trouble}" for each in requests]
    return [f"{len(requests)} {what}: {'; '.join(dict.fromkeys(examples[:3]))}"] if requests else []
