"""`make verify` runs what a change concerns, and says what it has left out (docs/development.md#suites)."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.cases import each
from tools import verify
from tools.verify import (
    PROCESSES,
    SERVICE,
    SUITES,
    SUPPORT,
    Suite,
    changed_paths,
    concerns,
    environment,
    main,
    parse,
    run,
    table,
)

ROOT = Path(__file__).parents[2]


def names_after(changes: list[str]) -> set[str]:
    """The suites that a change concerns."""
    return {suite.name for suite in SUITES if concerns(changes, suite)}


def test_every_path_that_a_suite_depends_on_exists() -> None:
    paths = {*SERVICE, *SUPPORT, *(path for suite in SUITES for path in suite.paths)}
    assert {path for path in paths if not (ROOT / path).exists()} == set()


def test_every_suite_of_the_makefile_belongs_to_one() -> None:
    """Each folder of tests that `make test` leaves out is run by a suite."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    processes, others = (
        re.findall(r"(\w+)/[ )]", re.search(rf"^{variable} := (.*)$", makefile, re.M).group(1))  # type: ignore[union-attr]
        for variable in ("PROCESSES", "TARGETS_OF_THEIR_OWN")
    )
    assert [f"tests/{name}" for name in processes] == list(PROCESSES)
    assert len(others) >= 8
    commands = " ".join(suite.command for suite in SUITES)
    named = {"deploy": "deploy-check", "guards": "lint"}
    targets = {named.get(name, name) for name in others} | {"e2e"}
    assert {target for target in targets if f"make {target}" not in commands} == set()


@each(
    ("changes", "some", "none"),
    [
        (["app/sends/delivery/drain.py"], {"lint", "e2e", "chaos", "attack", "browser"}, set()),
        (["docs/index.md"], {"lint", "test", "site", "e2e"}, {"chaos", "openapi", "browser"}),
        (["tests/chaos/faults.py"], {"test", "chaos", "rolling"}, {"attack", "e2e"}),
        (["applications.md"], {"lint", "test"}, {"e2e"}),
        ([], {"lint", "test"}, {"e2e", "site"}),
    ],
)
def test_a_change_concerns_the_suites_that_depend_on_it(changes: list[str], some: set[str], none: set[str]) -> None:
    assert some <= names_after(changes)
    assert not none & names_after(changes)


def test_changes_since_a_commit_include_those_that_are_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "ROOT", tmp_path)
    for name in ("committed", "changed", "same"):
        (tmp_path / name).write_text("before")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.check_call([*git, "init", "-q"])
    for message in ("first", "second"):
        subprocess.check_call([*git, "add", "."])
        subprocess.check_call([*git, "commit", "-qm", message])
        (tmp_path / "committed").write_text("after")
    (tmp_path / "changed").write_text("after")
    (tmp_path / "new").write_text("after")
    assert sorted(changed_paths("HEAD~")) == ["changed", "committed", "new"]


@each(
    ("suite", "changes", "outcome"),
    [
        (Suite("good", "true"), None, "passed"),
        (Suite("bad", "false"), None, "FAILED"),
        (Suite("long", "false", short="true"), None, "passed"),
        (Suite("other", "false", ("docs",)), ["bench/accounts.py"], "left out: nothing changed that it depends on"),
        (Suite("none", "true", program="no-such-program"), None, "left out: there is no no-such-program"),
    ],
)
def test_a_suite_passes_fails_or_is_left_out_with_the_reason(
    suite: Suite, changes: list[str] | None, outcome: str
) -> None:
    assert run(suite, True, changes).outcome == outcome


def test_one_failure_keeps_no_suite_from_running_and_fails_the_whole(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verify, "SUITES", (Suite("bad", "false", short="false"), Suite("good", "true", short="true")))
    monkeypatch.setattr("sys.argv", ["verify", "--short"])
    assert main() == 1
    said = capfd.readouterr().out
    assert re.search(r"suite +seconds +result\nbad +0  FAILED\ngood +0  passed\n\nfailed: bad\n", said)


def test_an_unknown_suite_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--only", "lint, typo"])
    assert "no such suite: typo" in capfd.readouterr().err


def test_arguments_of_verify_do_not_reach_the_suites() -> None:
    assert environment({"ARGS": "--short", "MAKEFLAGS": " -- ARGS=--short", "PATH": os.defpath}) == {"PATH": os.defpath}


def test_the_table_of_nothing_has_a_head() -> None:
    assert table([]) == ["suite  seconds  result"]
