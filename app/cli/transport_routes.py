"""`flask transports routes`: which messages go over which transports. Not `flask routes`, which lists the endpoints."""

from __future__ import annotations

from typing import Any

import click
from sqlalchemy.orm import Session

from app.addresses import MESSAGE_TYPES
from app.cli.base import CommandResult, Group, NamedItem, Row, columns, combine_options, given_options, wake_after
from app.db.database import Transaction
from app.db.models import Account, Route
from app.errors import ServiceError
from app.routing.routes import create_route, delete_route, find_route, list_routes, update_route

routes_group = Group("routes", help="Routes. A message takes the first route whose conditions it meets.")
ROUTE = NamedItem(click.argument("named", metavar="NAME"), find_route, "installation")
TABLE_COLUMNS = ("name", "type", "position", "account", "sender_domain", "country_prefixes", "priority", "transports")
ROW_COLUMNS = (*TABLE_COLUMNS, "creation_time", "last_modified_time")
attribute_options = combine_options(
    click.option("--account", metavar="NAME|ID", help="Only messages of this account."),
    click.option("--sender-domain", metavar="DOMAIN", help="Only emails from this domain."),
    click.option(
        "--country-prefix",
        "country_prefixes",
        metavar="DIGITS",
        multiple=True,
        help="Only mobile numbers that begin with these digits, such as 61. Repeatable.",
    ),
    click.option("--priority", metavar="high|normal", help="Only messages of this priority."),
    click.option(
        "--position",
        type=click.IntRange(1),
        metavar="N",
        help="Position of the route among the routes of its type.",
    ),
)
"""The options of `create` and `update`."""


def _row(session: Session, route: Route) -> Row:
    account = session.get(Account, route.account_id) if route.account_id else None
    read = {"account": account.name if account else None}
    return {name: read[name] if name in read else getattr(route, name) for name in ROW_COLUMNS}


@routes_group.reads("list", "installation", columns(*TABLE_COLUMNS))
def list_(session: Session) -> list[Row]:
    """Show all routes in the order in which they are checked."""
    return [_row(session, route) for route in list_routes(session)]


@routes_group.writes("create", "installation")
@click.argument("name")
@click.argument("transports", nargs=-1, required=True)
@click.option("--type", type=click.Choice(MESSAGE_TYPES), help="Required if `default` is the only transport.")
@attribute_options
def create(transaction: Transaction, name: str, **options: Any) -> Row:
    """Create a route over these transports. The first available transport sends."""
    made = create_route(transaction, {"name": name, **given_options(**options)})
    wake_after(transaction)
    return _row(transaction, made)


@routes_group.writes("update", ROUTE)
@click.argument("transports", nargs=-1)
@attribute_options
def update(transaction: Transaction, route: Route, **options: Any) -> Row:
    """Change the transports, the conditions or the position of a route. An empty value clears a condition."""
    attributes = given_options(**options)
    if not attributes:
        raise ServiceError("required", field="transports", detail="name at least one change")
    update_route(transaction, route, attributes)
    wake_after(transaction)
    return _row(transaction, route)


@routes_group.writes("delete", ROUTE)
def delete(transaction: Transaction, route: Route) -> CommandResult:
    """Delete a route. Its messages, including waiting ones, follow the next matching route."""
    delete_route(transaction, route)
    wake_after(transaction)
    return CommandResult(f"deleted route {route.name}", {"name": route.name, "deleted": True})
