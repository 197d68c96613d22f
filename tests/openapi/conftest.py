"""The description as a file, and the client that is generated from it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from tests.support.description import describe

CONFIGURATION = Path(__file__).parent / "generator.yaml"


@pytest.fixture(scope="session")
def description_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The description of this version."""
    path: Path = tmp_path_factory.mktemp("description") / "openapi.json"
    path.write_bytes(orjson.dumps(describe()))
    return path


@pytest.fixture(scope="session")
def python_client(description_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that contains the package `tms_client`, generated without a warning."""
    folder: Path = tmp_path_factory.mktemp("python")
    command: list[str | Path] = [
        sys.executable,
        *("-m", "openapi_python_client", "generate"),
        "--meta",
        "none",
        "--fail-on-warning",
        "--path",
        description_file,
    ]
    command += ["--config", CONFIGURATION, "--output-path", folder / "tms_client"]
    subprocess.run(command, check=True, timeout=120)
    return folder
