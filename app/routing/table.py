"""The routing table: all transports and routes as a sender worker keeps them between two changes."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Select, delete, exists, or_, select
from sqlalchemy.orm import Session

from app.addresses import domain_of
from app.db.bulk import upsert
from app.db.database import Transaction
from app.db.models import Account, Route, RoutingVersion, Transport, TransportAccount

# The version of the transports and routes: another one after each change, so that workers know when to read them again,
# and none at all while an installation has neither.

VERSION_ROW_ID = 1

VERSION: Any = select(RoutingVersion.version).where(RoutingVersion.id == VERSION_ROW_ID).scalar_subquery()
"""The version as part of another statement, where it costs no round trip."""


def current_version(session: Session) -> str | None:
    """The version; None while there is nothing."""
    return session.scalar(select(RoutingVersion.version).where(RoutingVersion.id == VERSION_ROW_ID))


def renew_version(transaction: Transaction) -> None:
    """Called in the transaction of every change."""
    transaction.flush()
    is_any = select(or_(select(Transport.id).exists(), select(Route.id).exists()))
    if transaction.scalar(is_any):
        row = {"id": VERSION_ROW_ID, "version": str(uuid.uuid4())}
        statement = upsert(transaction, RoutingVersion, row, index=["id"], update=lambda new: {"version": new.version})
        transaction.execute(statement)
    else:
        transaction.execute(delete(RoutingVersion))


DEFAULT_TRANSPORT = "default"
"""The name, in a route, of the transport in the settings."""
MAX_REMEMBERED = 10_000
"""Senders whose routes are remembered."""


class RoutedMessage(NamedTuple):
    """What routes judge a message by. `transport` is the one that its send names."""

    type: str
    account_id: int
    from_address: str
    priority: str
    transport: str | None


@dataclass(frozen=True, slots=True)
class NamedTransport:
    """A transport that is not disabled; the URL is encrypted."""

    name: str
    type: str
    url: str = field(repr=False)
    connections: int | None
    messages_per_second: float | None


@dataclass(frozen=True, slots=True)
class RouteRule:
    """A route: its conditions, and the names of its transports in order."""

    type: str
    account_id: int | None
    sender_domain: str | None
    priority: str | None
    country_prefixes: tuple[str, ...]
    transports: tuple[str, ...]

    def fits(self, message: RoutedMessage) -> bool:
        """Whether the message meets all conditions but that of its mobile's prefix."""
        return (
            self.type == message.type
            and self.account_id in (None, message.account_id)
            and self.priority in (None, message.priority)
            and (self.sender_domain is None or self.sender_domain == domain_of(message.from_address))
        )

    def has_prefix_of(self, address: str) -> bool:
        """Whether the mobile begins with one of the prefixes."""
        return not self.country_prefixes or address.startswith(self.country_prefixes)


class RoutingTable:
    """The transports by name, and the routes in their order. One thread at a time uses it."""

    def __init__(
        self, version: str | None = None, transports: Sequence[NamedTransport] = (), routes: Sequence[RouteRule] = ()
    ) -> None:
        self.version = version
        self.transports: Mapping[str, NamedTransport] = {transport.name: transport for transport in transports}
        self._routes = routes
        self._fitting: dict[RoutedMessage, list[RouteRule]] = {}

    def names(self, message: RoutedMessage, address: str) -> tuple[str, ...]:
        """The names of the transports for a message to that address, in the order in which they are tried: the one
        that the send names, else those of the first route that the message meets, else the default one."""
        if message.transport is not None:
            return (message.transport,)
        transports = (route.transports for route in self._routes_for(message) if route.has_prefix_of(address))
        return next(transports, (DEFAULT_TRANSPORT,))

    def is_usable(self, name: str, type_: str) -> bool:
        """Whether the name is that of a transport in use for the type."""
        return name == DEFAULT_TRANSPORT or (name in self.transports and self.transports[name].type == type_)

    def _routes_for(self, message: RoutedMessage) -> list[RouteRule]:
        """The routes that the message fits. All recipients of a send have the same routes."""
        if message not in self._fitting:
            if len(self._fitting) >= MAX_REMEMBERED:
                self._fitting.clear()
            self._fitting[message] = [route for route in self._routes if route.fits(message)]
        return self._fitting[message]


def load_table(session: Session) -> RoutingTable:
    """The table as it is now. The version is read first: a change in between is found by its own version."""
    version = current_version(session)
    columns = (Transport.name, Transport.type, Transport.url, Transport.connections, Transport.messages_per_second)
    transports = session.execute(select(*columns).where(Transport.enabled)).all()
    routes = session.execute(
        select(
            *(Route.type, Route.account_id, Route.sender_domain, Route.priority),
            *(Route.country_prefixes, Route.transports),
        ).order_by(Route.position, Route.id)
    ).all()
    return RoutingTable(
        version,
        [NamedTransport(*row) for row in transports],
        [
            RouteRule(type_, account_id, domain, priority, tuple(prefixes), tuple(names))
            for type_, account_id, domain, priority, prefixes, names in routes
        ],
    )


# Which transports the sends of an account may name (docs/sending.md#choosing-a-transport).


def allowed_transport(account_id: int, name: str, type_: str) -> Select[Any]:
    """Selects the transport of that name if the operator lets the account name it, for messages of that type. A
    disabled one is found, too: messages wait for it. A test account may name those of its account."""
    test_of = select(Account.test_of).where(Account.id == account_id).scalar_subquery()
    is_allowed = exists().where(
        TransportAccount.transport_id == Transport.id,
        or_(TransportAccount.account_id == account_id, TransportAccount.account_id == test_of),
    )
    return select(Transport.id).where(
        Transport.name == name, Transport.type == type_, or_(Transport.any_account, is_allowed)
    )
