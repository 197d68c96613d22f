"""One SMTP or LMTP connection, which is bounded in everything: commands, bytes and time (docs/inbound.md#limits)."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import AnyStr, Protocol

from aiosmtpd.smtp import SMTP, syntax

from app.network.addresses import IpAddress, ip_address_in, network_of
from app.smtp_server.arriving import IncomingMail

logging.getLogger("mail.log").setLevel(logging.WARNING)  # the library logs every command

IDLE_SECONDS = 60.0
DATA_SECONDS = 180.0
"""Seconds that a mail may take to arrive."""
MAX_REFUSALS = 50
"""Commands of one session that are answered with an error."""
COMMAND_LIMITS = {"MAIL": 10_000, "RCPT": 10_000, "DATA": 10_000, "RSET": 10_000, "NOOP": 1_000, "*": 20}
"""How often one session may give each command: mail servers send many mails in one."""
MAX_READ_BYTES = 1024 * 1024
"""More than a session has in memory, so that a reading takes all of it."""
TRY_LATER = "451 4.3.0 not now, try again later"
GOING_DOWN = b"421 4.3.2 restarting, come again at once\r\n"
TOO_MANY_REFUSALS = b"421 4.7.0 too many errors\r\n"

NULL_SENDER = "<>"
# Routes before an address (RFC 5321, appendix C) are ignored.
_ADDRESS = re.compile(r"\s*(?:<(?:@[^<>:]*:)?(?P<angle>[^<>]*)>|(?P<bare>[^<>\s]+))(?P<rest>.*)", re.DOTALL)


class Sessions(Protocol):
    """What a session asks of the listener."""

    def begun(self, session: BoundedSession) -> None:
        """A session has begun, and another one may have to end."""

    def ended(self, session: BoundedSession) -> None:
        """A session has ended."""

    def incoming(self, to: Sequence[str]) -> IncomingMail:
        """Where a mail to these recipients is kept while it arrives."""

    async def take(self, session: BoundedSession, raw: bytes, to: Sequence[str]) -> str:
        """The answer to a mail that has arrived."""


class BoundedSession(SMTP):
    """One connection; the greeting decides between SMTP and LMTP, which do not differ for a single recipient."""

    line_length_limit = 8 * 1024
    """Bytes that the library keeps of a line that has not ended; the longest command has 512."""
    sessions: Sessions
    address: IpAddress | None = None
    """The address of the client; None for a socket without addresses."""
    network = ""
    """The address of the client, or the network of its IPv6 address."""
    waits_since = 0.0
    """Since when it waits for the client, on the clock of the loop."""
    is_taking = False
    """Whether it is the client that waits: its mail has arrived."""
    mail: IncomingMail | None = None
    refusals = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The library's hook."""
        self.command_size_limits = defaultdict(lambda: self.command_size_limit)  # the library's is that of all sessions
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self.address = ip_address_in(str(peer[0])) if isinstance(peer, tuple) and peer else None
        self.network = network_of(self.address)
        self.sessions.begun(self)

    def connection_lost(self, error: Exception | None) -> None:
        """The library's hook."""
        super().connection_lost(error)
        if self.mail is not None:
            self.mail.close()
        self.sessions.ended(self)

    def end(self, reason: bytes) -> None:
        """Ends the session with an answer; a client that reads none, or does not end TLS, does not hold it."""
        if self.mail is not None:
            self.mail.close()
        if isinstance(self.transport, asyncio.WriteTransport):
            if not self.transport.is_closing():
                self.transport.write(reason)
                self.transport.close()
            self.transport.abort()

    def end_if_idle(self) -> None:
        """Asks the client to come again, unless it has begun a message."""
        if self.envelope is None or self.envelope.mail_from is None:
            self.end(GOING_DOWN)

    async def push(self, status: AnyStr) -> None:
        """Every answer. The others have their turn after it, however many commands have arrived at once."""
        await super().push(status)
        await asyncio.sleep(0)
        if status[:1] in ("5", b"5"):
            self.refusals += 1
            if self.refusals > MAX_REFUSALS:
                self.end(TOO_MANY_REFUSALS)

    def _reset_timeout(self, duration: float | None = None) -> None:
        """The library's hook at the beginning, and at every command that it knows."""
        super()._reset_timeout(duration)
        self.waits_since = self.loop.time()

    def _timeout_cb(self) -> None:
        """The library closes the connection only once the client has read all answers."""
        if isinstance(self.transport, asyncio.WriteTransport):
            self.transport.abort()

    def _getaddr(self, arg: str) -> tuple[str | None, str | None]:
        """The address of a command, and the rest of the line. The library also parses nested comments, up to the
        recursion limit."""
        match = _ADDRESS.fullmatch(arg)
        return (match["bare"] or match["angle"].strip() or NULL_SENDER, match["rest"]) if match else (None, None)

    @syntax("LHLO hostname")
    async def smtp_LHLO(self, hostname: str) -> None:
        """The greeting of LMTP (RFC 2033)."""
        await self.smtp_EHLO(hostname)

    @syntax("DATA")
    async def smtp_DATA(self, arg: str | None) -> None:
        """The content of a mail. The library keeps every line, and of one without an end every piece."""
        to = list(self.envelope.rcpt_tos) if self.envelope else []
        if not to or arg:
            await self.push("501 Syntax: DATA" if arg else "503 Error: need RCPT command")
            return
        await self.push("354 End data with <CR><LF>.<CR><LF>")
        self._reset_timeout(DATA_SECONDS)
        self.mail = mail = self.sessions.incoming(to)
        try:
            await self._read_mail(mail)
            raw = b"" if mail.fault else mail.raw()
        finally:
            mail.close()
        self._reset_timeout()
        self.is_taking = True
        try:
            status = mail.fault or await self.sessions.take(self, raw, to)
        finally:
            self.is_taking, self.mail = False, None
        self.envelope = self._create_envelope()
        await self.push(status)

    async def _read_mail(self, mail: IncomingMail) -> None:
        while (further := mail.feed(await self._reader.read(MAX_READ_BYTES))) is None:
            if mail.is_endless:
                self.end(f"{mail.fault}\r\n".encode())
            await asyncio.sleep(0)  # the turn of others, and where this task is cancelled at the end of the connection
        self._reader.feed_data(further)
