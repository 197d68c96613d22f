"""What the process of the tests does with signals, however it was started."""

from __future__ import annotations

import signal

EXPECTED = (signal.SIGTERM, signal.SIGCHLD, signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that tests and their servers rest on: to end a process, to learn of its end, for the time limit of a test.

SIGHUP and SIGINT stay as they are: `nohup make test` goes on when the terminal is closed, and a run in the background
of a script when Ctrl-C ends another. Tests that need the one or the other of them set it themselves.
"""


def expect_the_usual_of_signals() -> None:
    """Takes back that the process before us ignored or blocked them; children inherit it from here."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
    for number in EXPECTED:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
