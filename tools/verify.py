"""Runs the suites of tests one after another, and ends with a table of them: `make verify`.

Quick suites come first, so that a mistake shows early. A suite that fails keeps no other from running; the exit status
is 1 if one has failed.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
ACCEPTANCE = "../shared/acceptance/run.sh"
"""A suite of black-box tests that may stand beside the checkout."""
REDIS_TESTS = (
    "tests/e2e tests/unit/running/demo tests/unit/running/test_queueing.py tests/jobs/test_worker.py "
    "tests/jobs/delivery/test_rate.py tests/api/test_rate_limit.py tests/api/test_redis_away.py"
)
"""Tests of what Redis does for the service."""


@dataclass(frozen=True, slots=True)
class Suite:
    """A command that tests something."""

    name: str
    command: str
    paths: tuple[str, ...] = ()
    """Files and folders that it depends on besides the service and its test support."""
    short: str | None = None
    """The command of `--short`, which leaves the suite out where this is None."""
    packages: str = ""
    """A target of the Makefile that installs what it needs, which takes root on Debian."""
    program: str = ""
    """A program or file without which it cannot run."""
    always: bool = False
    """Whether every change may break it."""


SERVICE = ("app", "blueprints", "schemas", "jobs", "wsgi.py", "gunicorn.conf.py", "pyproject.toml", "requirements.lock")
SUPPORT = ("Makefile", "tools", "tests/support", "requirements/dev.lock")
WITH_POSTGRES = f".venv/bin/python -m tests.support.with_postgres ACCEPTANCE_DATABASE_URL {ACCEPTANCE}"
POOLED = f".venv/bin/python -m tests.support.with_postgres --pgbouncer ACCEPTANCE_DATABASE_URL {ACCEPTANCE}"
ON_CLUSTER = f".venv/bin/python -m tests.cluster --acceptance {ACCEPTANCE}"
PROCESSES = tuple(
    f"tests/{name}" for name in ("e2e", "server", "processes", "databases", "restore", "migrations", "docs")
)
"""What `make e2e` runs."""
CLUSTER = ("tests/cluster", "tests/chaos", "deploy")
SUITES = (
    Suite("lint", "make lint", short="make lint", always=True),
    Suite("test", "env BOTH_DATABASES=on make test", short="make test", always=True),
    Suite("scaling", "make scaling", ("bench", "docs", "tests/scaling"), short="make scaling"),
    Suite("e2e", "env BOTH_DATABASES=on make e2e", ("docs", "README.md", *PROCESSES), short="make e2e"),
    Suite("acceptance on SQLite", ACCEPTANCE, short=ACCEPTANCE, program=ACCEPTANCE),
    Suite("acceptance on PostgreSQL", WITH_POSTGRES, short=WITH_POSTGRES, program=ACCEPTANCE),
    Suite("acceptance behind PgBouncer", POOLED, packages="interop-packages", program=ACCEPTANCE),
    Suite("acceptance on a cluster", ON_CLUSTER, packages="cluster-packages", program=ACCEPTANCE),
    Suite("openapi", "make openapi", ("docs/released", "tests/openapi"), short="make openapi", program="npm"),
    Suite("clients", "make clients", ("clients", "examples", "tests/clients"), short="make clients"),
    Suite("site", "make site", ("docs", "requirements/site.lock")),
    Suite("Redis in Python", f"env EMBEDDED_REDIS=python make test ARGS='{REDIS_TESTS}'", ("tests",)),
    Suite("installed", "make installed", ("tests/installed", "README.md", "docs", "clients")),
    Suite("newcomer", "make newcomer", ("bench", "README.md", "docs", "clients", "tests/docs", "tests/unit")),
    Suite("deploy-check", "make deploy-check", ("deploy", "tests/deploy", "docs")),
    Suite("interop", "make interop", ("tests/interop",), packages="interop-packages"),
    Suite("monitoring", "make monitoring", ("deploy", "docs", "tests/monitoring"), packages="monitoring-packages"),
    Suite("browser", "make browser", ("tests/browser",), packages="browser-packages"),
    Suite("bench", "make bench ARGS=--short", ("bench",)),
    Suite("rolling", "make rolling", ("tests/rolling", "tests/chaos"), short="make rolling ARGS=--short"),
    Suite("cluster", "make cluster", CLUSTER, short="make cluster ARGS=--short"),
    Suite("cluster of broken builds", "make cluster ARGS=--broken", CLUSTER),
    Suite("fuzz", "make fuzz ARGS='--inputs 20000'", ("tests/fuzz",), short="make fuzz ARGS=--short"),
    Suite("attack", "make attack", ("tests/attack",), short="make attack ARGS=--short"),
    Suite("attack on broken builds", "make attack ARGS=--broken", ("tests/attack",)),
    Suite("chaos", "make chaos", ("tests/chaos",), short="make chaos ARGS=--short"),
    Suite("chaos of broken builds", "make chaos ARGS=--broken", ("tests/chaos",)),
)


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a suite: `passed`, `FAILED`, or why it was left out."""

    suite: str
    seconds: float
    outcome: str


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make verify", description=__doc__)
    parser.add_argument("--short", action="store_true", help="the suites and short forms that .ci/run runs")
    parser.add_argument("--since", metavar="COMMIT", help="leave out suites that no change since then concerns")
    parser.add_argument("--only", metavar="SUITE,…", help="only these suites; see --list")
    parser.add_argument("--list", action="store_true", help="name the suites with their commands")
    options = parser.parse_args(arguments)
    options.names = [name.strip() for name in options.only.split(",")] if options.only else [s.name for s in SUITES]
    if unknown := [name for name in options.names if name not in {suite.name for suite in SUITES}]:
        parser.error(f"no such suite: {', '.join(unknown)}")
    return options


