"""Which tests run over one of the two databases (docs/development.md#suites)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.databases import ONE_DATABASE, SAMPLE, VARIABLE, is_spared

ROOT = Path(__file__).parents[2]
FILE = "tests/api/test_bodies.py"


def test_the_files_of_one_database_exist() -> None:
    assert [path for path in ONE_DATABASE if not (ROOT / path).exists()] == []


def test_a_sample_of_their_tests_runs_over_both_databases_and_all_do_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [f"{FILE}::test_any_value[postgresql-{number}]" for number in range(1000)]
    monkeypatch.delenv(VARIABLE, raising=False)
    assert FILE in ONE_DATABASE
    assert 1000 / SAMPLE * 0.8 < sum(not is_spared(name, "postgresql") for name in names) < 1000 / SAMPLE * 1.2
    assert not any(is_spared(name, "sqlite") for name in names)
    assert not is_spared("tests/api/test_contacts_races.py::test_a_race[postgresql]", "postgresql")
    monkeypatch.setenv(VARIABLE, "on")
    assert not any(is_spared(name, "postgresql") for name in names)
