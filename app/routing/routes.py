"""Defining routes (docs/routes.md#routes).

The routes of a type have positions from 1; a message takes the first whose conditions it meets. So a route is put where
it belongs, and the others move.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.accounts.find import find_account
from app.addresses import domain_of, is_valid_email
from app.clock import this_second
from app.db.database import Transaction
from app.db.models import Route
from app.db.models.base import apply_changes
from app.errors import ServiceError
from app.routing.table import DEFAULT_TRANSPORT, renew_version
from app.routing.transports import check_name_and_type, find_transport

PREFIX_FORM = re.compile(r"[1-9][0-9]{0,14}")
PRIORITIES = ("high", "normal")
MAX_TRANSPORTS = 10
MAX_PREFIXES = 300
ATTRIBUTES = ("account_id", "sender_domain", "priority", "country_prefixes", "transports")


def list_routes(session: Session) -> list[Route]:
    """All routes in the order in which they are looked at, those of emails first."""
    return list(session.scalars(select(Route).order_by(Route.type, Route.position, Route.id)))


def route_named(session: Session, name: str) -> Route | None:
    """The route with that name."""
    return session.scalars(select(Route).where(Route.name == name)).first()


def find_route(session: Session, name: str) -> Route:
    """The route with that name. Raises `ServiceError` (`invalid_id`)."""
    route = route_named(session, name)
    if route is None:
        raise ServiceError("invalid_id", field="route", detail=f"there is no route {name!r}")
    return route


def create_route(transaction: Transaction, values: Mapping[str, Any]) -> Route:
    """Adds a route. `values` are `name`, `transports`, `account` by its name or id, any of the other `ATTRIBUTES`,
    `type`, by default that of the transports, and `position` among the routes of its type, by default the last.

    Raises `ServiceError`: `conflict` for a name that is taken, others for values that cannot be used.
    """
    values = _with_account_id(transaction, values)
    name, type_ = values["name"], values.get("type") or _type_of(transaction, values["transports"])
    check_name_and_type(name, type_)
    if route_named(transaction, name) is not None:
        raise ServiceError("conflict", field="name", detail=f"there is already a route {name!r}")
    moment = this_second()
    route = Route(
        name=name,
        type=type_,
        position=0,
        creation_time=moment,
        last_modified_time=moment,
        **{"country_prefixes": [], **_checked_values(transaction, type_, values)},
    )
    others = _routes_of_type(transaction, type_)
    transaction.add(route)
    _place(route, others, values.get("position", len(others) + 1))
    renew_version(transaction)
    return route


def update_route(transaction: Transaction, route: Route, values: Mapping[str, Any]) -> bool:
    """Changes the attributes that are given, and the position; returns whether anything differed. Raises
    `ServiceError` like `create_route`, and `conflict` for another type."""
    if values.get("type", route.type) != route.type:
        raise ServiceError("conflict", field="type", detail=f"the route is for messages of type {route.type}")
    values = _with_account_id(transaction, values)
    changed = apply_changes(route, _checked_values(transaction, route.type, values))
    position = values.get("position", route.position)
    if position != route.position:
        others = [other for other in _routes_of_type(transaction, route.type) if other is not route]
        _place(route, others, position)
        changed = True
    if changed:
        renew_version(transaction)
    return changed


def _type_of(session: Session, names: Sequence[str]) -> str:
    """The type of the messages that these transports send. Raises `ServiceError` if none of them says so."""
    types = [find_transport(session, name).type for name in names if name != DEFAULT_TRANSPORT]
    if not types:
        raise ServiceError("required", field="type", detail="is required: email or sms")
    return types[0]


def delete_route(transaction: Transaction, route: Route) -> None:
    """Deletes a route: its messages, also those that wait, go where the routes after it send them."""
    others = [other for other in _routes_of_type(transaction, route.type) if other is not route]
    transaction.delete(route)
    _number(others)
    renew_version(transaction)


def _routes_of_type(session: Session, type_: str) -> list[Route]:
    return list(session.scalars(select(Route).where(Route.type == type_).order_by(Route.position, Route.id)))


def _place(route: Route, others: list[Route], position: int) -> None:
    if not 1 <= position <= len(others) + 1:
        raise ServiceError("invalid_range", field="position", detail=f"must be 1 to {len(others) + 1}")
    _number([*others[: position - 1], route, *others[position - 1 :]])


def _number(routes: Sequence[Route]) -> None:
    for position, route in enumerate(routes, 1):
        if route.position != position:
            route.position = position


def _with_account_id(session: Session, values: Mapping[str, Any]) -> Mapping[str, Any]:
    if "account" not in values:
        return values
    account = values["account"]
    return {**values, "account_id": None if account is None else find_account(session, account).id}


def _checked_values(session: Session, type_: str, values: Mapping[str, Any]) -> dict[str, Any]:
    checked = {name: values[name] for name in ATTRIBUTES if name in values}
    if "transports" in checked:
        _check_transports(session, type_, checked["transports"])
    if checked.get("sender_domain") is not None:
        checked["sender_domain"] = _sender_domain(type_, checked["sender_domain"])
    if checked.get("priority") not in (None, *PRIORITIES):
        detail = f"{checked['priority']!r} is not one of {', '.join(PRIORITIES)}"
        raise ServiceError("invalid_string", field="priority", detail=detail)
    if checked.get("country_prefixes"):
        _check_prefixes(type_, checked["country_prefixes"])
    return checked


def _check_transports(session: Session, type_: str, names: Sequence[str]) -> None:
    if not 1 <= len(names) <= MAX_TRANSPORTS:
        raise ServiceError("invalid_range", field="transports", detail=f"must be 1 to {MAX_TRANSPORTS} names")
    if len({*names}) < len(names):
        raise ServiceError("conflict", field="transports", detail="a transport is named twice")
    for name in names:
        if name != DEFAULT_TRANSPORT and find_transport(session, name).type != type_:
            raise ServiceError(
                "conflict", field="transports", detail=f"{name!r} does not send messages of type {type_}"
            )


def _sender_domain(type_: str, domain: str) -> str:
    if type_ != "email":
        raise ServiceError("unexpected_field", field="sender_domain", detail="only emails have a sender domain")
    if not is_valid_email(f"a@{domain}"):
        raise ServiceError("invalid_string", field="sender_domain", detail=f"{domain!r} is not a domain")
    return domain_of(f"a@{domain}")


def _check_prefixes(type_: str, prefixes: Sequence[str]) -> None:
    if type_ != "sms":
        raise ServiceError("unexpected_field", field="country_prefixes", detail="only mobile numbers have a prefix")
    if len(prefixes) > MAX_PREFIXES:
        raise ServiceError("too_long", field="country_prefixes", detail=f"must be at most {MAX_PREFIXES}")
    for prefix in prefixes:
        if not PREFIX_FORM.fullmatch(prefix):
            detail = f"{prefix!r} is not the beginning of a mobile number, such as 61"
            raise ServiceError("invalid_string", field="country_prefixes", detail=detail)
