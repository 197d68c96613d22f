"""The rows that a run prints, and the table that `--figures FILE` prints of one or more runs."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.chaos.check import TIME, Result

HEAD = (
    "fault",
    "database",
    "mails",
    "texts",
    "refused",
    "lost",
    "doubled",
    "wrong 409",
    "stall, s",
    "recovery, s",
    "guarantees",
)
PAGE_HEAD = ("fault", "mails", "texts", "refused", "lost", "doubled", "wrong 409", "stall, s", "recovery, s", "run")
DATABASES = ("sqlite", "postgresql")
NONE = "–"
Row = tuple[str, ...]


def row(fault: str, database: str, result: Result) -> Row:
    """The figures of a round. `mails` and `texts` count accepted recipients, and `refused` requests that had to be
    repeated."""
    return (fault, database, *_figures(result), f"{len(result.broken)} BROKEN" if result.broken else "kept")


def _figures(result: Result) -> Row:
    counts = (result.mails, result.texts, result.refused, result.lost, result.doubled, result.wrong_conflicts)
    return (*map(str, counts), f"{result.stall:.1f}", f"{result.recovery:.1f}")


def lines(rows: Sequence[Row], head: Row = HEAD) -> list[str]:
    """Markdown, which is readable as plain text."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    rule = tuple("-" * width for width in widths)
    return ["| " + " | ".join(map(str.ljust, cells, widths)) + " |" for cells in (head, rule, *rows)]


# ------------------------------------------------------------------------------------------ of the page


def keep(file: Path, fault: str, database: str, seed: int, result: Result) -> None:
    """Writes the figures of a round into the file, in place of earlier ones of that fault on that database. Runs on
    both databases may share a file."""
    with file.open("a+") as shared:
        fcntl.flock(shared, fcntl.LOCK_EX)
        shared.seek(0)
        kept: dict[str, Any] = json.loads(shared.read() or "{}")
        kept.setdefault(fault, {})[database] = {
            "figures": _figures(result),
            "broken": result.broken,
            "seed": seed,
            "date": datetime.now(UTC).date().isoformat(),
        }
        shared.truncate(0)
        shared.write(json.dumps(kept, indent=1) + "\n")


def page(file: Path, order: Iterable[str]) -> list[str]:
    """The table as it stands in the documentation, SQLite before the slash and PostgreSQL after it, and the runs that
    its rows are of. A violated promise is shown behind the run."""
    kept = json.loads(file.read_text())
    runs: dict[tuple[str, int], str] = {}
    rows = []
    for fault in (name for name in order if name in kept):
        rounds = [kept[fault].get(database) for database in DATABASES]
        figures = zip(
            *(round_["figures"] if round_ else [NONE] * (len(PAGE_HEAD) - 2) for round_ in rounds), strict=True
        )
        names = [_run_of(round_, runs) for round_ in rounds if round_]
        rows.append((f"`{fault}`", *map(" / ".join, figures), " / ".join(dict.fromkeys(names))))
    named = "; ".join(f"{name}: `--seed {seed}`, {date}" for (date, seed), name in runs.items())
    return [*_plain(rows), "", f"Runs: {named}."]


def _run_of(kept: dict[str, Any], runs: dict[tuple[str, int], str]) -> str:
    """The letter of the run, which is added if it is new."""
    letter = runs.setdefault((kept["date"], kept["seed"]), chr(ord("a") + len(runs)))
    broken = kept["broken"]
    return f"{letter} {'LATE' if all(TIME in complaint for complaint in broken) else 'VIOLATED'}" if broken else letter


def _plain(rows: Sequence[Row]) -> list[str]:
    rule = ("---",) * len(PAGE_HEAD)
    return ["| " + " | ".join(cells) + " |" for cells in (PAGE_HEAD, rule, *rows)]