def main() -> int:
    options = parse()
    suites = [suite for suite in SUITES if suite.name in options.names and not (options.short and suite.short is None)]
    if options.list:
        print(*(f"{suite.name}: {command(suite, options.short)}" for suite in suites), sep="\n")
        return 0
    changes = changed_paths(options.since) if options.since else None
    results = [run(suite, options.short, changes) for suite in suites]
    print("", *table(results), sep="\n")
    failed = [result.suite for result in results if result.outcome == "FAILED"]
    print(f"\nfailed: {', '.join(failed)}" if failed else "\nnothing failed", flush=True)
    return 1 if failed else 0


def command(suite: Suite, short: bool) -> str:
    return suite.short or suite.command if short else suite.command


def run(suite: Suite, short: bool, changes: Collection[str] | None) -> Result:
    """Runs a suite, unless no change concerns it or this machine cannot run it."""
    began = time.monotonic()
    if changes is not None and not concerns(changes, suite):
        return Result(suite.name, 0, "left out: nothing changed that it depends on")
    print(f"--- {suite.name}: {command(suite, short)}", flush=True)
    if why := unable(suite):
        print(f"left out: {why}", flush=True)
        return Result(suite.name, time.monotonic() - began, f"left out: {why}")
    ended = subprocess.run(shlex.split(command(suite, short)), cwd=ROOT, env=environment(os.environ), check=False)
    return Result(suite.name, time.monotonic() - began, "FAILED" if ended.returncode else "passed")


def environment(outer: Mapping[str, str]) -> dict[str, str]:
    """The environment without what the calling make says to those it calls, such as the ARGS of `make verify`."""
    return {
        name: value for name, value in outer.items() if name not in ("ARGS", "MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS")
    }


def unable(suite: Suite) -> str:
    """Why this machine cannot run the suite, empty if it can."""
    if suite.program and not ((ROOT / suite.program).exists() or shutil.which(suite.program)):
        return f"there is no {suite.program}"
    if suite.packages:
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            return f"`make {suite.packages}` needs root and apt-get"
        if subprocess.run(["make", suite.packages], cwd=ROOT, env=environment(os.environ), check=False).returncode:
            return f"`make {suite.packages}` could not install what it needs"
    return ""


def changed_paths(commit: str) -> list[str]:
    """The files that differ from a commit, also those that are not committed yet."""
    commands = (["git", "diff", "--name-only", commit], ["git", "ls-files", "--others", "--exclude-standard"])
    return [path for words in commands for path in subprocess.check_output(words, cwd=ROOT, text=True).splitlines()]


def concerns(changes: Collection[str], suite: Suite) -> bool:
    """Whether one of the changed files is among those that the suite depends on."""
    roots = (*SERVICE, *SUPPORT, *suite.paths)
    return suite.always or any(path == root or path.startswith(f"{root}/") for path in changes for root in roots)


def table(results: Sequence[Result]) -> list[str]:
    """A line for each suite: its name, seconds and outcome."""
    width = max(len("suite"), *(len(result.suite) for result in results)) if results else len("suite")
    lines = [f"{'suite':<{width}}  seconds  result"]
    return lines + [f"{result.suite:<{width}}  {result.seconds:7.0f}  {result.outcome}" for result in results]


if __name__ == "__main__":
    sys.exit(main())
