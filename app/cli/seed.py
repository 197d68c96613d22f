"""`flask seed FILE`: brings the database to the state that a file describes."""

from __future__ import annotations

from pathlib import Path

import click
from flask.cli import with_appcontext

from app.cli.base import Command, WrongValue, echo, json_option, need_installation_key, print_json
from app.http.context import services
from app.seed.errors import SeedError
from app.seed.load import load_seed


@click.command("seed", cls=Command)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
@with_appcontext
def command(file: Path, as_json: bool) -> None:
    """Create or change accounts, lists, messages and other objects as described in FILE (YAML or JSON).

    An invalid file changes nothing. Loading the same file again changes nothing.
    """
    need_installation_key(services())
    try:
        report = load_seed(services(), file)
    except SeedError as error:
        raise WrongValue(str(error)) from None
    if as_json:
        print_json(report.as_json())
    else:
        echo("\n".join(report.as_lines()) or "nothing described")
