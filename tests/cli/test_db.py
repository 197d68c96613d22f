"""`flask --app wsgi db`: upgrades and downgrades; each failure is one line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask.testing import FlaskCliRunner
from sqlalchemy import text

from app import create_app
from app.db import migrate
from app.db.migrate import script
from app.db.phases import LAST_STEP
from app.http.context import EXTENSION
from app.services import Services
from tests.conftest import test_settings
from tests.support.next_release import CONTRACTED, EXPANDED


@pytest.fixture
def run(tmp_path: Path) -> Iterator[FlaskCliRunner]:
    app = create_app(test_settings(tmp_path))
    yield app.test_cli_runner()
    services: Services = app.extensions[EXTENSION]
    services.database.close()


def test_upgrade_show_and_downgrade(run: FlaskCliRunner, next_release: Callable[[], None]) -> None:
    next_release()
    newest = migrate.newest()
    assert run.invoke(args=["db", "upgrade"]).stdout == f"the database is at revision {newest}\n"
    printed = run.invoke(args=["db", "current", "--json"])
    assert json.loads(printed.output) == {"current": newest, "newest": newest}
    previous = script().get_revision(newest or "head").down_revision
    assert run.invoke(args=["db", "downgrade", previous, "--yes"]).exit_code == 0
    assert run.invoke(args=["db", "downgrade", "nine", "--yes"]).exit_code == 2
    run.invoke(args=["db", "upgrade"])
    audited = json.loads(run.invoke(args=["audit", "list", "object=database", "--json"]).stdout)
    acts = [(entry["action"], entry["changes"][0]["old"], entry["changes"][0]["new"]) for entry in reversed(audited)]
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
    assert result.stderr.splitlines()[1:] == ["Error: there is no revision 'nine'"]


def test_an_upgrade_in_two_parts(run: FlaskCliRunner, next_release: Callable[[], None]) -> None:
    """What the release before goes on working with, and what waits until no process of it is left."""
    run.invoke(args=["db", "upgrade"])
    next_release()
    planned = json.loads(run.invoke(args=["db", "plan", "--json"]).stdout)
    assert [(migration["revision"], migration["run_with"]) for migration in planned] == [
        (EXPANDED, "--expand"),
        (CONTRACTED, "--contract"),
    ]
    for _ in range(2):
        assert run.invoke(args=["db", "upgrade", "--expand"]).stdout.splitlines() == [
            f"the database is at revision {EXPANDED}",
            f"not applied yet: {CONTRACTED}. When all processes run this release, run "
            "`flask --app wsgi db upgrade --contract`",
        ]
    assert run.invoke(args=["db", "upgrade", "--contract"]).stdout == f"the database is at revision {CONTRACTED}\n"
    assert run.invoke(args=["db", "plan"]).stdout == "none\n"


def test_a_database_from_before_the_first_release_is_refused_in_one_line(run: FlaskCliRunner) -> None:
    run.invoke(args=["db", "upgrade"])
    services: Services = run.app.extensions[EXTENSION]
    with services.database.write() as transaction:
        transaction.execute(text("UPDATE alembic_version SET version_num = '0060'"))
    said = f"revision 0060 is from before the first release: bring it to revision {LAST_STEP} by commit "
    for arguments in (["upgrade"], ["upgrade", "--expand"], ["plan"], ["downgrade", "base", "--yes"]):
        refused = run.invoke(args=["db", *arguments])
        assert (refused.exit_code, refused.stderr.startswith(f"Error: {said}")) == (1, True), refused.stderr
        assert refused.stderr.count("\n") == 1


def test_a_reload_without_processes_says_so(run: FlaskCliRunner, tmp_path: Path) -> None:
    run.invoke(args=["db", "upgrade"])
    result = run.invoke(args=["reload"])
    assert (result.exit_code, result.stderr) == (
        1,
        f"Error: no process of the service runs with the data folder {tmp_path}\n",
    )
