"""The disposition of signals in the test process, however it was started."""

from __future__ import annotations

import signal

EXPECTED = (signal.SIGTERM, signal.SIGCHLD, signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that tests and their servers rely on: to end a process, to learn of its end, and for the time limit of a
test.

SIGHUP and SIGINT stay as they are: `nohup make test` continues when the terminal is closed, and a background run of a
script when Ctrl-C ends another. Tests that need one of them set it themselves.
"""


def expect_the_usual_of_signals() -> None:
    """Undoes that the parent process ignored or blocked them; children inherit the result."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
    for number in EXPECTED:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
