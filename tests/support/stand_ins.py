"""Programs on the PATH of a shell that ask this process, where the real ones would be missing or too slow."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

SCRIPT = """\
import json, os, socket, sys
question = [sys.argv, sys.stdin.buffer.read().decode("latin-1"), os.getcwd(), os.environ.get("DATA_DIR")]
with socket.socket(socket.AF_UNIX) as line:
    line.connect(os.environ["STAND_IN"])
    with line.makefile("rwb") as file:
        file.write(json.dumps(question).encode() + b"\\n")
        file.flush()
        out, err, code = json.loads(file.readline())
sys.stdout.buffer.write(out.encode())
sys.stderr.buffer.write(err.encode())
sys.exit(code)
"""
LOOK_SECONDS = 0.02
"""Between two looks whether the shell has ended."""

Answer = tuple[str, str, int]
"""Standard output, standard error and exit status."""


class TypedCommand(NamedTuple):
    """What was typed: the program's name, its arguments and standard input, the folder, and DATA_DIR if it is set."""

    program: str
    arguments: list[str]
    given: bytes
    folder: str
    data_dir: str | None


class StandIns:
    """The programs that stand in for others in one shell. `environ` is what the shell needs for them."""

    def __init__(self, listener: socket.socket, path: Path, answer: Callable[[TypedCommand], Answer]) -> None:
        self._listener = listener
        self._answer = answer
        self.environ = {"STAND_IN": str(path)}

    def add(self, program: Path) -> None:
        """Writes a stand-in for a program to this path."""
        program.write_text(f"#!{sys.executable} -IS\n{SCRIPT}")
        program.chmod(0o700)

    def run(self, command: Sequence[str], **options: Any) -> int:
        """Runs a shell, and answers what it asks meanwhile. Returns its exit status."""
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)
        try:
            while process.poll() is None:
                self._answer_one()
        finally:
            process.kill()
            process.wait()
        return process.returncode

    def _answer_one(self) -> None:
        try:
            line, _ = self._listener.accept()
        except TimeoutError:
            return
        line.settimeout(None)
        with closing(line), line.makefile("rwb") as file:
            arguments, given, folder, data_dir = json.loads(file.readline())
            typed = TypedCommand(Path(arguments[0]).name, arguments[1:], given.encode("latin-1"), folder, data_dir)
            file.write(json.dumps(self._answer(typed)).encode() + b"\n")


@contextmanager
def stand_ins(folder: Path, answer: Callable[[TypedCommand], Answer]) -> Iterator[StandIns]:
    """Listens in a folder with a short path."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
        listener.listen()
        listener.settimeout(LOOK_SECONDS)
        yield StandIns(listener, folder / "socket", answer)
