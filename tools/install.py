"""Installs a lock file and shows how far it is: `python -m tools.install requirements.lock`.

On a terminal one line is rewritten, without colours and escapes. Elsewhere, as in the log of a build, there is a line
at the start and at the end, and one in between every fifteen seconds.
"""

from __future__ import annotations

import queue
import re
import subprocess
import sys
import sysconfig
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[.*?\])?==", re.MULTILINE)
REQUIREMENT_LINE = re.compile(r"(Collecting|Requirement already satisfied:|Ignoring) ([A-Za-z0-9._-]+)")
"""pip's line about a package of the lock that it fetches, finds installed, or does not need on this platform."""
UNPACKING_LINE = "Installing collected packages:"
MAX_LINES = 30
SECONDS_BETWEEN_LINES = 15.0
"""Seconds between two lines where they are not rewritten."""
SECONDS_BETWEEN_LOOKS = 0.25
PIP = ("-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar", "off", "--require-hashes")


def normal(name: str) -> str:
    """A name of a package as all of its spellings are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned(lock: str) -> set[str]:
    """The packages of a lock file."""
    return {normal(name) for name in PINNED.findall(lock)}


def unpacked(names: set[str], folder: Path) -> int:
    """How many of the packages the folder has."""
    unpacked_names = {normal(path.name.partition("-")[0]) for path in folder.glob("*.dist-info")}
    return len(unpacked_names & names)


@dataclass
class Progress:
    """What pip has said so far."""

    names: set[str]
    folder: Path
    taken: set[str] = field(default_factory=set)
    unpacks: bool = False
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_LINES))
    """The last ones, which say why it fails if it does."""

    def read(self, line: str) -> None:
        """Takes a line of pip in."""
        match = REQUIREMENT_LINE.match(line)
        if match and match[1] == "Ignoring":
            self.names.discard(normal(match[2]))
        elif match:
            self.taken.add(normal(match[2]))
        self.unpacks = self.unpacks or line.startswith(UNPACKING_LINE)
        self.lines.append(line.rstrip())

    def __str__(self) -> str:
        if self.unpacks:
            return f"unpacked {unpacked(self.names, self.folder)} of {len(self.names)} packages"
        return f"fetched {len(self.taken & self.names)} of {len(self.names)} packages"


class Screen:
    """Where the progress is shown."""

    def __init__(self, stream: TextIO, lock: str) -> None:
        self._stream, self._lock = stream, lock
        self._start = self._spoken = time.monotonic()
        self._rewrites = stream.isatty()
        self._width = 0

    def show(self, progress: object) -> None:
        """The progress: at once on a terminal, now and then elsewhere."""
        if self._rewrites:
            self._write(f"installing {self._lock}: {progress}, {self._seconds()}", end="")
        elif time.monotonic() - self._spoken >= SECONDS_BETWEEN_LINES:
            self._spoken = time.monotonic()
            self.say(f"installing {self._lock}: {progress}, {self._seconds()}")

    def say(self, line: str) -> None:
        """A line that stays."""
        self._write(line, end="\n")

    def finish(self, count: int) -> None:
        """The last line."""
        self.say(f"installed {self._lock}: {count} packages, {self._seconds()}")

    def _seconds(self) -> str:
        return f"{time.monotonic() - self._start:.0f} s"

    def _write(self, line: str, end: str) -> None:
        """Over the line before, whose rest is blanked."""
        start = "\r" if self._width else ""
        self._stream.write(f"{start}{line.ljust(self._width)}{end}")
        self._stream.flush()
        self._width = 0 if end else max(self._width, len(line))


def lines_of(process: subprocess.Popen[str]) -> Iterator[str | None]:
    """The lines of the process's output, and None whenever there was none for a while."""
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()

    def collect() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            waiting.put(line)
        waiting.put("")

    threading.Thread(target=collect, daemon=True).start()
    while True:
        try:
            line = waiting.get(timeout=SECONDS_BETWEEN_LOOKS)
        except queue.Empty:
            yield None
            continue
        if not line:
            return
        yield line


def install(lock: Path, screen: Screen) -> int:
    """Installs the lock; returns pip's exit status."""
    names = pinned(lock.read_text("utf-8"))
    progress = Progress(names, Path(sysconfig.get_path("purelib")))
    screen.say(f"installing {lock}: {len(names)} packages")
    command = [sys.executable, "-u", *PIP, "-r", str(lock)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in lines_of(process):
            if line is not None:
                progress.read(line)
            screen.show(progress)
    if process.returncode == 0:
        screen.finish(unpacked(names, progress.folder))
    else:
        screen.say("\n".join(progress.lines))
    return process.returncode


def main() -> int:
    """Returns the exit status."""
    lock = Path(sys.argv[1])
    try:
        return install(lock, Screen(sys.stdout, lock.name))
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
