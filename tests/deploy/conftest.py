"""What these tests need of the machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.engine import Image
from tests.support.deployment import ROOT

collect_ignore = [] if sys.platform == "linux" and os.getuid() == 0 else ["test_image.py", "test_units.py"]


@pytest.fixture(scope="session")
def image() -> Iterator[Image]:
    """The image, built when it is first needed: it takes minutes."""
    made = Image()
    try:
        yield made
    finally:
        made.remove()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `deploy` as it is in the repository, in which commands are typed."""
    folder = tmp_path_factory.mktemp("checkout")
    listed = ["git", "ls-files", "-co", "--exclude-standard", "deploy"]
    for name in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line says what this machine cannot test."""
    if collect_ignore:
        terminalreporter.write_line(
            "left out, since only root on Linux can: the steps of the Containerfile, and the units"
        )
