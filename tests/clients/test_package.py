"""The library is a package of its own: what its wheel has and needs (docs/clients.md#python)."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email import message_from_string
from pathlib import Path

import pytest
from transactional_messaging import __version__

from tests.support.launched import ROOT

PROJECT = ROOT / "clients" / "python"
SOURCES = PROJECT / "src"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder: Path = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(PROJECT)]
    subprocess.run(command, check=True, timeout=300)
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_it_has_every_module_and_says_that_it_is_typed(wheel: zipfile.ZipFile) -> None:
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    paths = [*SOURCES.rglob("*.py"), *SOURCES.rglob("py.typed")]
    assert packed == {str(path.relative_to(SOURCES)) for path in paths}
    assert "transactional_messaging/py.typed" in packed


def test_it_needs_requests_alone(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = message_from_string(wheel.read(name).decode())
    requirements = metadata.get_all("Requires-Dist") or []
    assert (metadata["Name"], metadata["Version"]) == ("transactional-messaging", __version__)
    assert [requirement.partition(">")[0] for requirement in requirements] == ["requests"]
    assert "## The first send" in str(metadata.get_payload())
