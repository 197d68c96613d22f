"""`flask transports routes`: which messages go over which transports. Not `flask routes`, which lists the endpoints."""

from __future__ import annotations

from typing import Any

import click
from sqlalchemy.orm import Session

from app.accounts.find import find_account
from app.addresses import MESSAGE_TYPES
from app.cli.base import Group, Row, json_option, print_done, print_row, print_rows, wake_after
from app.db.models import Account, Route
from app.errors import ServiceError
from app.http.context import services
from app.routing.routes import create_route, delete_route, find_route, list_routes, type_of, update_route

routes_group = Group("routes", help="Routes: a message takes the first route whose conditions it meets.")


def attribute_options(command: Any) -> Any:
    """The options of `create` and `update`."""
    for option in (
        click.option("--position", type=click.IntRange(1), metavar="N", help="Its place in the order of its type."),
        click.option("--priority", metavar="high|normal", help="Only messages of this priority."),
        click.option(
            "--country-prefix",
            metavar="DIGITS",
            multiple=True,
            help="Only mobiles that begin so, such as 61; repeatable.",
        ),
        click.option("--sender-domain", metavar="DOMAIN", help="Only emails from this domain."),
        click.option("--account", metavar="NAME|ID", help="Only messages of this account."),
    ):
        command = option(command)
    return command


def _attributes(
    session: Session,
    *,
    account: str | None,
    sender_domain: str | None,
    country_prefix: tuple[str, ...],
    priority: str | None,
) -> dict[str, Any]:
    """The attributes that were given; an empty text clears a condition."""
    attributes: dict[str, Any] = {}
    if account is not None:
        attributes["account_id"] = find_account(session, account).id if account else None
    if sender_domain is not None:
        attributes["sender_domain"] = sender_domain or None
    if priority is not None:
        attributes["priority"] = priority or None
    if country_prefix:
        attributes["country_prefixes"] = [prefix for prefix in country_prefix if prefix]
    return attributes


def _row(session: Session, route: Route) -> Row:
    account = session.get(Account, route.account_id) if route.account_id else None
    return {
        "name": route.name,
        "type": route.type,
        "position": route.position,
        "account": account.name if account else None,
        "sender_domain": route.sender_domain,
        "country_prefixes": route.country_prefixes,
        "priority": route.priority,
        "transports": route.transports,
        "creation_time": route.creation_time,
        "last_modified_time": route.last_modified_time,
    }


@routes_group.command("list")
@json_option
def list_(as_json: bool) -> None:
    """Show all routes in the order in which they are looked at."""
    with services().database.read() as session:
        rows = [_row(session, route) for route in list_routes(session)]
    shown = ("name", "type", "position", "account", "sender_domain", "country_prefixes", "priority", "transports")
    print_rows(rows if as_json else [{name: row[name] for name in shown} for row in rows], as_json)


@routes_group.command("create")
@click.argument("name")
@click.argument("transports", nargs=-1, required=True)
@click.option("--type", "type_", type=click.Choice(MESSAGE_TYPES), help="Needed only if `default` stands alone.")
@attribute_options
@json_option
def create(
    *, name: str, transports: tuple[str, ...], type_: str | None, position: int | None, as_json: bool, **options: Any
) -> None:
    """Create a route over these transports: the first one that is available sends."""
    with services().database.write() as transaction:
        attributes = {**_attributes(transaction, **options), "transports": list(transports)}
        wanted = type_ or type_of(transaction, transports)
        row = _row(transaction, create_route(transaction, name, wanted, attributes, position=position))
        wake_after(transaction)
    print_row(row, as_json)


@routes_group.command("update")
@click.argument("name")
@click.argument("transports", nargs=-1)
@attribute_options
@json_option
def update(*, name: str, transports: tuple[str, ...], position: int | None, as_json: bool, **options: Any) -> None:
    """Change the transports of a route, its conditions or its position; an empty text clears a condition."""
    with services().database.write() as transaction:
        route = find_route(transaction, name)
        attributes = _attributes(transaction, **options)
        if transports:
            attributes["transports"] = list(transports)
        if not attributes and position is None:
            raise ServiceError("required", field="transports", detail="name what is to change")
        update_route(transaction, route, attributes, position=position)
        wake_after(transaction)
        row = _row(transaction, route)
    print_row(row, as_json)


@routes_group.command("delete")
@click.argument("name")
@json_option
def delete(name: str, as_json: bool) -> None:
    """Delete a route; its messages, also those that wait, go where the routes after it send them."""
    with services().database.write() as transaction:
        delete_route(transaction, find_route(transaction, name))
        wake_after(transaction)
    print_done(f"deleted route {name}", {"name": name, "deleted": True}, as_json)
