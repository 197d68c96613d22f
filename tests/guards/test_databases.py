"""Which tests run over one of the two databases (docs/development.md#suites)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.databases import ONE_DATABASE, SAMPLE, VARIABLE

ROOT = Path(__file__).parents[2]
FILE = "tests/api/test_bodies.py"


def test_the_files_of_one_database_exist() -> None:
    assert [path for path in ONE_DATABASE if not (ROOT / path).exists()] == []


def test_a_sample_of_their_tests_runs_over_both_databases_and_all_do_where_it_is_asked_for() -> None:
    assert FILE in ONE_DATABASE
    usual, both = _over_postgresql({}), _over_postgresql({VARIABLE: "on"})
    assert usual < both
    assert len(both) / SAMPLE / 2 < len(usual) < len(both) / SAMPLE * 2


def _over_postgresql(environ: dict[str, str]) -> set[str]:
    """The names of the tests of the file that would run over PostgreSQL."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:xdist", FILE]
    outer = {name: value for name, value in os.environ.items() if name != VARIABLE and not name.startswith("PYTEST_")}
    ended = subprocess.run(command, cwd=ROOT, env=outer | environ, capture_output=True, text=True, check=True)
    return {line for line in ended.stdout.splitlines() if "[postgresql" in line or "-postgresql" in line}
