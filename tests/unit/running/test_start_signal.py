"""A process that is begun early waits for the start signal, and ends without it (docs/architecture.md#the-start)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from app.infrastructure.start_signal import StartSignal
from app.launcher import __main__ as launcher
from tests.support.documented import ROOT

WAITING = """
import os
from app.infrastructure import start_signal
print(start_signal.is_expected(), flush=True)
start_signal.wait()
print(start_signal.is_expected(), ascii(os.environ["SETTLED"]), os.environ["OWN"])
"""


class WaitingProcess:
    """A process that waits for the signal."""

    def __init__(self) -> None:
        self.signal = StartSignal()
        self.process = subprocess.Popen(
            [sys.executable, "-c", WAITING],
            cwd=ROOT,
            env={**os.environ, "OWN": "kept", **self.signal.environment},
            pass_fds=(self.signal.waiting_end,),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.signal.begun()

    def read_line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


@pytest.fixture
def waiting() -> Iterator[WaitingProcess]:
    waiter = WaitingProcess()
    yield waiter
    waiter.process.kill()
    waiter.process.communicate()


def test_the_signal_lets_the_process_go_on_with_the_settings_that_it_brings(waiting: WaitingProcess) -> None:
    assert waiting.read_line() == "True\n"
    longer_than_a_pipe = "on \udcff\n" * 20_000
    waiting.signal.give({"SETTLED": longer_than_a_pipe})
    assert waiting.process.communicate() == (f"False {longer_than_a_pipe!a} kept\n", "")


def test_without_the_signal_the_process_ends_without_a_word(waiting: WaitingProcess) -> None:
    assert waiting.read_line() == "True\n"
    os.close(waiting.signal._giving_end)
    assert (*waiting.process.communicate(), waiting.process.returncode) == ("", "", 0)


def test_a_process_that_has_ended_needs_no_signal(waiting: WaitingProcess) -> None:
    waiting.process.kill()
    waiting.process.wait()
    waiting.signal.give({"SETTLED": "on"})


def test_the_launcher_begins_the_api_before_it_imports_what_takes_time() -> None:
    program = f"import {launcher.__name__}, sys; print({{'sqlalchemy', 'redis', 'app.settings'}} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
