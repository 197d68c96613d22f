"""`docker compose` of the documentation, carried out by engine.py: its files are read where the command names them."""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import yaml

from tests.deploy.engine import Container, Place
from tests.support.stand_ins import Answer, TypedCommand

LINE = re.compile(r"^([A-Z][A-Z0-9_]*)=(.*)$", re.MULTILINE)
WRONG = 125
"""The exit status of docker for a command that it does not have."""


class Compose:
    """The containers of our image, by name: `sends`, and with `--scale` also `sends-2` and so on."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.containers: dict[str, Container] = {}

    def answer(self, typed: TypedCommand) -> Answer:
        """Carries a command out."""
        try:
            options = parser().parse_args(typed.arguments)
            if options.command == "exec":
                done = self.containers[options.service].run(options.arguments)
                return done.stdout, done.stderr, done.returncode
            return self._up(Path(typed.folder, options.file), dict(options.scale))
        except (ValueError, KeyError, OSError) as error:
            return "", f"{type(error).__name__}: {error}\n", WRONG

    def kill(self) -> None:
        """All containers."""
        for container in self.containers.values():
            container.kill()

    def _up(self, file: Path, scale: Mapping[str, str]) -> Answer:
        """Builds the image if there is none yet, migrates, and starts what does not run."""
        whole = yaml.safe_load(file.read_text("utf-8"))
        self._place.image.build_once()
        for name, secret in whole["secrets"].items():
            shutil.copy(file.parent / secret["file"], self._place.secrets / name)
        services = {
            name: service
            for name, service in whole["services"].items()
            if "build" in service and "profiles" not in service
        }
        migration = self._container("migrate", services.pop("migrate"), file.parent)
        migration.start()
        if migration.wait():
            return "", migration.output(), 1
        for name, service in services.items():
            for number in range(1, int(scale.get(name, 1)) + 1):
                numbered = name if number == 1 else f"{name}-{number}"
                if numbered not in self.containers:
                    self.containers[numbered] = self._container(numbered, service, file.parent)
                    self.containers[numbered].start()
        return "", "", 0

    def _container(self, name: str, service: Mapping[str, Any], folder: Path) -> Container:
        settings: dict[str, str] = {}
        for file_name in service["env_file"]:
            settings |= LINE.findall((folder / file_name).read_text("utf-8"))
        return Container(self._place, name, service, settings)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def parser() -> argparse.ArgumentParser:
    """Parses the commands of Docker that the documentation has."""
    whole = _Parser(prog="docker", allow_abbrev=False)
    compose = whole.add_subparsers(required=True).add_parser("compose", allow_abbrev=False)
    compose.add_argument("-f", dest="file", required=True)
    commands = compose.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", allow_abbrev=False)
    up.add_argument("--detach", action="store_true", required=True)
    up.add_argument("--build", action="store_true")
    up.add_argument("--scale", type=lambda text: text.split("="), action="append", default=[])
    inside = commands.add_parser("exec", allow_abbrev=False)
    inside.add_argument("service")
    inside.add_argument("arguments", nargs=argparse.REMAINDER)
    return whole
