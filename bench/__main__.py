"""`python -m bench`: runs the cases and prints the table (`make bench`; docs/performance.md)."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable

from bench.cases import (
    delivery,
    fairness,
    far_database,
    filters,
    growth,
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
from bench.table import lines
from bench.turns import Row

CASES: dict[str, Callable[[Options], list[Row]]] = {
    "reading": reading.run,
    "creating": writing.creating,
    "sending": writing.sending,
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
}


def main(arguments: list[str]) -> int:
    """1 when a case failed: an answer was wrong or something was lost. Slowness is printed, not judged."""
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--only", metavar="CASES", help=f"some of: {', '.join(CASES)}")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each case (5)")
    parser.add_argument("--short", action="store_true", help="little work, to find breakage only")
    parser.add_argument("--sqlite", action="store_true", help="the service on SQLite, without floors and peers")
    given = parser.parse_args(arguments)
    options = Options(rounds=1 if given.short else given.rounds, short=given.short, postgresql=not given.sqlite)
    chosen = given.only.split(",") if given.only else list(CASES)
    rows, failed = [], []
    for name in chosen:
        try:
            made = CASES[name](options)
        except Exception:  # one broken case must not hide the others; it is reported at the end
            traceback.print_exc()
            failed.append(name)
            continue
        rows += made
        print("\n".join(lines(made)), flush=True)
    print("\n".join(["", *lines(rows)]))
    if failed:
        print(f"failed: {', '.join(failed)}")
    else:
        print("every answer was right")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
