"""Named transports and routes of a test, which belong to the whole installation: they are deleted after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete

from app.db.models import QueueEntry, Route, RoutingVersion, Transport
from app.routing.routes import create_route
from app.routing.transports import (
    create_transport,
    delete_transport,
    find_transport,
    list_transports,
    set_allowed,
    update_transport,
)
from app.secret_keys import SecretKeys
from app.services import Services
from tests.support.tenants import unique


@dataclass
class Routing:
    """Adds transports and routes; routes are for one account only, unless they say otherwise."""

    services: Services
    account_id: int

    def transport(self, url: str, type_: str = "email", *, allowed: bool = False, **attributes: Any) -> str:
        """A transport; returns its name."""
        name = unique("t")
        with self.services.database.write() as transaction:
            values = {"name": name, "type": type_, "url": url, **attributes}
            made = create_transport(transaction, self._secrets, values)
            set_allowed(transaction, made, [str(self.account_id)] if allowed else [], allowed=True)
        return name

    def change(self, name: str, **values: Any) -> None:
        """Changes a transport."""
        with self.services.database.write() as transaction:
            update_transport(transaction, self._secrets, find_transport(transaction, name), values)

    def delete(self, name: str) -> None:
        """Deletes a transport."""
        with self.services.database.write() as transaction:
            delete_transport(transaction, find_transport(transaction, name))

    def route(self, *transports: str, type_: str = "email", **further: Any) -> str:
        """A route over these transports; returns its name."""
        name = unique("r")
        values = {"name": name, "type": type_, "account": str(self.account_id), "transports": list(transports)}
        with self.services.database.write() as transaction:
            create_route(transaction, values | further)
        return name

    def names(self) -> list[str]:
        """The names of all transports."""
        with self.services.database.read() as session:
            return [transport.name for transport in list_transports(session)]

    @property
    def _secrets(self) -> SecretKeys:
        return self.services.settings.secret_keys


@contextmanager
def routing_of(services: Services, account_id: int) -> Iterator[Routing]:
    """Transports and routes for the time of a test. What still waits for them then is forgotten."""
    try:
        yield Routing(services, account_id)
    finally:
        with services.database.write() as transaction:
            for model in (Route, Transport, RoutingVersion):
                transaction.execute(delete(model))
            transaction.execute(delete(QueueEntry).where(QueueEntry.account_id == account_id))
