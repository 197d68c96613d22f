"""`tms`: the command line of the installed package (docs/cli.md#calling-a-command)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from flask import Flask
from flask.cli import ScriptInfo

from app import cli, distribution
from app.cli.processes import PROCESSES
from app.tms import script_info, tms
from tests.support.servers import PATIENCE

ROOT = Path(__file__).parents[2]
CONFIGURATION = ROOT / "gunicorn.conf.py"


def run(*arguments: str, app: Flask | None = None) -> Result:
    """`tms …`, with the application of a test if it needs one."""
    script = script_info() if app is None else ScriptInfo(create_app=lambda: app)
    return CliRunner().invoke(tms, arguments, prog_name="tms", obj=script)


def test_it_has_the_commands_of_flask_and_the_processes() -> None:
    names = tms.list_commands(click.Context(tms))
    assert names == sorted({*cli.NOUNS, *cli.COMMANDS, "run", "web", "worker", "scheduler", "submission"})
    printed = run("--help")
    assert printed.exit_code == 0
    assert [name for name in names if f"\n  {name} " not in printed.stdout] == []


def test_its_help_has_sections_with_whole_sentences() -> None:
    printed = run("--help").stdout
    assert re.findall(r"^(\S.*):$", printed, re.M) == ["Options", "Run", "Accounts", "Sending", "People", "Maintenance"]
    assert "..." not in printed.partition("\nRun:")[2]


def test_each_command_is_in_one_section_of_its_help() -> None:
    placed = [name for names in cli.SECTIONS.values() for name in names]
    assert sorted(placed) == tms.list_commands(click.Context(tms))


def test_its_commands_print_what_those_of_flask_print(app: Flask) -> None:
    for arguments in (["db", "current"], ["transports", "list", "--json"]):
        ours, flasks = run(*arguments, app=app), app.test_cli_runner().invoke(args=arguments)
        assert (ours.exit_code, flasks.exit_code) == (0, 0), ours.output
        assert ours.stdout == flasks.stdout


def test_it_names_the_version_of_the_package() -> None:
    assert run("--version").stdout == f"tms {distribution.VERSION}\n"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("scheduler", "--fast"), "Error: No such option '--fast'.\n"),
        (("run", "now"), "Error: Got unexpected extra argument (now)\n"),
        (("rum",), "Error: No such command 'rum'. `tms --help` lists the commands.\n"),
    ],
)
def test_a_wrong_command_or_argument_of_a_process_is_one_line(arguments: tuple[str, ...], error: str) -> None:
    refused = run(*arguments)
    assert (refused.exit_code, refused.stdout, refused.stderr) == (2, "", error)


def test_a_wrong_setting_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATE_LIMIT", "maybe")
    refused = run("accounts", "list")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr == "Error: RATE_LIMIT=maybe: must be N/second, N/minute, N/hour or off\n"


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (("run",), "app.launcher"),
        (("worker", "webhooks", "maintenance"), "jobs.worker webhooks maintenance"),
        (("scheduler",), "jobs.schedule"),
        (("inbound",), "jobs.inbound"),
        (("submission",), "jobs.submission"),
        (
            ("web", "--", "--bind", "[::]:1"),
            f"gunicorn --config {ROOT}/gunicorn.conf.py --bind [::]:1 wsgi:application",
        ),
    ],
)
def test_a_process_has_the_command_line_by_which_it_is_known(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], command: str
) -> None:
    """The command ends at that: the process takes its place."""
    begun: list[list[str]] = []
    monkeypatch.setattr(os, "execve", lambda _program, line, _environment: begun.append(line))
    assert run(*arguments).exit_code == 0
    assert begun == [[sys.executable, "-m", *command.split()]]


def test_a_process_imports_nothing_of_the_current_folder(tmp_path: Path) -> None:
    """gunicorn puts that folder first on its path. Here its files have the names of our modules."""
    for name in ("app", "jobs", "wsgi"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a module of the current folder was imported')\n")
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from app.tms import main; main()"
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, "web", "--", "--bind", "127.0.0.1:1"],
        cwd=tmp_path,
        env={**kept, "LOG_FORMAT": "json", "DATA_DIR": str(tmp_path / "data")},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("cannot start: the database is not migrated yet")


def test_every_process_has_a_help_text_and_a_name_of_its_own() -> None:
    assert [name for name, command in PROCESSES.items() if not command.help] == []
    assert {*cli.NOUNS, *cli.COMMANDS}.isdisjoint(PROCESSES)
