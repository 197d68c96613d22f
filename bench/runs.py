"""Runs of the suite as JSON files (`make bench ARGS="--json FILE"`), and one table of several:
`python -m bench.runs FILE...`.

A ratio that depends on the day is known only from several runs. The table has the median over the runs and the least
and most of them; of a case that only one run has measured, the spread is that over its rounds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from bench.table import figure, lines
from bench.turns import Goal, Ratio, Row


class UnusableRuns(Exception):
    """The files do not hold runs that one table can show."""


@dataclass(frozen=True, slots=True)
class Run:
    """The rows that a run has measured. `time` is when it began, in UTC; those of a short run mean nothing."""

    time: str
    database: str
    short: bool
    rows: Sequence[Row]

    def write(self, path: Path) -> None:
        path.write_bytes(orjson.dumps(self, option=orjson.OPT_INDENT_2))

    @classmethod
    def read(cls, path: Path) -> Run:
        """Raises `UnusableRuns`."""
        try:
            run = orjson.loads(path.read_bytes())
            return cls(**{**run, "rows": [_row(row) for row in run["rows"]]})
        except OSError as error:
            raise UnusableRuns(f"{path}: {error.strerror}") from None
        except (ValueError, TypeError, KeyError):
            raise UnusableRuns(f"{path}: this is not a run of the benchmark") from None


def _row(row: dict[str, Any]) -> Row:
    ratios = {name: Ratio(**row[name]) if row[name] else None for name in ("floor_ratio", "peer_ratio")}
    return Row(**{**row, **ratios, "goal": Goal(**row["goal"])})


def together(runs: Sequence[Run]) -> list[Row]:
    """A row for each case, in the order of the runs. Raises `UnusableRuns`."""
    if any(run.short for run in runs):
        raise UnusableRuns("the figures of a short run mean nothing")
    if len({run.database for run in runs}) > 1:
        raise UnusableRuns("the runs are of different databases")
    rows: dict[str, list[Row]] = {}
    for run in runs:
        for row in run.rows:
            rows.setdefault(row.case, []).append(row)
    return [_over_runs(same) for same in rows.values()]


def _over_runs(rows: Sequence[Row]) -> Row:
    """One row of several runs, with the goal of the last."""
    if len(rows) == 1:
        return rows[0]
    middle = sorted(rows, key=lambda row: row.ours)[len(rows) // 2]
    spread = f"{figure(min(row.ours for row in rows))}-{figure(max(row.ours for row in rows))}"
    return replace(
        rows[-1],
        ours=statistics.median(row.ours for row in rows),
        floor=_median([row.floor for row in rows]),
        peer=_median([row.peer for row in rows]),
        floor_ratio=_spread([row.floor_ratio for row in rows]),
        peer_ratio=_spread([row.peer_ratio for row in rows]),
        detail="; ".join(filter(None, (spread, middle.detail))),
    )


def _median(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return statistics.median(numbers) if numbers else None


def _spread(ratios: Sequence[Ratio | None]) -> Ratio | None:
    medians = [ratio.median for ratio in ratios if ratio is not None]
    return Ratio.over(medians) if medians else None


def main(arguments: list[str]) -> int:
    """Prints the table; 1 where the files cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m bench.runs", description="One table of several runs.")
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path, help="what `make bench` wrote with --json")
    try:
        runs = [Run.read(path) for path in parser.parse_args(arguments).files]
        table = lines(together(runs))
    except UnusableRuns as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Runs of {', '.join(run.time for run in runs)}, on {runs[0].database}.\n")
    print("\n".join(table))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
