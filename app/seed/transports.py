"""Seeding named transports and routes, which belong to the installation and refer to accounts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.accounts.find import find_account
from app.db.database import Transaction
from app.errors import ServiceError
from app.infrastructure.redis_client import SENDS
from app.routing.routes import create_route, route_named, type_of, update_route
from app.routing.transports import create_transport, set_allowed, transport_named, update_transport
from app.seed.errors import located
from app.seed.report import Changes
from app.services import Services

OWN = ("enabled", "connections", "messages_per_second", "any_account")
CONDITIONS = ("sender_domain", "country_prefixes", "priority", "transports")

Entries = Sequence[Mapping[str, Any]]


def apply_routing(
    services: Services, transaction: Transaction, transports: Entries, routes: Entries, report: Changes
) -> None:
    """Transports and routes, found by their names. The routes of the file come in its order; others keep their places
    before or behind them."""
    for index, entry in enumerate(transports):
        with located(f"transports[{index}]"):
            _apply_transport(services, transaction, entry, report)
    for index, entry in enumerate(routes):
        with located(f"routes[{index}]"):
            _apply_route(transaction, entry, report)
    if report.total:
        transaction.after_commit(lambda: services.wake_ups.wake(SENDS))


def _apply_transport(services: Services, transaction: Transaction, entry: Mapping[str, Any], report: Changes) -> None:
    secret_keys = services.settings.secret_keys
    attributes = {name: entry[name] for name in OWN if name in entry}
    if attributes.get("connections") is not None and attributes["connections"].is_integer():
        attributes["connections"] = int(attributes["connections"])
    transport = transport_named(transaction, entry["name"])
    created, updated = transport is None, False
    if transport is None:
        for key in ("type", "url"):
            if key not in entry:
                raise ServiceError("required", field=key, detail="is required for a new transport")
        transport = create_transport(
            transaction, secret_keys[0], entry["name"], type_=entry["type"], url=entry["url"], **attributes
        )
    else:
        if entry.get("type", transport.type) != transport.type:
            raise ServiceError(
                "conflict", field="type", detail=f"the transport sends messages of type {transport.type}"
            )
        updated = update_transport(transaction, secret_keys, transport, attributes, entry.get("url"))
    ids = [find_account(transaction, name).id for name in entry.get("accounts", ())]
    updated |= set_allowed(transaction, transport, ids, allowed=True)
    report.count("transport", created=created, updated=updated)


def _apply_route(transaction: Transaction, entry: Mapping[str, Any], report: Changes) -> None:
    attributes = {name: entry[name] for name in CONDITIONS if name in entry}
    if "account" in entry:
        account = entry["account"]
        attributes["account_id"] = find_account(transaction, account).id if account is not None else None
    route = route_named(transaction, entry["name"])
    if route is None:
        create_route(
            transaction, entry["name"], entry.get("type") or type_of(transaction, entry["transports"]), attributes
        )
        report.count("route", created=True)
        return
    if entry.get("type", route.type) != route.type:
        raise ServiceError("conflict", field="type", detail=f"the route is for messages of type {route.type}")
    report.count("route", created=False, updated=update_route(transaction, route, attributes))
