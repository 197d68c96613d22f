"""How much the counts of this host have grown lately (docs/health.md#status)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from app.clock import now
from app.infrastructure.recent_counts import MAX_SAMPLES, SAMPLES_FILE, RecentCounts
from app.infrastructure.shared_counts import Counts, Key
from tests.support.cases import each

POOL: Key = ("tms_database_errors_total", (("reason", "pool"),))


def errors(number: float) -> list[Counts]:
    return [{POOL: number}]


def written(folder: Path, samples: list[tuple[float, float]]) -> RecentCounts:
    """Samples, each of so many seconds ago with so many errors."""
    content = [
        {"time": now().timestamp() - ago, "counts": [[POOL[0], [["reason", "pool"]], number]]}
        for ago, number in samples
    ]
    (folder / SAMPLES_FILE).write_text(json.dumps({"samples": content}), "utf-8")
    return RecentCounts(folder)


@each(
    ("seconds", "growth"),
    [(60, 1.0), (300, 5.0), (600, 9.0), (86_400, 9.0)],
)
def test_a_count_has_grown_since_the_latest_sample_that_is_old_enough_or_the_oldest(
    tmp_path: Path, seconds: int, growth: float
) -> None:
    counts = written(tmp_path, [(700, 1), (310, 5), (61, 9), (5, 10)])
    assert counts.growths(errors(10), [seconds]) == {seconds: {POOL: growth}}


def test_a_window_that_began_while_the_service_was_stopped_is_counted_from_its_start_on(tmp_path: Path) -> None:
    counts = written(tmp_path, [(10_000, 1), (40, 7)])
    assert counts.growths(errors(10), [300]) == {300: {POOL: 3.0}}


def test_after_a_pause_nothing_has_grown_before_the_first_sample(tmp_path: Path) -> None:
    assert written(tmp_path, [(10_000, 1)]).growths(errors(10), [300]) == {}


def test_a_count_that_was_begun_anew_has_grown_by_all_of_it(tmp_path: Path) -> None:
    assert written(tmp_path, [(100, 50)]).growths(errors(3), [60]) == {60: {POOL: 3.0}}


def test_requests_that_only_look_at_the_service_are_left_out(tmp_path: Path) -> None:
    name, seconds = "tms_http_requests_total", "tms_http_request_seconds_bucket"
    counts_by_route: list[Counts] = [
        {(name, (("route", route), ("status", "200"))): 5.0, (seconds, (("le", "1"), ("route", route))): 5.0}
        for route in ("/v1/transactional-sends", "/healthz", "/readyz", "/metrics")
    ]
    RecentCounts(tmp_path).write([dict.fromkeys(counts, 0.0) for counts in counts_by_route])
    grown = {(name, (("status", "200"),)): 5.0, (seconds, (("le", "1"),)): 5.0}
    assert RecentCounts(tmp_path).growths(counts_by_route, [60]) == {60: grown}


def test_without_a_sample_nothing_has_grown(tmp_path: Path) -> None:
    assert RecentCounts(tmp_path).growths(errors(3), [60]) == {}


@each("content", ["", "[]", "{", '{"samples": 5}', '{"samples": [5]}', '{"samples": [{"time": "x"}]}'])
def test_a_file_that_this_code_has_not_written_is_no_sample(tmp_path: Path, content: str) -> None:
    (tmp_path / SAMPLES_FILE).write_text(content, "utf-8")
    assert RecentCounts(tmp_path).growths(errors(3), [60]) == {}


def test_a_sample_is_due_once_a_minute(tmp_path: Path) -> None:
    counts = RecentCounts(tmp_path)
    assert counts.is_due()
    counts.write(errors(3))
    assert not counts.is_due()
    counts.write(errors(9))
    assert counts.growths(errors(10), [0]) == {0: {POOL: 7.0}}, "a sample that is not due is not written"
    os.utime(tmp_path / SAMPLES_FILE, (now().timestamp() - 61,) * 2)
    assert counts.is_due()


def test_the_samples_of_an_hour_are_kept(tmp_path: Path) -> None:
    counts = written(tmp_path, [(ago, 1.0) for ago in range(10_000, 0, -60)])
    os.utime(tmp_path / SAMPLES_FILE, (now().timestamp() - 61,) * 2)
    counts.write(errors(2))
    samples = json.loads((tmp_path / SAMPLES_FILE).read_text("utf-8"))["samples"]
    assert len(samples) == MAX_SAMPLES
    assert samples[-1]["counts"] == [[POOL[0], [["reason", "pool"]], 2.0]]


def test_a_sample_has_the_sums_over_the_labels_that_no_alert_needs(tmp_path: Path) -> None:
    counts = RecentCounts(tmp_path)
    counts.write([])
    routes: list[Counts] = [
        {("tms_http_requests_total", (("method", "GET"), ("route", route), ("status", "200"))): 2.0, ("other", ()): 9.0}
        for route in ("/a", "/b")
    ]
    assert counts.growths(routes, [0]) == {0: {("tms_http_requests_total", (("status", "200"),)): 4.0}}


def test_a_folder_that_cannot_be_written_is_an_error_of_the_disk(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="recent"):
        RecentCounts(tmp_path / "missing").write(errors(1))
