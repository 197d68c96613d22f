"""`flask contacts import` and `export`: contacts in CSV files, UTF-8 with a header line that names the attributes.

An import changes nothing unless every line is valid. It is one transaction: on SQLite other writers wait meanwhile.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from flask.cli import with_appcontext
from sqlalchemy.orm import Session

from app.cli.base import Command, WrongValue, account_option, echo, json_option, list_option, print_json
from app.cli.cells import cell, column_key, columns_of, contact_from_cells, flat, from_cell
from app.cli.find_contacts import find_list
from app.contacts.counts import number_of_contacts
from app.contacts.read import contact_shape
from app.contacts.upsert import upsert_contacts
from app.db.models import Contact
from app.errors import FieldError, ServiceError
from app.http.context import services
from app.lists.fields import ListSpec
from app.query.grammar import parse_collection
from app.query.reader import columns, renderer

MOST_SHOWN = 20
"""Invalid lines that an import lists."""
PAGE_SIZE = 1000

Fault = tuple[int, FieldError]
"""A line number of the file and an error in it."""


def _no_terminal() -> bool:
    """Whether standard error, where progress is shown, is not a terminal."""
    return not sys.stderr.isatty()


@click.command("import", cls=Command)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@list_option
@account_option
@json_option
@with_appcontext
def import_(file: Path, list_: str, account: str | None, as_json: bool) -> None:
    """Create or update contacts from a CSV file.

    Contacts are found by their email, or by their mobile in a list without emails; missing ones are created. Columns
    are named by keys or names of fields, or subscribed.email, subscribed.mobile, is_active, double_opt_in. An empty
    cell changes nothing. Nothing is imported unless every line is valid.
    """
    with services().database.read() as session:
        contact_list = find_list(session, account, list_)
    lines, contacts = _read(contact_list, file)
    with (
        click.progressbar(length=len(contacts), label="Importing", file=sys.stderr, hidden=_no_terminal()) as bar,
        services().database.write() as transaction,
    ):
        try:
            upserted = upsert_contacts(transaction, contact_list, contacts, allow_system=True, on_progress=bar.update)
        except ServiceError as error:
            raise _refusal([(lines[one.index or 0], one) for one in error.errors]) from None
    if as_json:
        print_json({"created": upserted.created, "updated": upserted.updated})
    else:
        unchanged = len(contacts) - upserted.created - upserted.updated
        echo(f"{upserted.created} created, {upserted.updated} updated, {unchanged} unchanged")


def _read(contact_list: ListSpec, file: Path) -> tuple[list[int], list[dict[str, Any]]]:
    """The line numbers and their contacts. Raises `WrongValue`, which lists the invalid lines."""
    lines: list[int] = []
    contacts: list[dict[str, Any]] = []
    faults: list[Fault] = []
    try:
        with file.open(encoding="utf-8-sig", newline="") as source:
            reader = csv.reader(source, strict=True)
            head = _head(contact_list, next(reader, []))
            for row in reader:
                if not row:
                    continue
                if len(row) != len(head):
                    raise WrongValue(f"line {reader.line_num}: has {len(row)} cells, the head has {len(head)}")
                cells = dict(zip(head, map(from_cell, row), strict=True))
                attributes, errors = contact_from_cells(contact_list, cells, clear=False)
                lines.append(reader.line_num)
                contacts.append(attributes)
                faults += [(reader.line_num, error) for error in errors]
    except UnicodeDecodeError:
        raise WrongValue(f"{file} is not UTF-8") from None
    except csv.Error as error:
        raise WrongValue(f"line {reader.line_num}: {error}") from None
    if faults:
        raise _refusal(faults)
    return lines, contacts


def _head(contact_list: ListSpec, names: list[str]) -> list[str]:
    if not names:
        raise WrongValue("the file is empty; its first line names the columns")
    keys: dict[str, None] = {}
    for name in names:
        key = column_key(contact_list, name)
        if key is None:
            raise WrongValue(f"line 1: column {name!r} is none of {', '.join(columns_of(contact_list))}")
        if key in keys:
            raise WrongValue(f"line 1: two columns are {key}")
        keys[key] = None
    return list(keys)


def _refusal(faults: list[Fault]) -> WrongValue:
    lines = [f"line {line}: {error.developer_message}" for line, error in faults[:MOST_SHOWN]]
    if len(faults) == 1:
        return WrongValue(lines[0])
    if len(faults) > MOST_SHOWN:
        lines.append(f"and {len(faults) - MOST_SHOWN} more")
    return WrongValue("\n  ".join(["nothing was imported:", *lines]))


@click.command("export", cls=Command)
@click.argument("file", type=click.Path(dir_okay=False, writable=True, path_type=Path))
@list_option
@account_option
@json_option
@with_appcontext
def export(file: Path, list_: str, account: str | None, as_json: bool) -> None:
    """Write all contacts of a list to a CSV file, which can be imported again."""
    with services().database.read() as session:
        contact_list = find_list(session, account, list_)
        total = number_of_contacts(session, contact_list.id)
        head = columns_of(contact_list)
        progress = click.progressbar(length=total, label="Exporting", file=sys.stderr, hidden=_no_terminal())
        with progress as bar, file.open("w", encoding="utf-8", newline="") as target:
            # Quoted, so that a semicolon in a text does not start a new cell in locales where it is the separator.
            writer = csv.writer(target, lineterminator="\n", quoting=csv.QUOTE_ALL)
            writer.writerow(head)
            written = 0
            for page in _pages(session, contact_list):
                writer.writerows([cell(row[column]) for column in head] for row in page)
                written += len(page)
                bar.update(len(page))
    if as_json:
        print_json({"exported": written})
    else:
        echo(f"{written} exported to {file}")


def _pages(session: Session, contact_list: ListSpec) -> Iterator[list[dict[str, Any]]]:
    """The contacts in the order of their ids, a thousand at a time, so that the cost of a page does not grow."""
    shape = contact_shape(contact_list.value_fields)
    everything = parse_collection([], shape.resource)
    statement = (
        columns(shape, everything).where(Contact.list_id == contact_list.id).order_by(Contact.id).limit(PAGE_SIZE)
    )
    show = renderer(shape, everything)
    last = 0
    while found := session.execute(statement.where(Contact.id > last)).all():
        yield [flat(show(row)) for row in found]
        last = found[-1].id
