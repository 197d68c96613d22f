"""The newcomer's path, timed: from `pip install` of the library to the first delivered message (`make newcomer`).

The service runs already, as `make run` starts it with the demo. Three times: a new virtual environment, the library
installed from this repository with what it needs from the package registry, then the program of docs/clients.md.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from pathlib import Path

import yaml

from app.launcher.screen import SEED
from tests.support.launched import ROOT, LaunchedService
from tests.support.servers import short_folder

ROUNDS = 3
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)


def timed(what: Callable[[], object]) -> float:
    """The seconds that something takes."""
    started = time.monotonic()
    what()
    return time.monotonic() - started


def program() -> str:
    """The first program of docs/clients.md."""
    match = CODE.search((ROOT / "docs" / "clients.md").read_text("utf-8"))
    if match is None:
        raise SystemExit("docs/clients.md has no program")
    return match[1]


def walk(folder: Path, base: str) -> tuple[float, float, float]:
    """Seconds for the environment, the installation, and the program until its message is delivered."""
    python = folder / "bin" / "python"
    token = yaml.safe_load(SEED.read_text("utf-8"))["accounts"][0]["keys"][0]["token"]
    environment = {**os.environ, "BASE": base, "KEY": token}

    def run(*arguments: str) -> str:
        return subprocess.run([python, *arguments], check=True, capture_output=True, text=True, env=environment).stdout

    def send() -> None:
        if (said := run("-c", program()).strip()) != "delivered":
            raise SystemExit(f"the message is not delivered but {said!r}")

    return (
        timed(lambda: venv.create(folder, with_pip=True)),
        timed(lambda: run("-m", "pip", "install", "--quiet", str(ROOT / "clients" / "python"))),
        timed(send),
    )


def main() -> int:
    """Prints the rounds and their median."""
    print(f"{'round':<8}{'environment':>12}{'pip install':>12}{'first send':>12}{'together':>12}")
    with short_folder() as folder:
        service = LaunchedService(folder, SEED="")
        try:
            service.start()
            rounds = [walk(folder / f"venv{number}", service.base) for number in range(ROUNDS)]
            service.stop()
        finally:
            service.clear()
    median = tuple(statistics.median(column) for column in zip(*rounds, strict=True))
    for name, row in [*((str(number), row) for number, row in enumerate(rounds, 1)), ("median", median)]:
        print(f"{name:<8}" + "".join(f"{seconds:>10.1f} s" for seconds in (*row, sum(row))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
