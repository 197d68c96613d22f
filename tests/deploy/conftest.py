"""What these tests need of the machine."""

from __future__ import annotations

import os
import sys

import pytest

collect_ignore = [] if sys.platform == "linux" and os.getuid() == 0 else ["test_image.py"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line says what this machine cannot test."""
    if collect_ignore:
        terminalreporter.write_line("left out, since only root on Linux can: the steps of the Containerfile")
