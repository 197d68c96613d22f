"""A shell for the blocks of one page. It is the machine's bash, and curl is the machine's; `flask`, `tms` and `make`
are stand-ins that ask this process, because starting the command line would take a second each time.
"""

from __future__ import annotations

import importlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from click import ClickException
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from flask.cli import ScriptInfo

from app.cli.processes import PROCESSES
from app.distribution import COMMAND_LINE
from app.tms import tms
from tests.docs.world import Place, World
from tests.support.stand_ins import Answer, TypedCommand, stand_ins

ROOT = Path(__file__).parents[2]
SCRIPT = """\
set -aeuo pipefail
. "$STATE"
trap 'export -p > "$STATE"' EXIT
"""
CURLRC = 'silent\nshow-error\nwrite-out = "%{stderr}status %{http_code}\\n"\n'
STATUS = re.compile(r"^status (\d{3})\n", re.MULTILINE)
PROGRAM = re.compile(r"\bpython -m (tests\.chaos|bench|bench\.growth)(?: (.*))?$", re.MULTILINE)
PARSERS = {
    "tests.chaos": ("tests.chaos.__main__", "parse"),
    "bench": ("bench.__main__", "parse"),
    "bench.growth": ("bench.growth", "parse"),
}
"""The programs behind targets of the Makefile that take ARGS, and what parses these."""
MAKE_VARIABLES = ("MAKE", "MFLAGS", "ARGS")
"""How the names of variables begin that `make test` itself has set: they are no part of a block."""


@dataclass(frozen=True)
class Ran:
    """What a block has printed, its exit status, and those of its requests."""

    stdout: str
    stderr: str
    code: int
    statuses: tuple[int, ...] = ()


class Programs(Protocol):
    """What runs the commands: stand-ins, or the machine. `environ` is what the shell needs for them."""

    @property
    def environ(self) -> Mapping[str, str]: ...

    def run(self, command: Sequence[str], **options: Any) -> int:
        """Runs a shell, and returns its exit status."""


class Shell:
    """Variables that a block sets are there in the next one, as in the shell of a reader. `scratch` is an empty folder
    of its own."""

    def __init__(self, place: Place, programs: Programs, scratch: Path) -> None:
        self._folder = place.folder
        self._programs = programs
        self._scratch = scratch
        (scratch / ".curlrc").write_text(CURLRC)
        (scratch / "state").touch()
        self._environment = {
            "PATH": f"{self._scratch}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self._scratch),
            "CURL_HOME": str(self._scratch),
            **programs.environ,
            "STATE": str(self._scratch / "state"),
            "LC_ALL": "C.UTF-8",
            "BASE": place.base,
            "KEY": place.token,
            "RECIPIENT": "bounces+unknown@bounces.example.com",
        }

    def run(self, commands: str) -> Ran:
        """Runs the commands of a block until one fails."""
        script, out, err = (self._scratch / name for name in ("script", "out", "err"))
        script.write_text(SCRIPT + commands, "utf-8")
        with out.open("wb") as stdout, err.open("wb") as stderr:
            code = self._programs.run(
                ["bash", str(script)], cwd=self._folder, env=self._environment, stdout=stdout, stderr=stderr
            )
        errors = err.read_text("utf-8")
        statuses = tuple(map(int, STATUS.findall(errors)))
        return Ran(out.read_text("utf-8"), STATUS.sub("", errors), code, statuses)


@contextmanager
def shell(world: World) -> Iterator[Shell]:
    """A shell in the folder of a world, which gets the stand-ins."""
    scratch, environment = world.folder / ".shell", world.folder / ".venv" / "bin"
    scratch.mkdir()
    environment.mkdir(parents=True)
    key = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (world.folder / "private.pem").write_bytes(key)
    (world.folder / "examples").symlink_to(ROOT / "examples")
    (world.folder / "message").write_bytes(b"From: ann@example.com\nSubject: Out of office\n\nUntil Monday.\n")
    with stand_ins(scratch, lambda typed: _answer(world, typed)) as programs:
        for program in (scratch / "flask", scratch / "tms", scratch / "make", environment / "flask"):
            programs.add(program)
        yield Shell(world, programs, scratch)


def _answer(world: World, typed: TypedCommand) -> Answer:
    answer = {"flask": _flask, "tms": _tms, "make": _make}[typed.program]
    with chdir(typed.folder), world.with_data_dir(typed.data_dir) as world_of_command:
        return answer(world_of_command, typed.arguments, typed.given)


def _flask(world: World, arguments: list[str], given: bytes) -> Answer:
    """Runs a command of the service in this process."""
    if arguments[:2] != ["--app", "wsgi"]:
        return "", f"flask {shlex.join(arguments)}: --app wsgi is missing\n", 2
    result = world.app.test_cli_runner().invoke(args=arguments[2:], input=given)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.stdout, result.stderr, result.exit_code


def _tms(world: World, arguments: list[str], given: bytes) -> Answer:
    """Runs a command of `tms` in this process, which names other commands as an installed service does. For a command
    that would become a process, only the arguments are checked."""
    name, *rest = arguments or ["--help"]
    try:
        if name in PROCESSES:
            PROCESSES[name].make_context(name, rest)
            return "", "", 0
    except ClickException as error:
        return "", f"Error: {error.format_message()}\n", error.exit_code
    script = ScriptInfo(create_app=lambda: world.app, set_debug_flag=False)
    result = CliRunner().invoke(tms, arguments, input=given, obj=script)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    stdout, stderr = (text.replace(COMMAND_LINE, "tms") for text in (result.stdout, result.stderr))
    return stdout, stderr, result.exit_code


def _make(_world: World, arguments: list[str], _given: bytes) -> Answer:
    """Whether there is such a target, and whether its program would take the arguments. Nothing is made."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(MAKE_VARIABLES)}
    command = [shutil.which("make") or "make", "--dry-run", *arguments]
    planned = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    for module, text in PROGRAM.findall(planned.stdout):
        parser, name = PARSERS[module]
        parse: Callable[[list[str]], object] = getattr(importlib.import_module(parser), name)
        try:
            parse(shlex.split(text))
        except SystemExit as refused:
            return "", f"{module} refuses {text}\n", int(refused.code or 1)
    return "", planned.stderr, planned.returncode
