"""Which tests run over one of the two databases (docs/development.md#suites)."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.databases import ONE_DATABASE, SAMPLE, VARIABLE, spared

ROOT = Path(__file__).parents[2]
FILE = "tests/api/test_answers.py"
DIFFERENCE = re.compile(r"is_postgresql\b|startswith\('(?:sqlite|postgresql)'")
MARK = re.compile(r"@pytest\.mark\.(?:both|sqlite|postgresql)\(")
ITSELF_SKIPPED = re.compile(r"if [^\n]*(?:sqlite|postgresql)[^\n]*:\n +pytest\.skip")


def test_the_files_of_one_database_exist() -> None:
    assert [path for path in ONE_DATABASE if not (ROOT / path).exists()] == []


def cases(test: str, count: int) -> dict[str, str | None]:
    """That many cases of a test over both databases."""
    return {f"{test}[{database}-{case}]": database for database in ("sqlite", "postgresql") for case in range(count)}


@pytest.fixture(autouse=True)
def both_are_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def test_a_sample_of_their_tests_runs_over_both_databases() -> None:
    left_out = spared(cases(f"{FILE}::test_any_value", 2000))
    assert FILE in ONE_DATABASE
    assert 2000 / SAMPLE * 0.8 < 2000 - len(left_out) < 2000 / SAMPLE * 1.2
    assert not any("sqlite" in name for name in left_out)


def test_other_tests_run_over_postgresql_with_every_fourth_case() -> None:
    test = "tests/api/test_contacts_races.py::test_a_race"
    assert spared(cases(test, 6)) == {f"{test}[postgresql-{case}]" for case in (1, 2, 3, 5)}


def test_tests_of_postgresql_alone_run_with_all_their_cases() -> None:
    test = "tests/api/test_contacts_races.py::test_a_race"
    assert spared({name: database for name, database in cases(test, 6).items() if database == "postgresql"}) == set()


def test_all_tests_run_over_both_databases_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "on")
    assert spared(cases(f"{FILE}::test_any_value", 100)) == set()


def test_a_test_that_needs_one_database_has_its_mark() -> None:
    """A test that skipped itself over SQLite would run over none in a file of `ONE_DATABASE`."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    assert [str(path) for path in files if ITSELF_SKIPPED.search(path.read_text("utf-8"))] == []


def test_a_test_of_differences_between_the_databases_has_a_mark() -> None:
    """If it ran over SQLite alone, what it expects of PostgreSQL would be read by nobody."""
    unmarked = [
        f"{path.relative_to(ROOT)}::{test.name}"
        for path in sorted(ROOT.joinpath("tests").rglob("test_*.py"))
        if str(path.relative_to(ROOT)).startswith(ONE_DATABASE)
        for test in ast.parse(path.read_text("utf-8")).body
        if isinstance(test, ast.FunctionDef) and test.name.startswith("test_")
        if DIFFERENCE.search(ast.unparse(test)) and not MARK.search(ast.unparse(test))
    ]
    assert unmarked == []


def test_a_mark_names_the_only_database() -> None:
    """Also in a file of `ONE_DATABASE`, and where all tests are asked for."""
    marked = "tests/jobs/delivery/test_listener.py", "tests/api/test_bodies.py"
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *marked]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for test in (
        "test_a_report_about_a_domain_delays_no_other_mail[postgresql]",
        "test_any_value_in_any_place_is_answered[sqlite]",
    ):
        assert f"{test}\n" in listed
