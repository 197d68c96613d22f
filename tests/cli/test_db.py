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


def test_an_upgrade_in_two_parts(run: FlaskCliRunner) -> None:
    """What the release before goes on working with, and what waits until no process of it is left."""
    run.invoke(args=["db", "upgrade", "0034"])
    planned = json.loads(run.invoke(args=["db", "plan", "--json"]).stdout)
    later = [one["revision"] for one in planned if one["run_with"] == "--contract"]
    expanded = [one["revision"] for one in planned if one["run_with"] == "--expand"][-1]
    said = run.invoke(args=["db", "upgrade", "--expand"]).stdout.splitlines()
    assert said[0] == f"the database is at revision {expanded}"
    assert [line for line in said[1:] if "left until all processes run this release" in line] == said[1:]
    assert bool(said[1:]) == bool(later)
    assert (
        run.invoke(args=["db", "upgrade", "--contract"]).stdout == f"the database is at revision {migrate.newest()}\n"
    )
    assert run.invoke(args=["db", "plan"]).stdout == "none\n"


def test_from_before_there_were_phases_nothing_runs_beside_older_processes(run: FlaskCliRunner) -> None:
    run.invoke(args=["db", "upgrade", "0033"])
    said = run.invoke(args=["db", "upgrade", "--expand"]).stdout
    assert said.startswith("the database is at revision 0033\nleft until all processes run this release: 0034, ")


def test_a_reload_without_processes_says_so(run: FlaskCliRunner, tmp_path: Path) -> None:
    run.invoke(args=["db", "upgrade"])
    result = run.invoke(args=["reload"])
    assert (result.exit_code, result.stderr) == (
        1,
        f"Error: no process of the service runs with the data folder {tmp_path}\n",
    )
