"""`flask contacts import`: contacts from a CSV file (docs/cli.md#csv-files)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from flask.cli import with_appcontext

from app.cli.base import Command, WrongValue, account_option, json_option, list_option
from app.cli.csv_files import STANDARD, csv_source, format_options
from app.cli.find_contacts import find_list
from app.cli.import_columns import parse_mapping
from app.cli.import_file import FileImport, ImportOptions
from app.http.context import services


@click.command("import", cls=Command)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@list_option
@account_option
@format_options
@click.option("--map", "mapping", multiple=True, metavar="COLUMN=KEY", help="What a column is; no KEY leaves it out.")
@click.option(
    "--empty-clears", is_flag=True, help="An empty cell makes the field null; otherwise it leaves it as it is."
)
@click.option("--dry-run", is_flag=True, help="Say what would happen, and store nothing.")
@click.option("--skip-faulty", is_flag=True, help="Import the valid rows although others are faulty.")
@click.option("--rejects", metavar="FILE", help="Write the faulty rows to this file, with the reasons.")
@click.option("--resume", is_flag=True, help="Go on where the import of this file was interrupted.")
@json_option
@with_appcontext
def import_(file: str, *, list_: str, account: str | None, mapping: tuple[str, ...], **given: Any) -> None:
    """Create or update contacts from a CSV file; - is standard input.

    Contacts are found by their email, or by their mobile in a list without emails; missing ones are created. Columns
    are named by keys or names of fields, or subscribed.email, subscribed.mobile, is_active, double_opt_in. An empty
    cell leaves a field as it is, and clears it only with --empty-clears. Nothing is imported unless every row is valid.
    Encoding and delimiter are found.
    """
    options, database = ImportOptions(**given), services().database
    _check(file, options)
    with database.read() as session:
        contact_list = find_list(session, account, list_)
    work = FileImport(database, contact_list, parse_mapping(contact_list, mapping), options)
    with csv_source(file) as source:
        work.run(source)


def _check(file: str, options: ImportOptions) -> None:
    if options.rejects is None:
        return
    if not options.skip_faulty:
        raise WrongValue("--rejects FILE needs --skip-faulty: otherwise nothing is imported while a row is faulty")
    target = Path(options.rejects)
    if STANDARD not in (file, options.rejects) and target.exists() and target.samefile(file):
        raise WrongValue("--rejects must name another file than the one that is imported")
