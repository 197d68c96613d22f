"""Commands in a separate process, as an operator types them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import test_settings
from tests.support.apps import app_with
from tests.support.prepared import migrated_file
from tests.support.servers import PATIENCE, short_folder

ROOT = Path(__file__).parents[2]


def flask(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """`flask --app wsgi …` with a data folder of its own and no Redis."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-m", "flask", "--app", "wsgi", *arguments],
        cwd=ROOT,
        env={**kept, "DATA_DIR": str(folder), "LOG_FORMAT": "json", **environ},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_a_command_finds_the_database_from_the_data_folder_alone() -> None:
    with short_folder() as folder:
        add_account(folder)
        same_key = test_settings(folder).secret_key
        done = flask(folder, "keys", "create", "backend", "--level", "report", SECRET_KEY=same_key)
    assert (done.returncode, done.stderr) == (0, "")
    assert "token:        tms_" in done.stdout


def add_account(folder: Path) -> None:
    """In the database of that data folder, by a command in this process."""
    migrated_file(folder / "tms.sqlite3")
    with app_with(test_settings(folder)) as app:
        assert app.test_cli_runner().invoke(args=["accounts", "create", "Acme"]).exit_code == 0


def test_an_invalid_setting_is_reported_in_one_line_with_exit_code_2() -> None:
    with short_folder() as folder:
        done = flask(folder, "accounts", "list", RATE_LIMIT="maybe")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "Error: RATE_LIMIT=maybe: must be N/second, N/minute, N/hour or off\n"


def test_a_command_leaves_no_metrics_files() -> None:
    with short_folder() as folder:
        migrated_file(folder / "tms.sqlite3")
        assert flask(folder, "accounts", "list", PROMETHEUS_MULTIPROC_DIR=str(folder / "counts")).returncode == 0
        assert not {"metrics", "counts", "processes"} & {path.name for path in folder.iterdir()}
