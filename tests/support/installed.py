"""The package as those have it who install it: packed from this checkout, in an empty environment outside of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.launched import PATIENT, SURROUNDINGS, LaunchedService

ROOT = Path(__file__).parents[2]
PLACE = "/opt/tms"
"""The folder in which the documentation has the environment."""
INSTALL_SECONDS = 1200.0
"""The time limit of an installation from the package registry."""
PATIENT_ONLY = PATIENT["PYTHONPATH"].split(os.pathsep)[0]
"""What makes the launcher patient, without the modules of the checkout."""


def run(command: Sequence[str | Path], folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """A command outside of the checkout, without its settings and modules; it must succeed."""
    clean = {name: value for name, value in os.environ.items() if name not in {*SURROUNDINGS, "PYTHONPATH"}}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**clean, **environ},
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


def build(folder: Path, kind: str, source: Path = ROOT) -> Path:
    """Packs `source` as a `wheel` or as an `sdist` into the folder, as `make package` does."""
    run([sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", folder], source)
    (built,) = folder.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return built


@dataclass(frozen=True)
class InstalledPackage:
    """An environment with the package in it, and the seconds that it took to make."""

    folder: Path
    seconds: float

    def program(self, name: str) -> Path:
        """A program of the environment."""
        return self.folder / "bin" / name

    def install(self, *what: str | Path) -> None:
        """Installs with the environment's own pip."""
        run([self.program("python"), "-m", "pip", "install", "--quiet", *what], self.folder)

    def uninstall(self, name: str) -> None:
        """Takes a package away again."""
        run([self.program("python"), "-m", "pip", "uninstall", "--quiet", "--yes", name], self.folder)

    def tms(self, folder: Path, *arguments: str, **environ: str) -> str:
        """The output of `tms …`, typed in that folder."""
        return run([self.program("tms"), *arguments], folder, **environ).stdout

    def service(self, folder: Path, *arguments: str, **settings: str) -> LaunchedService:
        """A process of the service, started in that folder; it is not yet running."""
        service = LaunchedService(folder, [str(self.program("tms")), *arguments], PYTHONPATH=PATIENT_ONLY, **settings)
        service.working_folder = folder
        return service


def new_environment(folder: Path, commands: str) -> InstalledPackage:
    """A new environment with the package of `dist` in it, made by the commands of the documentation."""
    began = time.monotonic()
    assert f"{PLACE}/bin/pip install" in commands
    run(["bash", "-ec", commands.replace("python3 ", f"{sys.executable} ").replace(PLACE, str(folder))], ROOT)
    return InstalledPackage(folder, time.monotonic() - began)
