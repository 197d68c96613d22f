"""The files of `deploy/`, parsed: the Containerfile, the compose file and the units of systemd."""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click
import yaml

from app.infrastructure.redis_client import JOBS
from app.settings import Settings, in_file, variable_of
from app.tms import script_info, tms

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = DEPLOY / "systemd"
KUBERNETES = DEPLOY / "kubernetes"
ASSIGNMENT = re.compile(r"^#?([A-Z][A-Z0-9_]*)=(.*)$", re.MULTILINE)
SETTINGS = {variable_of(field) for field in fields(Settings)}
FILES = {in_file(variable_of(field)) for field in fields(Settings) if field.metadata["secret"]}


@dataclass(frozen=True)
class Instruction:
    """One line of the Containerfile, continued lines joined, with the values of its arguments."""

    name: str
    text: str

    @property
    def parts(self) -> list[str]:
        """The arguments in the form of a JSON list."""
        words: list[str] = json.loads(self.text)
        return words

    @property
    def words(self) -> list[str]:
        """The arguments as a shell splits them, without options."""
        return [word for word in shlex.split(self.text) if not word.startswith("--")]

    def option(self, name: str) -> str | None:
        """The value of `--name=value`."""
        match = re.search(rf"--{name}=(\S+)", self.text)
        return match[1] if match else None


def stages() -> list[list[Instruction]]:
    """The stages of the Containerfile, each from its FROM on."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Containerfile").read_text("utf-8"), flags=re.MULTILINE)
    sections: list[list[Instruction]] = []
    for line in text.replace("\\\n", " ").splitlines():
        name, _, rest = line.strip().partition(" ")
        if name == "FROM":
            sections.append([])
        if name and sections:
            sections[-1].append(Instruction(name, " ".join(rest.split())))
    return sections


def environment_of_image() -> dict[str, str]:
    """What ENV sets in the last stage."""
    pairs = [
        word.split("=", 1) for instruction in stages()[-1] if instruction.name == "ENV" for word in instruction.words
    ]
    return dict(pairs)


def manifests(path: Path | None = None) -> list[dict[str, Any]]:
    """The manifests of Kubernetes in a file, or in all of them."""
    paths = [path] if path else sorted(KUBERNETES.rglob("*.yaml"))
    return [item for each in paths for item in yaml.safe_load_all(each.read_text("utf-8"))]


def is_in_context(path: str) -> bool:
    """Whether the file of the repository is sent to the build, by the lines of the ignore file."""
    included = True
    for line in (DEPLOY / "Containerfile.dockerignore").read_text("utf-8").splitlines():
        pattern = line.strip().removeprefix("!")
        if not pattern or pattern.startswith("#"):
            continue
        parts = path.split("/")
        above = ["/".join(parts[: number + 1]) for number in range(len(parts))]
        anywhere = pattern.removeprefix("**/")
        if any(fnmatch.fnmatch(folder, pattern) for folder in above) or (anywhere != pattern and anywhere in parts):
            included = line.startswith("!")
    return included


def compose() -> dict[str, Any]:
    """The compose file."""
    content: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    return content


def own_services() -> dict[str, dict[str, Any]]:
    """The services of the compose file that run our image; not those that `up` leaves alone."""
    return {
        name: service
        for name, service in compose()["services"].items()
        if "build" in service and "profiles" not in service
    }


@dataclass(frozen=True)
class Unit:
    """A unit of systemd, or a drop-in of units."""

    path: Path

    def values(self, section: str, name: str) -> list[str]:
        """The values of a setting, in order."""
        current, texts = "", []
        for line in self.path.read_text("utf-8").splitlines():
            if header := re.fullmatch(r"\[(\w+)\]", line):
                current = header[1]
            elif not line.startswith("#") and current == section and line.startswith(f"{name}="):
                texts.append(line.partition("=")[2])
        return texts

    def value(self, section: str, name: str) -> str | None:
        """The only value."""
        values = self.values(section, name)
        assert len(values) < 2, f"{self.path.name}: {name} is set more than once"
        return values[0] if values else None


def units() -> list[Unit]:
    """The services."""
    return [Unit(path) for path in sorted(UNITS.glob("*.service"))]


SANDBOX = Unit(UNITS / "tms-.service.d" / "10-sandbox.conf")


def wrong_command(arguments: list[str]) -> str:
    """Why `tms` does not take the arguments; nothing if it does."""
    group: click.Command | None = tms
    context = click.Context(tms, obj=script_info())
    rest = list(arguments)
    while isinstance(group, click.Group) and rest and not rest[0].startswith("-"):
        group = group.get_command(context, rest.pop(0))
    if group is None or (isinstance(group, click.Group) and not group.invoke_without_command):
        return f"there is no command tms {shlex.join(arguments)}"
    if arguments[0] == "worker":
        return "".join(f"there is no queue {name}" for name in rest if name not in JOBS)
    try:
        group.make_context(arguments[0], rest, parent=context)
    except click.ClickException as error:
        return error.format_message()
    return ""


def processes() -> set[tuple[str, ...]]:
    """The arguments of `tms` for the processes of the Procfile."""
    modules = {
        "gunicorn": "web",
        "jobs.worker": "worker",
        "jobs.schedule": "scheduler",
        "jobs.inbound": "inbound",
        "jobs.submission": "submission",
    }
    commands = set()
    for line in (ROOT / "Procfile").read_text("utf-8").splitlines():
        module, *arguments = line.partition(" -m ")[2].split()
        commands.add((modules[module], *(arguments if module == "jobs.worker" else ())))
    return commands
