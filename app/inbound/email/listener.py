"""The listener: accepts mail to BOUNCE_DOMAIN from a mail server, over SMTP or LMTP.

It accepts mail for addresses that this service signed, and for postmaster and abuse, to which complaint reports are
sent; any other is refused before its content is sent, so it relays nothing and answers nothing. If the process ends
during a connection, the client keeps the message; a repeated report is recorded once.

Whoever can reach the port is bounded in everything: sessions, commands, bytes and time (docs/inbound.md#limits).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from aiosmtpd.smtp import SMTP, Envelope, Session
from sqlalchemy.exc import SQLAlchemyError

from app.db.outage import log_failure
from app.inbound.domain_reports.address import domain_of_addresses
from app.inbound.effect import Effect
from app.inbound.email.receive import bytes_read, receive_email
from app.services import Services
from app.smtp_server.arriving import IncomingMail
from app.smtp_server.listener import BoundedListener
from app.smtp_server.session import COMMAND_LIMITS, IDLE_SECONDS, TRY_LATER, BoundedSession
from app.tracking.tokens import recipient_of_address

logger = logging.getLogger(__name__)

OPERATOR_LOCAL_PARTS = frozenset({"postmaster", "abuse"})
PATIENCE = 5.0
"""Seconds that a report waits for the outcome of its message to be written."""
MAX_WAITING_REPORTS = 10
"""Reports about domains that wait to be read; anybody can write them."""


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
        return address.partition("@")[0].lower() in OPERATOR_LOCAL_PARTS

    async def handle_exception(self, error: Exception) -> str:
        """An internal error must not make the client give up the message."""
        logger.error("a message cannot be processed", exc_info=error)
        return TRY_LATER


class Listener(BoundedListener):
    """The server for reports."""

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._services = services
        self._handler = Handler(services)
        self._reports = ThreadPoolExecutor(1, "domain-reports")
        self._waiting_reports = 0

    def new_session(self) -> BoundedSession:
        """A session of a client that has just connected."""
        return BoundedSession(
            self._handler,
            data_size_limit=self._services.settings.inbound_max_bytes,
            enable_SMTPUTF8=True,
            hostname=self.hostname,
            timeout=IDLE_SECONDS,
            command_call_limit=COMMAND_LIMITS,
            loop=asyncio.get_running_loop(),
        )

    def incoming(self, to: Sequence[str]) -> IncomingMail:
        """Where a mail to these recipients is kept while it arrives."""
        settings = self._services.settings
        return IncomingMail(self.store, most=settings.inbound_max_bytes, kept=bytes_read(settings.secret_keys, to))

    async def take(self, _session: BoundedSession, raw: bytes, to: Sequence[str]) -> str:
        """Answers once the message is committed. Reports about domains are read one at a time, in a thread of their own
        that delays no other mail; only some may wait for it."""
        loop = asyncio.get_running_loop()
        if domain_of_addresses(self._services.settings.secret_keys, to) is None:
            return await loop.run_in_executor(None, self._take, raw, to)
        if self._waiting_reports >= MAX_WAITING_REPORTS:
            return TRY_LATER
        self._waiting_reports += 1
        reading = loop.run_in_executor(self._reports, self._take, raw, to)
        reading.add_done_callback(self._report_is_read)
        return await reading

    def _report_is_read(self, _reading: object) -> None:
        self._waiting_reports -= 1

    def _take(self, raw: bytes, envelope: Sequence[str]) -> str:
        try:
            received = receive_email(self._services, raw, envelope, patience=PATIENCE)
        except SQLAlchemyError as error:
            log_failure(logger, "the client keeps the message", error)
            return TRY_LATER
        return TRY_LATER if received.effect is Effect.EARLY else f"250 2.0.0 {received.effect.value}"
