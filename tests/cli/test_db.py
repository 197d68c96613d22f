"""`flask --app wsgi db`: upgrades and downgrades; each failure is one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask.testing import FlaskCliRunner
from sqlalchemy import text

from app import create_app
from app.db import migrate
from app.db.migrate import script
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
    previous = script().get_revision(newest or "head").down_revision
    assert run.invoke(args=["db", "downgrade", previous, "--yes"]).exit_code == 0
    assert run.invoke(args=["db", "downgrade", "nine", "--yes"]).exit_code == 2
    run.invoke(args=["db", "upgrade"])
    audited = json.loads(run.invoke(args=["audit", "list", "object=database", "--json"]).stdout)
    acts = [(one["action"], one["changes"][0]["old"], one["changes"][0]["new"]) for one in reversed(audited)]
    assert acts == [
        ("database.upgraded", None, newest),
        ("database.downgraded", newest, previous),
        ("database.upgraded", previous, newest),
    ]
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


def test_the_contracting_part_corrects_what_older_processes_wrote_meanwhile(run: FlaskCliRunner) -> None:
    """A copy in a test account that has an id of its own (docs/testing.md#copies)."""
    account = ("--account", "Acme")
    run.invoke(args=["db", "upgrade"])
    run.invoke(args=["accounts", "create", "Acme"])
    run.invoke(args=["keys", "create", "ci", "--level", "standard", "--test", *account])
    created = run.invoke(args=["lists", "create", "Customers", "--field", "Email:Email", *account])
    assert created.exit_code == 0, created.stderr
    found: Services = run.app.extensions[EXTENSION]
    columns = "name, system, allow_duplicates, stop_words, has_automations, creation_time, last_modified_time"
    with found.database.write() as transaction:
        transaction.execute(
            text(f"INSERT INTO lists (account_id, copy_of, {columns}) SELECT 2, id, {columns} FROM lists")
        )
    run.invoke(args=["db", "upgrade", "--contract"])
    with found.database.read() as session:
        assert session.execute(text("SELECT id, account_id, copy_of FROM lists ORDER BY id")).all() == [
            (-1, 2, 1),
            (1, 1, None),
        ]


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
