"""The suite itself: a hanging test fails with its stacks, and inherited signal settings have no effect."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers import PATIENCE
from tests.support.signals import EXPECTED
from tests.support.sources import ROOT

HANGS = """
import signal, threading

def wait_in_a_thread():
    threading.Event().wait()

def test_hangs():
    threading.Thread(target=wait_in_a_thread, daemon=True).start()
    threading.Event().wait()

def test_hangs_where_no_signal_comes():
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    threading.Event().wait()

def test_goes_on():
    pass
"""


UNUSED = ("cacheprovider", "anyio", "hypothesispytest", "schemathesis")
"""Plugins that these tests do not need; importing them takes longer than all the rest."""


def run(*arguments: str, start: str = "") -> subprocess.CompletedProcess[str]:
    """Runs pytest with the project's own configuration; `start` is Python code that runs before it."""
    program = (
        f"import os, signal, sys\n{start}\nos.execv(sys.executable, [sys.executable, '-m', 'pytest', *sys.argv[1:]])"
    )
    unused = [option for name in UNUSED for option in ("-p", f"no:{name}")]
    command = [sys.executable, "-c", program, "-q", *unused, "-c", str(ROOT / "pyproject.toml")]
    return subprocess.run(
        [*command, *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=2 * PATIENCE
    )


@pytest.fixture
def hanging(tmp_path: Path) -> str:
    file = tmp_path / "test_hanging.py"
    file.write_text(HANGS)
    return str(file)


def test_a_hanging_test_fails_with_the_stacks_of_all_threads_and_the_others_continue(hanging: str) -> None:
    done = run(hanging, "-k", "not no_signal", "-o", "timeout=2", f"--rootdir={Path(hanging).parent}")
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "in wait_in_a_thread" in done.stdout
    assert ">       threading.Event().wait()" in done.stdout


def test_where_signals_do_not_arrive_the_process_ends_with_the_stacks(hanging: str) -> None:
    done = run(hanging, "-k", "no_signal", "-o", "timeout=1.5", "-o", "faulthandler_timeout=3")
    assert done.returncode != 0
    assert "Timeout (0:00:03)!" in done.stderr
    assert "in test_hangs_where_no_signal_comes" in done.stderr


def test_every_test_has_the_limits(pytestconfig: pytest.Config) -> None:
    limit, last = float(pytestconfig.getini("timeout")), float(pytestconfig.getini("faulthandler_timeout"))
    assert PATIENCE < limit < last
    assert pytestconfig.getini("timeout_method") == "signal"
    assert pytestconfig.getini("faulthandler_exit_on_timeout") is True


def test_tests_do_not_depend_on_which_signals_are_ignored() -> None:
    """SIGHUP is ignored under nohup, SIGINT in the background of a script, and SIGCHLD under careless process
    managers."""
    numbers = [int(number) for number in (signal.SIGHUP, signal.SIGINT, *EXPECTED)]
    ignoring = f"for one in {numbers}: signal.signal(one, signal.SIG_IGN)\n"
    ignoring += f"signal.pthread_sigmask(signal.SIG_BLOCK, {numbers})"
    done = run("tests/processes/test_supervisor.py", "-k", "ends_the_supervisor", start=ignoring)
    assert "4 passed" in done.stdout, done.stdout + done.stderr
