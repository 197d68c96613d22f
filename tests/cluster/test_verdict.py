"""What must be reached on many hosts is judged by what was seen: each miss is found, and nothing else (no service)."""

from __future__ import annotations

import pytest

from app.http.errors import OUTCOME_UNKNOWN
from tests.chaos.check import Result
from tests.chaos.record import Mail, Request, RoundRecord
from tests.cluster import verdict
from tests.cluster.faults import FAULTS
from tests.cluster.verdict import Judge, Span

SPAN = Span(struck=100.0, healed=120.0)
ANN = "ann@people.example"


def request(began: float, ended: float, status: int | None, key: str = "k", trouble: str = "") -> Request:
    return Request("acme", "send", began, ended, status, "1", trouble, key=key)


BEFORE, AFTER = request(98.0, 98.5, 202, "before"), request(121.0, 121.5, 202, "after")
UNKNOWN = request(99.9, 101.0, 503, "in flight", OUTCOME_UNKNOWN)
UNKNOWN_CUT_SHORT = request(99.9, 101.0, 503, "in flight", OUTCOME_UNKNOWN[:50])
REFUSED = request(101.0, 102.0, 503, "later")
REPEATED = request(103.0, 103.1, 503, "in flight")
CUT_OFF = request(99.9, 104.0, None, "in flight")
BAD_GATEWAY = request(105.0, 106.0, 502, "later")
SLOW = request(101.0, 110.0, 202)
MEANWHILE = request(101.0, 102.0, 202)
HELD_UP = request(99.9, 107.0, 202)


@pytest.mark.parametrize(
    ("judge", "sound", "miss"),
    [
        (verdict.refuses_at_most(5), [REFUSED, request(106.0, 107.0, 503)], request(106.0, 107.1, 503)),
        (verdict.answers_within(8), [REFUSED, BAD_GATEWAY], SLOW),
        (verdict.refuses_commits_alone, [UNKNOWN, UNKNOWN_CUT_SHORT], REFUSED),
        (verdict.refuses_commits_alone, [UNKNOWN], request(99.9, 101.0, 503)),
        (verdict.fails_in_flight_alone, [CUT_OFF, REPEATED], BAD_GATEWAY),
        (verdict.fails_in_flight_alone, [CUT_OFF, REPEATED], REFUSED),
        (verdict.fails_never, [MEANWHILE], CUT_OFF),
        (verdict.accepts_nothing, [REFUSED, request(99.9, 102.0, 202), request(119.0, 120.5, 202)], HELD_UP),
    ],
)
def test_each_judge_finds_its_miss_and_passes_what_is_sound(judge: Judge, sound: list[Request], miss: Request) -> None:
    assert judge(RoundRecord([BEFORE, *sound, AFTER]), SPAN) == []
    assert len(judge(RoundRecord([BEFORE, *sound, miss, AFTER]), SPAN)) == 1


def test_each_judge_of_a_fault_has_a_name_of_its_own() -> None:
    """Results are kept by these names: one of two with the same name would not count."""
    for fault in FAULTS.values():
        names = [judge.__name__ for judge in fault.judges]
        assert len(names) == len(set(names)), fault.name


@pytest.mark.parametrize(("seconds", "missed"), [(0.5, 0), (1.5, 1)])
def test_a_late_hand_over_is_found_once_the_fault_is_no_longer_felt(seconds: float, missed: int) -> None:
    early = {f"early-{number}": 101.0 for number in range(50)}
    mails = [Mail(140.0, "c", "taken", to, began=130.0) for to in early]
    mails += [Mail(140.0, "c", "taken", ANN, began=111.0 + seconds)]
    seen = RoundRecord(answered={**early, ANN: 111.0}, mails=mails)
    assert len(verdict.sends_promptly(seen, SPAN)) == missed


def test_the_figures_are_those_of_the_requests_and_mails_around_the_fault() -> None:
    mails = [Mail(moment, "c", "taken", ANN) for moment in (50.0, 99.0, 107.5, 119.0, 200.0)]
    seen = RoundRecord([BEFORE, REFUSED, REPEATED, SLOW, AFTER], accepted={ANN: "uuid"}, mails=mails)
    row = verdict.figures(seen, Result(lost=1, doubled=3, beyond=2), SPAN)
    assert row.cells() == ("1", "2", "1.1", "9.0", "11.5", "81.0", "1", "3", "2")
