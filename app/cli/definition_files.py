"""Files with the definition of an automation, and the errors of what they say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from app.automations.parse import Draft, read_definition
from app.cli.base import WrongValue
from app.errors import ServiceError
from app.seed.read import read_file
from app.seed.shape import SeedError

file_argument = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))


@contextmanager
def paths_shown() -> Iterator[None]:
    """Begins each error of a definition with its path."""
    try:
        yield
    except ServiceError as error:
        lines = (f"{one.field}: {one.detail}" if one.field else one.developer_message for one in error.errors)
        raise WrongValue("\n       ".join(lines)) from None


def definition_in(file: Path) -> Draft:
    """The definition in a file of YAML or JSON; what is wrong with it is shown with what its account does not have."""
    try:
        with paths_shown():
            return read_definition(read_file(file, {}))
    except SeedError as error:
        raise WrongValue(f"{file}: {error}") from None
