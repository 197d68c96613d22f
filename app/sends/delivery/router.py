"""The router of a sender worker: the transports of its routing table, each with a pool of connections.

It is read again when a batch was loaded under another version (app/routing/table.py), so that a change needs no
restart. A transport that was changed, disabled or deleted gets no further message; its pool is closed when the drain
that may still use it has ended, or goes on for another time slice without a message in flight there.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sqlalchemy.orm import Session

from app.infrastructure.sender_share import SenderShare
from app.recipients.redaction import Redaction
from app.routing.table import (
    DEFAULT_TRANSPORT,
    NamedTransport,
    RoutedMessage,
    RoutingTable,
    current_version,
    load_table,
)
from app.secret_keys import SecretUnreadable, decrypt
from app.sends.delivery.connections import (
    ConnectionSlot,
    Limits,
    NoConnection,
    TransportPool,
    binds_of,
    id_at,
    share_binds,
)
from app.sends.delivery.recipient import ClaimedRecipient, RouteProgress
from app.settings import Settings
from app.transports.base import DeliveryResult, SharedConnection, Transport, TransportUrlError, Untaken
from app.transports.email import email_transport, relay_urls
from app.transports.sms import sms_transport
from app.transports.sms.incoming import GatewayMessage, GatewayReceipt, IncomingHandler, ReceivingTransport

logger = logging.getLogger(__name__)


TransportKey = tuple[str, str]
"""Name and encrypted URL of a transport."""


class Router:
    """The pools of the transports in use. Each sender worker has a router, which its drain and the threads of its pools
    use."""

    def __init__(self, settings: Settings, share: SenderShare, default: TransportPool) -> None:
        self._settings = settings
        self._share = share
        self._table = RoutingTable()
        self._pools = {DEFAULT_TRANSPORT: default}
        self._used: dict[str, NamedTransport] = {}
        self._unused: list[TransportPool] = []
        self._transports: dict[TransportKey, tuple[Transport[Any], Redaction]] = {}
        self._handler: IncomingHandler | None = None

    @property
    def is_empty(self) -> bool:
        """Whether all messages go over the default transports."""
        return self._table.version is None

    def listen(self, handler: IncomingHandler) -> None:
        """Makes the handler process what gateways deliver over the connections that send."""
        self._handler = handler

    def take_over(self, crashed: Router) -> None:
        """Takes over the transports of a router whose drain has crashed: binds to gateways have no part in that."""
        self._handler, self._transports = crashed._handler, crashed._transports

    def update(self, session: Session, recipients: Sequence[ClaimedRecipient]) -> None:
        """Reads transports and routes again if these recipients were loaded under another version."""
        if recipients and recipients[0].compiled.send.routing_version != self._table.version:
            self._replace(load_table(session))

    def update_idle(self, session: Session) -> None:
        """Reads transports and routes again for a worker that had nothing to send: over a new transport replies may
        arrive."""
        if current_version(session) != self._table.version:
            self._replace(load_table(session))

    def route(self, recipient: ClaimedRecipient) -> tuple[str, ...]:
        """The names of the transports in use for a message, in order; none if all of its route are disabled."""
        send = recipient.compiled.send
        message = RoutedMessage(recipient.type, recipient.account_id, send.from_address, send.priority, send.transport)
        names = self._table.names(message, recipient.address)
        return tuple(name for name in names if self._table.is_usable(name, recipient.type))

    def next_pool(self, progress: RouteProgress) -> TransportPool | None:
        """The pool of the next transport on the route: the first that is not backed off, else the one whose back-off
        ends first; None if none is left."""
        left = [self._pools[name] for name in progress.upcoming if name in self._pools]
        if not left:
            return None
        available = (pool for pool in left if not pool.availability.is_backed_off)
        chosen = next(available, None) or min(left, key=lambda pool: pool.availability.backoff_until)
        progress.upcoming.remove(chosen.name)
        return chosen

    def after_drain(self) -> None:
        """Closes what a change has put out of use; called between two drains."""
        self.close_unused(())
        for pool in self._pools.values():
            pool.close_others()
        self._end_unused()

    def close_unused(self, in_use: Collection[TransportPool]) -> None:
        """Closes what a change has put out of use while a drain goes on: a pool only once nothing is in flight over it,
        and in a thread, because a relay may not answer."""
        for pool in [pool for pool in self._unused if pool not in in_use]:
            with contextlib.suppress(RuntimeError):  # no memory is left for it: it is closed later
                threading.Thread(target=pool.close, name="closing", daemon=True).start()
                self._unused.remove(pool)
        if not self._unused:
            self._end_unused()

    def _end_unused(self) -> None:
        used = {(transport.name, transport.url) for transport in self._used.values()}
        for key in self._transports.keys() - used:
            _end(self._transports.pop(key)[0])

    def close_pools(self) -> None:
        """Closes all pools but the default one; waits for messages in flight."""
        for name in self._used:
            self._unused.append(self._pools.pop(name))
        self._used = {}
        for pool in self._unused:
            pool.close()
        self._unused = []

    def end(self) -> None:
        """Ends the binds to gateways."""
        for transport, _ in self._transports.values():
            _end(transport)
        self._transports = {}

    def _replace(self, table: RoutingTable) -> None:
        for name, used in list(self._used.items()):
            if table.transports.get(name) != used:
                self._unused.append(self._pools.pop(name))
                del self._used[name]
        for name, named in table.transports.items():
            if name not in self._used:
                self._pools[name] = self._open(named)
                self._used[name] = named
        self._table = table

    def _open(self, named: NamedTransport) -> TransportPool:
        key = named.name, named.url
        if key not in self._transports:
            self._transports[key] = self._make(named)
        transport, redaction = self._transports[key]

        def make_slot() -> ConnectionSlot:
            connection, none = transport.connect(), NoConnection()
            email, sms = (connection, none) if named.type == "email" else (none, connection)
            return ConnectionSlot(email, sms, transport=named.name, redaction=redaction)

        connections = named.connections or self._settings.send_connections
        limits = Limits(named.connections, binds_of(transport), named.messages_per_second)
        return TransportPool(named.name, make_slot, connections, self._share, limits)

    def _make(self, named: NamedTransport) -> tuple[Transport[Any], Redaction]:
        """The transport, which is created once for each URL, and the redaction of its replies."""
        try:
            url = decrypt(self._settings.secret_keys, named.url)
            transport: Transport[Any] = email_transport(url) if named.type == "email" else sms_transport(url)
        except (SecretUnreadable, TransportUrlError) as error:
            logger.error("the transport %s cannot be used: %s", named.name, error)
            return UnusableTransport(f"the transport {named.name} cannot be used: {error}"), Redaction.of(
                self._settings
            )
        redaction = Redaction.of(self._settings, *relay_urls(url))
        share_binds(transport, self._share)
        if self._handler and isinstance(transport, ReceivingTransport):
            transport.listen(_with_transport(self._handler, named.name, redaction))
        return transport, redaction


class UnusableTransport(SharedConnection):
    """Stands for a transport whose URL cannot be read or understood here: nothing is opened or sent, its messages
    wait."""

    def __init__(self, why: str) -> None:
        self._why = why

    def send(self, _message: object, /) -> DeliveryResult:
        """Defers the message."""
        return DeliveryResult.deferred(
            "the transport cannot be used", "4.3.5", note=self._why, untaken=Untaken.TRANSPORT
        )


def _with_transport(handler: IncomingHandler, name: str, redaction: Redaction) -> IncomingHandler:
    """A handler for one gateway: two of them may give the same id to different messages."""

    def take(incoming: GatewayMessage) -> bool:
        if isinstance(incoming, GatewayReceipt):
            detail = redaction.redact(incoming.detail)
            incoming = replace(incoming, gateway_id=id_at(name, incoming.gateway_id), detail=detail)
        return handler(incoming)

    return take


def _end(transport: Transport[Any]) -> None:
    if isinstance(transport, ReceivingTransport):
        transport.end()


# A message that its transport has certainly not taken, so that the next one of its route sends it
# (docs/routes.md#failover).


class PassedMessage(NamedTuple):
    """The recipient, the name of the transport, and its answer: None if it was not asked, because it is backed off."""

    recipient: ClaimedRecipient
    transport: str
    result: DeliveryResult | None = None

    @property
    def recipient_id(self) -> int:
        return self.recipient.id

    @property
    def why(self) -> str:
        """Why the transport did not take the message, for the operator."""
        if self.result is None:
            return f"not over {self.transport}: it is backed off"
        return f"not over {self.transport}: {self.result.note or self.result.reply}"
