"""The listener: accepts mail to BOUNCE_DOMAIN from a mail server, over SMTP or LMTP.

It accepts mail for addresses that this service signed, and for postmaster and abuse, to which complaint reports are
sent; any other is refused before its content is sent, so it relays nothing and answers nothing. If the process ends
during a connection, the client keeps the message; a repeated report is recorded once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
from collections.abc import Callable, Sequence

from aiosmtpd.smtp import SMTP, Envelope, Session, syntax
from sqlalchemy.exc import SQLAlchemyError

from app.db.outage import log_failure
from app.inbound.domain_reports.address import domain_of_addresses
from app.inbound.effect import Effect
from app.inbound.email.receive import receive_email
from app.services import Services
from app.tracking.return_path import recipient_of_address

logger = logging.getLogger(__name__)
logging.getLogger("mail.log").setLevel(logging.WARNING)  # the library logs every command

OPERATORS = frozenset({"postmaster", "abuse"})
PATIENCE = 5.0
"""Seconds that a report waits for the outcome of its message to be written."""
IDLE_SECONDS = 60.0
TRY_LATER = "451 4.3.0 not now, try again later"
GOING_DOWN = b"421 4.3.2 restarting, come again at once\r\n"
HAND_OVER_SECONDS = 30.0
"""Seconds for messages that are on their way when newer code takes over; clients wait minutes for a greeting."""
HAND_OVER_PAUSE = 0.1

NULL_SENDER = "<>"
# Routes before an address (RFC 5321, appendix C) are ignored.
_ADDRESS = re.compile(r"\s*(?:<(?:@[^<>:]*:)?(?P<angle>[^<>]*)>|(?P<bare>[^<>\s]+))(?P<rest>.*)", re.DOTALL)


class InboundSMTP(SMTP):
    """One connection; the greeting decides between SMTP and LMTP, which do not differ for a single recipient."""

    line_length_limit = 65536  # a malformed message is no reason to cause a bounce of a report
    ended: Callable[[InboundSMTP], object]

    def connection_lost(self, error: Exception | None) -> None:
        """The library's hook."""
        super().connection_lost(error)
        self.ended(self)

    def end_if_idle(self) -> None:
        """Asks the client to come again, unless it has begun a message."""
        is_idle = self.envelope is None or self.envelope.mail_from is None
        if is_idle and isinstance(self.transport, asyncio.WriteTransport) and not self.transport.is_closing():
            self.transport.write(GOING_DOWN)
            self.transport.close()

    def _getaddr(self, arg: str) -> tuple[str | None, str | None]:
        """The address of a command, and the rest of the line. The library also parses nested comments, up to the
        recursion limit."""
        found = _ADDRESS.fullmatch(arg)
        return (found["bare"] or found["angle"].strip() or NULL_SENDER, found["rest"]) if found else (None, None)

    @syntax("LHLO hostname")
    async def smtp_LHLO(self, hostname: str) -> None:
        """The greeting of LMTP (RFC 2033)."""
        await self.smtp_EHLO(hostname)


class Handler:
    """Answers to the commands of a session."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle_RCPT(
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """One recipient per message, so that one answer applies to it, also in LMTP."""
        if not self._is_ours(address):
            return "550 5.1.1 no such address here"
        if envelope.rcpt_tos:
            return "452 4.5.3 one recipient at a time"
        envelope.rcpt_tos.append(address)
        envelope.rcpt_options.extend(options)
        return "250 2.1.5 ok"

    def _is_ours(self, address: str) -> bool:
        secret_keys = self._services.settings.secret_keys
        if recipient_of_address(secret_keys, address) or domain_of_addresses(secret_keys, [address]):
            return True
        return address.partition("@")[0].lower() in OPERATORS

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:
        """Answers once the message is committed."""
        content = envelope.content if isinstance(envelope.content, bytes) else b""
        return await asyncio.to_thread(self._take, content, list(envelope.rcpt_tos))

    def _take(self, raw: bytes, envelope: list[str]) -> str:
        try:
            received = receive_email(self._services, raw, envelope, patience=PATIENCE)
        except SQLAlchemyError as error:
            log_failure(logger, "the client keeps the message", error)
            return TRY_LATER
        return TRY_LATER if received.effect is Effect.EARLY else f"250 2.0.0 {received.effect.value}"

    async def handle_exception(self, error: Exception) -> str:
        """An internal error must not make the client give up the message."""
        logger.error("a message cannot be processed", exc_info=error)
        return TRY_LATER


class Listener:
    """The server and its sessions."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._handler = Handler(services)
        self._hostname = socket.gethostname()
        self._sessions: set[InboundSMTP] = set()
        self.servers: list[asyncio.Server] = []

    async def listen(self, host: str, port: int, sockets: Sequence[socket.socket] = ()) -> None:
        """Listens at the address, or on sockets that were handed over. Raises `OSError` for an address that cannot be
        listened on."""
        loop = asyncio.get_running_loop()
        if sockets:
            self.servers = [await loop.create_server(self._new_session, sock=each) for each in sockets]
        else:
            self.servers = [await loop.create_server(self._new_session, host, port)]

    def _new_session(self) -> InboundSMTP:
        session = InboundSMTP(
            self._handler,
            data_size_limit=self._services.settings.inbound_max_bytes,
            enable_SMTPUTF8=True,
            hostname=self._hostname,
            timeout=IDLE_SECONDS,
            loop=asyncio.get_running_loop(),
        )
        session.ended = self._sessions.discard
        self._sessions.add(session)
        return session

    async def hand_over(self) -> list[int]:
        """Stops accepting, ends the sessions once no message is on its way, and returns descriptors of the sockets, at
        which new connections wait."""
        kept = [os.dup(each.fileno()) for server in self.servers for each in server.sockets]
        self.close()
        until = asyncio.get_running_loop().time() + HAND_OVER_SECONDS
        while self._sessions and asyncio.get_running_loop().time() < until:
            for session in tuple(self._sessions):
                session.end_if_idle()
            await asyncio.sleep(HAND_OVER_PAUSE)
        return kept

    def close(self) -> None:
        """Stops listening."""
        for server in self.servers:
            server.close()
