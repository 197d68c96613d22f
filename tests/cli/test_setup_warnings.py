"""Warnings on standard error about the database that a command uses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app import create_app
from app.db.engine import without_credentials
from app.db.migrate import upgrade
from app.infrastructure import liveness
from app.settings import Settings, from_environment
from tests.cli.conftest import Cli


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return from_environment({"DATA_DIR": str(tmp_path), "LOG_FORMAT": "json"})


def test_a_database_that_was_never_migrated_is_reported(settings: Settings) -> None:
    result = Cli(create_app(settings)).run("db", "current", "--json")
    expected = f"using the database {without_credentials(settings.database_url)}, which was never migrated\n"
    assert (result.exit_code, result.stderr) == (0, expected)
    assert json.loads(result.stdout)["current"] is None


def test_another_database_than_that_of_the_running_services_is_reported(settings: Settings) -> None:
    upgrade(settings.database_url)
    other = from_environment({"DATA_DIR": str(settings.data_dir), "DATABASE_URL": "postgresql://u:hunter2@host/tms"})
    liveness.register(other.data_dir, without_credentials(other.database_url))
    result = Cli(create_app(settings)).run("accounts", "list", "--json")
    own_database = without_credentials(settings.database_url)
    assert (
        result.stderr
        == f"using the database {own_database}, which is not the database of the running service, postgresql://host/tms\n"
    )
    assert json.loads(result.stdout) == []


def test_the_usual_database_causes_no_warning(settings: Settings) -> None:
    upgrade(settings.database_url)
    liveness.register(settings.data_dir, without_credentials(settings.database_url))
    assert Cli(create_app(settings)).run("accounts", "list").stderr == ""


def test_an_unknown_variable_is_reported(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    upgrade(settings.database_url)
    monkeypatch.setenv("DATABASE_URI", "postgresql://u:hunter2@host/tms")
    result = Cli(create_app(settings)).run("accounts", "list", "--json")
    expected = "DATABASE_URI is not a setting of this service and is ignored; did you mean DATABASE_URL?\n"
    assert (result.stderr, json.loads(result.stdout)) == (expected, [])
