"""`make cluster`: the service on many hosts, each fault of a host, a network or an engine, and a table at the end."""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.table import lines
from tests.cluster import network
from tests.cluster.engines import HOSTS, Engines
from tests.cluster.faults import FAULTS
from tests.cluster.network import Network
from tests.cluster.round import Outcome, Plan, run
from tests.cluster.stage import API_HOSTS, SENDER_HOSTS
from tests.cluster.verdict import HEAD
from tests.support.chosen import chosen_names
from tests.support.servers import short_folder

SHORT = ("switchover", "primary-cut")
FEW = (API_HOSTS[0], SENDER_HOSTS[0])
"""The hosts of the service in the short form."""
ALL = (*API_HOSTS, *SENDER_HOSTS)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make cluster", description=__doc__)
    parser.add_argument("--seed", type=int, help="the seed of an earlier run, to repeat its timing")
    parser.add_argument("--only", metavar="FAULT,…", help="only these faults; see --list")
    parser.add_argument(
        "--short", action="store_true", help=f"only {' and '.join(SHORT)}, with a host of each kind: what CI runs"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="folder for the logs of failed rounds")
    parser.add_argument("--list", action="store_true", help="name the faults with what must be reached")
    options = parser.parse_args(arguments)
    options.names = chosen_names(parser, options.only, FAULTS, SHORT if options.short else None)
    options.keep = options.keep and options.keep.absolute()
    return options


def main() -> int:
    options = parse()
    if options.list:
        print(*(f"{name:<28} {FAULTS[name].must}" for name in options.names), sep="\n")
        return 0
    if network.INSIDE in os.environ:
        return _run(options)
    if why := network.why_not():
        print(f"left out: {why}")
        return 0
    return network.enter("tests.cluster", sys.argv[1:])


def _run(options: argparse.Namespace) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}", flush=True)
    hosts = FEW if options.short else ALL
    rows, all_reached = [], True
    with short_folder() as folder:
        engines = _engines(folder, hosts)
        for name in options.names:
            outcome = run(Plan(FAULTS[name], hosts, seed, keep=options.keep), engines)
            rows.append(_row(name, outcome))
            all_reached = all_reached and not outcome.missed
            print(lines(rows[-1:], HEAD)[-1], *(f"  {missed}" for missed in outcome.missed), sep="\n", flush=True)
    print("", *lines(rows, HEAD), "", sep="\n")
    print("everything was reached that must be" if all_reached else "something was MISSED")
    return 0 if all_reached else 1


def _engines(folder: Path, hosts: Sequence[str]) -> Engines:
    """The engines, which run, and the network with all hosts."""
    engines = Engines(Network([*HOSTS, *hosts], folder), folder)
    os.environ |= {"CHAOS_LISTEN": "", "REQUESTS_CA_BUNDLE": str(folder / "authority.pem")}
    engines.start(hosts)
    return engines


def _row(name: str, outcome: Outcome) -> tuple[str, ...]:
    cells = outcome.figures.cells() if outcome.figures else ("–",) * (len(HEAD) - 3)
    return (name, *cells, FAULTS[name].must, "MISSED" if outcome.missed else "reached")


if __name__ == "__main__":
    sys.exit(main())
