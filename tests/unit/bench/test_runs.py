"""Runs of the benchmark in files, and several of them in one table (docs/benchmark.md#several-runs)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.runs import Run, main
from bench.turns import Goal, Ratio, Row

GOAL = Goal(floor_ratio=0.8)


def reading(rate: float, ratio: float) -> Row:
    return Row("A. read", "requests/s", rate, 2000, floor_ratio=Ratio(ratio, ratio - 0.1, ratio + 0.1), goal=GOAL)


def write(path: Path, *rows: Row, database: str = "PostgreSQL", short: bool = False, time: str = "2026-11-22") -> str:
    Run(time, database, short, rows).write(path)
    return str(path)


def table(capsys: pytest.CaptureFixture[str], files: Sequence[str]) -> list[list[str]]:
    assert main(list(files)) == 0
    printed = capsys.readouterr().out.splitlines()
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed if line.startswith("| ")]


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    rows = [reading(1700, 0.8), Row("H. leave", "ms", 84.5, detail="p50 60", goal=Goal(most=2000))]
    run = Run("2026-11-22 12:00", "PostgreSQL", False, rows)
    run.write(tmp_path / "run.json")
    assert Run.read(tmp_path / "run.json") == run


def test_the_table_of_several_runs_has_their_medians_and_their_spread(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    days = {"one": (1700, 0.81), "two": (1500, 0.75), "three": (1800, 0.84)}
    files = [write(tmp_path / name, reading(*measured)) for name, measured in days.items()]
    (row,) = table(capsys, files)[1:]
    assert row == [
        *("A. read", "requests/s", "1,700 (1,500-1,800)", "2,000", ""),
        *("0.81 (0.75-0.84)", "", "0.80 floor", "yes"),
    ]


def test_a_case_of_one_run_keeps_the_spread_over_its_rounds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    memory = Row("J. memory", "MiB", 84, 83, floor_ratio=Ratio.over([1.01]), goal=Goal(max_floor_ratio=1.1))
    files = [write(tmp_path / "one", reading(1700, 0.7), memory), write(tmp_path / "two", memory)]
    read, kept = table(capsys, files)[1:]
    assert read[2:] == ["1,700", "2,000", "", "0.70 (0.60-0.80)", "", "0.80 floor", "no"]
    assert kept[2:] == ["84.0 (84.0-84.0)", "83.0", "", "1.01", "", "at most 1.1x floor", "yes"]


def test_the_goal_is_that_of_the_last_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = Row("G. latency", "ms", 3.4, 1.3, floor_ratio=Ratio.over([2.6]), goal=Goal(max_floor_ratio=3))
    after = Row("G. latency", "ms", 3.0, 1.3, floor_ratio=Ratio.over([2.3]), goal=Goal(max_floor_ratio=2))
    files = [write(tmp_path / "one", before), write(tmp_path / "two", after)]
    assert table(capsys, files)[1][-2:] == ["at most 2x floor", "no"]


def test_runs_that_say_nothing_of_each_other_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = reading(1700, 0.8)
    postgresql = write(tmp_path / "postgresql", row)
    sqlite = write(tmp_path / "sqlite", row, database="SQLite")
    short = write(tmp_path / "short", row, short=True)
    assert main([postgresql, sqlite]) == 1
    assert capsys.readouterr().err == "the runs are of different databases\n"
    assert main([postgresql, short]) == 1
    assert capsys.readouterr().err == "the figures of a short run mean nothing\n"


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"time": "", "database": "", "short": false, "rows": [{}]}'])
def test_a_file_that_is_no_run_is_refused(content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.json"
    file.write_text(content)
    assert main([str(file)]) == 1
    assert capsys.readouterr().err == f"{file}: this is not a run of the benchmark\n"


def test_a_missing_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err == f"{tmp_path / 'none'}: No such file or directory\n"


@pytest.mark.parametrize(("rate", "ratio", "is_reached"), [(900, 0.8, True), (900, 0.7, False), (1000, 0.7, True)])
def test_a_rate_may_be_enough_whatever_that_of_the_floor_is(rate: float, ratio: float, is_reached: bool) -> None:
    goal = Goal(floor_ratio=0.8, enough=1000)
    assert Row("P", "steps/s", rate, 2000, floor_ratio=Ratio(ratio, ratio, ratio), goal=goal).is_reached is is_reached
    assert str(goal) == "0.80 floor or 1,000"
