"""`flask contacts export`: all contacts of a list as a CSV file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from flask.cli import with_appcontext
from sqlalchemy.orm import Session

from app.cli.acts import record_act
from app.cli.base import Command, account_option, json_option, list_option
from app.cli.csv_files import export_options, export_rows, format_to_write
from app.cli.find_contacts import find_list
from app.contacts.acts import act_on_list
from app.contacts.cells import columns_of, flat
from app.contacts.counts import number_of_contacts
from app.contacts.read import contact_shape
from app.db.models import Contact
from app.db.pages import pages_of
from app.http.context import services
from app.lists.fields import ListSpec
from app.query.grammar import parse_collection
from app.query.reader import columns, renderer


@click.command("export", cls=Command)
@export_options
@list_option
@account_option
@json_option
@with_appcontext
def export(
    file: str, *, delimiter: str | None, encoding: str | None, list_: str, account: str | None, as_json: bool
) -> None:
    """Write all contacts of a list to a CSV file, which can be imported again; - is standard output."""
    with services().database.read() as session:
        contact_list = find_list(session, account, list_)
        total = number_of_contacts(session, contact_list.id)
        pages = _pages(session, contact_list)
        form = format_to_write(delimiter, encoding)
        record_act(act_on_list("list.exported", contact_list, contacts=total))
        export_rows(file, form, columns_of(contact_list), pages, total, as_json=as_json)


def _pages(session: Session, contact_list: ListSpec) -> Iterator[list[dict[str, Any]]]:
    """The contacts, the oldest first."""
    shape = contact_shape(contact_list.value_fields)
    everything = parse_collection([], shape.resource)
    statement = columns(shape, everything).where(Contact.list_id == contact_list.id)
    show = renderer(shape, everything)
    for page in pages_of(session, statement, (Contact.creation_time, Contact.id)):
        yield [flat(show(row)) for row in page]
