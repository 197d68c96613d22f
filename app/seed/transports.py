"""Seeding named transports and routes, which belong to the installation and refer to accounts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.db.database import Transaction
from app.infrastructure.redis_client import SENDS
from app.routing.routes import create_route, route_named, update_route
from app.routing.transports import create_transport, transport_named, update_transport
from app.seed.errors import located
from app.seed.report import Changes
from app.services import Services

Entries = Sequence[Mapping[str, Any]]


def apply_routing(
    services: Services, transaction: Transaction, transports: Entries, routes: Entries, report: Changes
) -> None:
    """Transports and routes, found by their names. The routes of the file come in its order; others keep their places
    before or behind them."""
    secret_keys = services.settings.secret_keys
    for index, entry in enumerate(transports):
        with located(f"transports[{index}]"):
            transport = transport_named(transaction, entry["name"])
            updated = transport is not None and update_transport(transaction, secret_keys, transport, entry)
            if transport is None:
                create_transport(transaction, secret_keys, entry)
        report.count("transport", created=transport is None, updated=updated)
    for index, entry in enumerate(routes):
        with located(f"routes[{index}]"):
            route = route_named(transaction, entry["name"])
            updated = route is not None and update_route(transaction, route, entry)
            if route is None:
                create_route(transaction, entry)
        report.count("route", created=route is None, updated=updated)
    if report.total:
        transaction.after_commit(lambda: services.wake_ups.wake(SENDS))
