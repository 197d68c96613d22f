"""`make cluster`: the service on many hosts, each fault of a host, a network or an engine, and a table at the end."""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.chaos.table import lines
from tests.cluster import network
from tests.cluster.engines import HOSTS, Engines
from tests.cluster.faults import FAULTS
from tests.cluster.network import Network
from tests.cluster.round import Outcome, Plan, run
from tests.cluster.stage import API_HOSTS, SENDER_HOSTS
from tests.cluster.verdict import HEAD, accepts_nothing
from tests.support.chosen import chosen_names
from tests.support.servers import scratch_database

SHORT = ("switchover", "primary-cut")
BROKEN = {
    "lost-messages": ("switchover", "accepted messages lost"),
    "doubled-messages": ("switchover", "messages doubled that were not in flight"),
    "deaf-commits": ("standbys-gone", accepts_nothing.__name__),
    "no-mirror": ("sender-host-cut", "messages doubled that were not in flight"),
}
"""Build of tests/chaos -> the fault of its round, and the check or judge that must find it."""
FEW = (API_HOSTS[0], SENDER_HOSTS[0])
"""The hosts of the service in the short form."""
ALL = (*API_HOSTS, *SENDER_HOSTS)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make cluster", description=__doc__)
    parser.add_argument("--seed", type=int, help="the seed of an earlier run, to repeat its timing")
    parser.add_argument("--only", metavar="FAULT,…", help="only these faults; see --list")
    parser.add_argument(
        "--short",
        action="store_true",
        help=f"only {' and '.join(SHORT)}, with a host of each kind, whatever the times: what CI runs",
    )
    parser.add_argument(
        "--broken", action="store_true", help="run builds that are broken on purpose; each must be detected"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="folder for the logs of failed rounds")
    parser.add_argument(
        "--acceptance",
        metavar="COMMAND",
        help="run it beside a HAProxy that leads to the primary, with a new database in ACCEPTANCE_DATABASE_URL",
    )
    parser.add_argument("--list", action="store_true", help="name the faults with what must be reached")
    options = parser.parse_args(arguments)
    all_names = BROKEN if options.broken else FAULTS
    options.names = chosen_names(
        parser, options.only, all_names, SHORT if options.short and not options.broken else None
    )
    options.keep = options.keep and options.keep.absolute()
    return options


def main() -> int:
    options = parse()
    if options.list:
        told = {name: BROKEN[name][1] if options.broken else FAULTS[name].must for name in options.names}
        print(*(f"{name:<28} {words}" for name, words in told.items()), sep="\n")
        return 0
    if network.INSIDE in os.environ:
        return _run(options)
    if why := network.why_not():
        print(f"left out: {why}")
        return 0
    return network.enter("tests.cluster", sys.argv[1:])


def _accept(command: str) -> int:
    """The exit status of the command on an application host."""
    engines = _engines(Path(os.environ[network.INSIDE]), ALL)
    host = API_HOSTS[0]
    engines.start_haproxy(host)
    with scratch_database(engines.server_url()) as url:
        balanced = engines.balanced_urls(url)["DATABASE_URL"]
        words = engines.network.command(host, ["env", f"ACCEPTANCE_DATABASE_URL={balanced}", command])
        return subprocess.run(words, check=False).returncode


def _run(options: argparse.Namespace) -> int:
    if options.acceptance:
        return _accept(options.acceptance)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}", flush=True)
    hosts = FEW if options.short else ALL
    engines = _engines(Path(os.environ[network.INSIDE]), hosts)
    plans = [
        Plan(
            FAULTS[BROKEN[name][0] if options.broken else name],
            hosts,
            seed,
            broken=name if options.broken else "",
            keep=options.keep,
            short=options.short and not options.broken,
        )
        for name in options.names
    ]
    outcomes = ((plan, run(plan, engines)) for plan in plans)
    return (_find if options.broken else _reach)(outcomes)


def _reach(outcomes: Iterable[tuple[Plan, Outcome]]) -> int:
    """Sound builds reach what must be reached."""
    rows, all_reached = [], True
    for plan, outcome in outcomes:
        cells = outcome.figures.cells() if outcome.figures else ("–",) * (len(HEAD) - 3)
        result = "MISSED" if outcome.missed else "reached"
        rows.append((plan.fault.name, *cells, plan.must, result))
        all_reached = all_reached and not outcome.missed
        print(lines(rows[-1:], HEAD)[-1], *(f"  {missed}" for missed in outcome.missed), sep="\n", flush=True)
    print("", *lines(rows, HEAD), "", sep="\n")
    print("everything was reached that must be" if all_reached else "something was MISSED")
    return 0 if all_reached else 1


def _find(outcomes: Iterable[tuple[Plan, Outcome]]) -> int:
    """Broken builds are found."""
    rows, found_all = [], True
    for plan, outcome in outcomes:
        check = BROKEN[plan.broken][1]
        is_found = check in outcome.violated
        rows.append((plan.broken, plan.fault.name, check if is_found else "NOT FOUND"))
        found_all = found_all and is_found
        print(" | ".join(rows[-1]), *(f"  {missed}" for missed in outcome.missed), sep="\n", flush=True)
    print("", *lines(rows, ("build", "fault", "found")), "", sep="\n")
    print("each broken build was found" if found_all else "a broken build was NOT FOUND")
    return 0 if found_all else 1


def _engines(folder: Path, hosts: Sequence[str]) -> Engines:
    """The engines, which run, and the network with all hosts."""
    engines = Engines(Network([*HOSTS, *hosts], folder), folder)
    os.environ |= {"CHAOS_LISTEN": "", "REQUESTS_CA_BUNDLE": str(folder / "authority.pem")}
    engines.start(hosts)
    return engines


if __name__ == "__main__":
    sys.exit(main())
