"""`flask suppressions export`: unsubscribed and blocked addresses as a CSV file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import click
from flask.cli import with_appcontext
from sqlalchemy import func, literal, null, select
from sqlalchemy.orm import Session

from app.accounts.find import find_account
from app.audit.record import Act
from app.cli.acts import record_act
from app.cli.base import Command, account_option, json_option
from app.cli.csv_files import Rows, export_options, export_rows, format_to_write
from app.db.address_digests import PREFIX
from app.db.copied_ids import shown
from app.db.models import BlockedAddress, List, Unsubscriber
from app.db.pages import pages_of
from app.http.context import services

COLUMNS = ("state", "kind", "address", "list_id", "list", "reason", "creation_time", "reply")
Model = type[Unsubscriber | BlockedAddress]
MODELS: dict[str, Model] = {"unsubscribed": Unsubscriber, "blocked": BlockedAddress}


@click.command("export", cls=Command)
@export_options
@click.option("--state", type=click.Choice(tuple(MODELS)), help="Only these.")
@account_option
@json_option
@with_appcontext
def export(
    file: str, *, delimiter: str | None, encoding: str | None, state: str | None, account: str | None, as_json: bool
) -> None:
    """Write the suppressed addresses of an account to a CSV file; - is standard output."""
    states = tuple(MODELS) if state is None else (state,)
    with services().database.read() as session:
        account_id = find_account(session, account).id
        total = sum(_number(session, MODELS[one], account_id) for one in states)
        pages = chain.from_iterable(_pages(session, one, account_id) for one in states)
        record_act(Act("suppression.exported", account_id, counts={"suppressions": total}))
        export_rows(file, format_to_write(delimiter, encoding), COLUMNS, pages, total, as_json=as_json)


def _number(session: Session, model: Model, account_id: int) -> int:
    return session.execute(select(func.count(model.id)).where(*_exported(model, account_id))).scalar_one()


def _pages(session: Session, state: str, account_id: int) -> Iterator[Rows]:
    """The entries by address."""
    model = MODELS[state]
    statement = _entries(state).where(*_exported(model, account_id))
    for page in pages_of(session, statement, (model.kind, model.address, model.id)):
        yield [dict(zip(COLUMNS, row, strict=False)) for row in page]


def _exported(model: Model, account_id: int) -> tuple[Any, ...]:
    """Without those of forgotten people: a digest is of no use elsewhere (docs/privacy.md#what-is-kept)."""
    return model.account_id == account_id, ~model.address.startswith(PREFIX)


def _entries(state: str) -> Any:
    if state == "blocked":
        blocked = BlockedAddress
        entry = blocked.kind, blocked.address, null(), null(), blocked.reason, blocked.creation_time, blocked.reply
        return select(literal(state), *entry)
    one = Unsubscriber
    listed = one.kind, one.address, shown(one.list_id), List.name, null(), one.creation_time, null()
    return select(literal(state), *listed).outerjoin(List, List.id == one.list_id)
