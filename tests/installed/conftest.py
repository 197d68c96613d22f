"""One environment for all of these tests: it takes half a minute to make."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.documented import documented
from tests.support.installed import ROOT, InstalledPackage, build, new_environment, run
from tests.support.servers import short_folder

INSTALL = documented("docs/install.md#the-package")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packed from the checkout."""
    return build(tmp_path_factory.mktemp("wheel"), "wheel")


@pytest.fixture(scope="session")
def dist() -> dict[str, bytes]:
    """What `make package` writes, by name."""
    package, _ = INSTALL
    run(["bash", "-ec", package], ROOT)
    return {path.name: path.read_bytes() for path in (ROOT / "dist").iterdir()}


@pytest.fixture(scope="session")
def installed(dist: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> InstalledPackage:
    """The environment, with what `dist` has."""
    _, install = INSTALL
    return new_environment(tmp_path_factory.mktemp("installed") / "environment", install)


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """An empty folder in which commands are typed. Files in it have the names of our modules, and must not be
    imported."""
    with short_folder() as folder:
        for name in ("app", "jobs", "wsgi", "schemas", "blueprints"):
            (folder / f"{name}.py").write_text("raise SystemExit('a module of the current folder was imported')\n")
        (folder / "gunicorn.conf.py").write_text("raise SystemExit('another configuration was read')\n")
        yield folder
