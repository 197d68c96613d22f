"""`flask --app wsgi db`: upgrades and downgrades; each failure is one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask.testing import FlaskCliRunner

from app import create_app
from app.db import migrate
from app.http.context import EXTENSION
from app.services import Services
from tests.conftest import test_settings


@pytest.fixture
def run(tmp_path: Path) -> Iterator[FlaskCliRunner]:
    app = create_app(test_settings(tmp_path))
    yield app.test_cli_runner()
    services: Services = app.extensions[EXTENSION]
    services.database.close()


def test_upgrade_show_and_downgrade(run: FlaskCliRunner) -> None:
    newest = migrate.newest()
    assert run.invoke(args=["db", "upgrade"]).stdout == f"the database is at revision {newest}\n"
    shown = run.invoke(args=["db", "current", "--json"])
    assert json.loads(shown.output) == {"current": newest, "newest": newest}
    assert run.invoke(args=["db", "downgrade", "base", "--yes"]).output == "the database is at revision base\n"
    assert json.loads(run.invoke(args=["db", "current", "--json"]).stdout) == {"current": None, "newest": newest}


def test_a_downgrade_asks_for_confirmation(run: FlaskCliRunner) -> None:
    run.invoke(args=["db", "upgrade"])
    assert run.invoke(args=["db", "downgrade", "base"], input="n\n").exit_code == 1
    assert json.loads(run.invoke(args=["db", "current", "--json"]).stdout)["current"] == migrate.newest()


def test_an_unknown_revision_is_reported_in_one_line(run: FlaskCliRunner) -> None:
    result = run.invoke(args=["db", "upgrade", "nine"])
    assert result.exit_code == 2
    assert result.stderr.splitlines()[1:] == ["Error: Can't locate revision identified by 'nine'"]
