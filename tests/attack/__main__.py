"""`make attack`: attacks the running service on each database, a table at the end, and exit status 1 after an attack
that got through."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import NamedTuple

from app.clock import now
from tests.attack.families import FAMILIES, Family
from tests.attack.inside.breaks import BREAKS
from tests.attack.stage import Stage, stage
from tests.attack.tally import Tally, table
from tests.support.chosen import DATABASES, add_database_options, chosen_databases, chosen_names
from tests.support.postgres_process import PostgresProcess, postgres_process

MOST_SHOWN = 20
"""Faults of a family that are printed."""
INSTALLATIONS = 3
"""How many are attacked at the same time in CI: an attack mostly waits."""


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make attack", description=__doc__)
    parser.add_argument("--only", metavar="FAMILY,…", help="only these families, or broken builds; see --list")
    add_database_options(parser)
    parser.add_argument(
        "--short", action="store_true", help="most families, a few cases of each kind, on SQLite: what CI runs"
    )
    parser.add_argument("--broken", action="store_true", help="attack builds without a guard; each must be found")
    parser.add_argument("--list", action="store_true", help="name the families, or the broken builds")
    options = parser.parse_args(arguments)
    all_names = BREAKS if options.broken else FAMILIES
    options.names = chosen_names(parser, options.only, all_names)
    options.databases = chosen_databases(options, ["sqlite"] if options.short or options.broken else DATABASES)
    return options


def main() -> int:
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that its children are terminated, too
    if options.list:
        print("\n".join(options.names))
        return 0
    return (_find if options.broken else _hold)(options)


def _server(database: str) -> AbstractContextManager[PostgresProcess | None]:
    return postgres_process() if database == "postgresql" else nullcontext()


class Installation(NamedTuple):
    """An installation, and the families of attacks that are tried on it."""

    strict: bool
    names: list[str]


def _hold(options: argparse.Namespace) -> int:
    """Nothing gets through."""
    tally = Tally()
    for database in options.databases:
        with _server(database) as postgres, ThreadPoolExecutor(INSTALLATIONS if _is_ci(options) else 1) as pool:
            list(pool.map(partial(_attack, options.short, database, postgres, tally), _installations(options)))
    print(f"\n{now():%Y-%m-%d}\n", *tally.lines(), sep="\n")
    print(f"\n{len(tally.faults)} attacks got THROUGH" if tally.faults else "\nno attack got through")
    return 1 if tally.faults else 0


def _attack(
    short: bool, database: str, postgres: PostgresProcess | None, tally: Tally, installation: Installation
) -> None:
    with stage(postgres, strict=installation.strict, short=short) as on:
        for name in installation.names:
            _run(on, name, database, tally)


def _is_ci(options: argparse.Namespace) -> bool:
    """Whether the short form is run as in CI, not for chosen families."""
    return options.short and options.only is None


def _installations(options: argparse.Namespace) -> Iterator[Installation]:
    """The ordinary installation and the strict one. CI, which attacks several at once, divides the families."""
    for strict in (False, True):
        names = [name for name in options.names if strict in _stages(FAMILIES[name], _is_ci(options))]
        parts = INSTALLATIONS - 1 if _is_ci(options) and not strict else 1
        for part in range(parts):
            if names[part::parts]:
                yield Installation(strict, names[part::parts])


def _stages(family: Family, is_ci: bool) -> set[bool]:
    """The installations on which the family is tried."""
    return set(family.stages) & set(family.in_ci) if is_ci else set(family.stages)


def _run(on: Stage, name: str, database: str, tally: Tally) -> None:
    began = time.monotonic()
    faults = [fault for case in FAMILIES[name].attack(on) if (fault := tally.add(name, database, case))]
    print(f"{name} on {database}: {time.monotonic() - began:.0f} s, {len(faults)} got through", flush=True)
    print(*(f"  {fault[:600]}" for fault in faults[:MOST_SHOWN]), sep="\n", end="\n" if faults else "", flush=True)


def _find(options: argparse.Namespace) -> int:
    """In a build without a guard, the attack that the guard is for gets through."""
    rows = []
    for database in options.databases:
        with _server(database) as postgres:
            for name in options.names:
                build, tally = BREAKS[name], Tally()
                for strict in FAMILIES[build.family].stages:
                    with stage(postgres, strict=strict, short=True, broken=name) as on:
                        _run(on, build.family, database, tally)
                is_found = any(row.faults for row in tally.rows.values() if row.attack == build.shows)
                rows.append((name, build.family, database, build.shows if is_found else "NOT FOUND"))
    print("", *table(("build", "family", "database", "found"), rows), sep="\n")
    found_all = all(row[-1] != "NOT FOUND" for row in rows)
    print("each broken build was found" if found_all else "a broken build was NOT FOUND")
    return 0 if found_all else 1


if __name__ == "__main__":
    sys.exit(main())
