"""`python -m bench`: runs the cases and prints the table (`make bench`; docs/performance.md)."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from app.clock import now
from bench.cases import (
    api_processes,
    automations,
    delivery,
    fairness,
    far_database,
    filters,
    growth,
    indexed_fields,
    latency,
    many_accounts,
    memory,
    reading,
    slow_clients,
    snapshot,
    webhooks,
    worst_content,
    writing,
)
from bench.options import Options
from bench.runs import Run
from bench.table import lines
from bench.turns import Row

CASES: dict[str, Callable[[Options], list[Row]]] = {
    "reading": reading.run,
    "creating": writing.creating,
    "indexed-fields": indexed_fields.run,
    "sending": writing.sending,
    "api-processes": api_processes.run,
    "delivery": delivery.run,
    "webhooks": webhooks.run,
    "latency": latency.run,
    "fairness": fairness.run,
    "growth": growth.run,
    "memory": memory.run,
    "slow-clients": slow_clients.run,
    "snapshot": snapshot.run,
    "far-database": far_database.run,
    "many-accounts": many_accounts.run,
    "filters": filters.run,
    "worst-content": worst_content.run,
    "automations": automations.run,
}


def main(arguments: list[str]) -> int:
    """1 if a case failed: an answer was wrong or something was lost. A goal that is not reached is printed only."""
    given = parse(arguments)
    options = Options(rounds=1 if given.short else given.rounds, short=given.short, postgresql=not given.sqlite)
    began = f"{now():%Y-%m-%d %H:%M}"
    rows: list[Row] = []
    failed = []
    for name in given.names:
        try:
            measured = CASES[name](options)
        except Exception:  # a broken case must not hide the others; it is reported at the end
            traceback.print_exc()
            failed.append(name)
            continue
        rows += measured
        print("\n".join(lines(measured)), flush=True)
        if given.json:
            Run(began, options.database, options.short, rows).write(given.json)
    print("\n".join(["", *lines(rows)]))
    print(f"failed: {', '.join(failed)}" if failed else "every answer was right")
    return bool(failed)


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options; `names` are the chosen cases."""
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--only", metavar="CASES", help=f"some of: {', '.join(CASES)}")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each case (5)")
    parser.add_argument("--short", action="store_true", help="little work, to find breakage only")
    parser.add_argument("--sqlite", action="store_true", help="the service on SQLite, without floors and peers")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the rows to this file, for bench.runs")
    given = parser.parse_args(arguments)
    given.names = given.only.split(",") if given.only else list(CASES)
    if unknown := [name for name in given.names if name not in CASES]:
        parser.error(f"there is no case {', '.join(unknown)}")
    return given


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
