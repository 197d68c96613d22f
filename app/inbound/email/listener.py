"""The listener: accepts mail to BOUNCE_DOMAIN from a mail server, over SMTP or LMTP.

It accepts mail for addresses that this service signed, and for postmaster and abuse, to which complaint reports are
sent; any other is refused before its content is sent, so it relays nothing and answers nothing. If the process ends
during a connection, the client keeps the message; a repeated report is recorded once.

Whoever can reach the port is bounded in everything: sessions, commands, bytes and time (docs/inbound.md#limits).
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import re
import resource
import socket
import tempfile
from collections import Counter, defaultdict
from collections.abc import Awaitable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, AnyStr, Protocol

from aiosmtpd.smtp import SMTP, Envelope, Session, syntax
from sqlalchemy.exc import SQLAlchemyError

from app.db.outage import log_failure
from app.inbound.domain_reports.address import domain_of_addresses
from app.inbound.effect import Effect
from app.inbound.email.receive import bytes_read, receive_email
from app.services import Services
from app.tracking.tokens import recipient_of_address

logger = logging.getLogger(__name__)


# The content of a mail while it arrives behind DATA, of which no more is kept than is read.


END_OF_MAIL = b"\r\n.\r\n"
MAX_BYTES_IN_MEMORY = 64 * 1024
"""Bytes of one mail that are kept in memory; more of them are in a file."""
MAX_STORED_BYTES = 256 * 1024 * 1024
"""Bytes that all mails together may keep while they arrive."""
MAX_LINE_BYTES = 64 * 1024
"""A malformed report is no reason to cause a bounce, but this is no mail."""
TOO_LARGE = "552 5.3.4 too much mail data"
LONG_LINE = "500 5.6.0 line too long"
NO_ROOM = "452 4.3.1 no room for the mail now, try again later"


class Store:
    """How much the mails that arrive keep together."""

    def __init__(self, most: int = MAX_STORED_BYTES) -> None:
        self.free = most


class IncomingMail:
    """A mail up to the line with a single dot. It may have `most` bytes, of which the first `kept` are stored; a mail
    that is refused is read to its end all the same, because only then is there an answer."""

    def __init__(self, store: Store, *, most: int, kept: int) -> None:
        self.fault: str | None = None
        """The answer to a mail that is refused."""
        self.size = self.stored = 0
        self._store, self._most, self._kept = store, most, kept
        self._line = 0
        # The line end of the command, so that a mail without a line ends, too; it is kept, to be found by `raw`.
        self._rest = b"\r\n"
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(MAX_BYTES_IN_MEMORY)  # noqa: SIM115 - closed by `close`

    def feed(self, arrived: bytes) -> bytes | None:
        """Takes what has arrived. Returns what follows the end of the mail, and None before its end."""
        arrived = self._rest + arrived
        end = arrived.find(END_OF_MAIL)
        if end < 0:
            self._take(arrived[: -len(END_OF_MAIL) + 1])
            self._rest = arrived[-len(END_OF_MAIL) + 1 :]
            return None
        self._take(arrived[: end + 2])
        return arrived[end + len(END_OF_MAIL) :]

    @property
    def is_endless(self) -> bool:
        """Whether so much has come that the client will not read the answer to it either."""
        return self.size > 2 * self._most

    def raw(self) -> bytes:
        """What is kept, without the dots that the protocol adds to lines that begin with one."""
        self._file.seek(0)
        return self._file.read().replace(b"\r\n.", b"\r\n")[2:]

    def refuse(self, fault: str) -> None:
        """Keeps nothing of it any more; the first fault is the answer."""
        self.fault = self.fault or fault
        self.close()

    def close(self) -> None:
        """Gives back what it keeps."""
        self._file.close()
        self._store.free += self.stored
        self.stored = 0

    def _take(self, data: bytes) -> None:
        self.size += len(data)
        lines = list(map(len, data.split(b"\n")))
        lines[0] += self._line
        self._line = lines[-1]
        if self.size - 2 > self._most:
            self.refuse(TOO_LARGE)
        elif max(lines) > MAX_LINE_BYTES:
            self.refuse(LONG_LINE)
        elif self.fault is None:
            self._keep(data[: self._kept - self.stored])

    def _keep(self, data: bytes) -> None:
        if len(data) > self._store.free:
            self.refuse(NO_ROOM)
            return
        self._store.free -= len(data)
        self.stored += len(data)
        try:
            self._file.write(data)
        except OSError as error:
            logger.error("an arriving mail cannot be stored: %s", error)
            self.refuse(NO_ROOM)


logging.getLogger("mail.log").setLevel(logging.WARNING)  # the library logs every command

OPERATOR_LOCAL_PARTS = frozenset({"postmaster", "abuse"})
PATIENCE = 5.0
"""Seconds that a report waits for the outcome of its message to be written."""
IDLE_SECONDS = 60.0
DATA_SECONDS = 180.0
"""Seconds that a mail may take to arrive."""
MAX_SESSIONS = 300
MAX_SESSIONS_OF_NETWORK = 100
"""Sessions of one address, or of one IPv6 network."""
NETWORK_BITS = 64
"""Bits of an IPv6 address that name its network: whoever has one address has all of the network."""
NUMBER_OF_OTHER_FILES = 100
"""Files and connections of the process besides its sessions, each of which may have two."""
MAX_REFUSALS = 50
"""Commands of one session that are answered with an error."""
COMMAND_LIMITS = {"MAIL": 10_000, "RCPT": 10_000, "DATA": 10_000, "RSET": 10_000, "NOOP": 1_000, "*": 20}
"""How often one session may give each command: mail servers send many mails in one."""
MAX_WAITING_REPORTS = 10
"""Reports about domains that wait to be read; anybody can write them."""
RECEIVE_BUFFER_BYTES = 32 * 1024
"""Bytes of one session that the system keeps until they are read (it doubles the number), and so those that one reading
returns."""
MAX_READ_BYTES = 1024 * 1024
"""More than a session has in memory, so that a reading takes all of it."""
TRY_LATER = "451 4.3.0 not now, try again later"
GOING_DOWN = b"421 4.3.2 restarting, come again at once\r\n"
TOO_MANY_SESSIONS = b"421 4.3.2 too many sessions, try again later\r\n"
TOO_MANY_REFUSALS = b"421 4.7.0 too many errors\r\n"
HAND_OVER_SECONDS = 30.0
"""Seconds for messages that are on their way when newer code takes over; clients wait minutes for a greeting."""
HAND_OVER_PAUSE = 0.1

NULL_SENDER = "<>"
# Routes before an address (RFC 5321, appendix C) are ignored.
_ADDRESS = re.compile(r"\s*(?:<(?:@[^<>:]*:)?(?P<angle>[^<>]*)>|(?P<bare>[^<>\s]+))(?P<rest>.*)", re.DOTALL)


class Sessions(Protocol):
    """What a session asks of the listener."""

    def begun(self, session: InboundSMTP) -> None:
        """A session has begun, and another one may have to end."""

    def ended(self, session: InboundSMTP) -> None:
        """A session has ended."""

    def incoming(self, to: Sequence[str]) -> IncomingMail:
        """Where a mail to these recipients is kept while it arrives."""

    def take(self, raw: bytes, to: Sequence[str]) -> Awaitable[str]:
        """The answer to a mail that has arrived."""


class InboundSMTP(SMTP):
    """One connection; the greeting decides between SMTP and LMTP, which do not differ for a single recipient."""

    line_length_limit = 8 * 1024
    """Bytes that the library keeps of a line that has not ended; the longest command has 512."""
    sessions: Sessions
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
        self.network = _network(transport.get_extra_info("peername"))
        self.sessions.begun(self)

    def connection_lost(self, error: Exception | None) -> None:
        """The library's hook."""
        super().connection_lost(error)
        if self.mail is not None:
            self.mail.close()
        self.sessions.ended(self)

    def end(self, reason: bytes) -> None:
        """Ends the session with an answer; a client that reads none does not hold it."""
        if self.mail is not None:
            self.mail.close()
        if isinstance(self.transport, asyncio.WriteTransport) and not self.transport.is_closing():
            self.transport.write(reason)
            if self.transport.get_write_buffer_size():
                self.transport.abort()
            self.transport.close()

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
            status = mail.fault or await self.sessions.take(raw, to)
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


class Listener:
    """The server and its sessions."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._handler = Handler(services)
        self._hostname = socket.gethostname()
        self._sessions: set[InboundSMTP] = set()
        self._store = Store()
        self._reports = ThreadPoolExecutor(1, "domain-reports")
        self._waiting_reports = 0
        self._most = _most_sessions()
        self.servers: list[asyncio.Server] = []

    async def listen(self, host: str, port: int, sockets: Sequence[socket.socket] = ()) -> None:
        """Listens at the address, or on sockets that were handed over. Raises `OSError` for an address that cannot be
        listened on."""
        loop = asyncio.get_running_loop()
        if sockets:
            self.servers = [await loop.create_server(self._new_session, sock=each) for each in sockets]
        else:
            self.servers = [await loop.create_server(self._new_session, host, port)]
        for each in (each for server in self.servers for each in server.sockets):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)

    def _new_session(self) -> InboundSMTP:
        session = InboundSMTP(
            self._handler,
            data_size_limit=self._services.settings.inbound_max_bytes,
            enable_SMTPUTF8=True,
            hostname=self._hostname,
            timeout=IDLE_SECONDS,
            command_call_limit=COMMAND_LIMITS,
            loop=asyncio.get_running_loop(),
        )
        session.sessions = self
        return session

    def begun(self, session: InboundSMTP) -> None:
        """Counts a session. Where there are too many, of its network or at all, the one that has waited for its client
        the longest ends, of the network that has the most; the new one ends if none of them waits."""
        self._sessions.add(session)
        network_sessions = [each for each in self._sessions if each.network == session.network]
        if len(network_sessions) > MAX_SESSIONS_OF_NETWORK:
            self._end_of(network_sessions, session)
        elif len(self._sessions) > self._most:
            self._end_of(list(self._sessions), session)

    def _end_of(self, sessions: Sequence[InboundSMTP], new: InboundSMTP) -> None:
        counts = Counter(each.network for each in self._sessions)
        waiting = [each for each in sessions if each is not new and not each.is_taking]
        chosen = max(waiting, key=lambda each: (counts[each.network], -each.waits_since), default=new)
        logger.info("too many sessions: one of %s was ended", chosen.network)
        self._sessions.discard(chosen)
        chosen.end(TOO_MANY_SESSIONS)

    def ended(self, session: InboundSMTP) -> None:
        """Counts it no more."""
        self._sessions.discard(session)

    def incoming(self, to: Sequence[str]) -> IncomingMail:
        """Where a mail to these recipients is kept while it arrives."""
        settings = self._services.settings
        return IncomingMail(self._store, most=settings.inbound_max_bytes, kept=bytes_read(settings.secret_keys, to))

    async def take(self, raw: bytes, to: Sequence[str]) -> str:
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


def _network(peer: object) -> str:
    """The address of a client, and of one with IPv6 its network; empty for a socket without addresses."""
    address = str(peer[0]) if isinstance(peer, tuple) and peer else ""
    return str(ipaddress.ip_network((address, NETWORK_BITS), strict=False)) if ":" in address else address


def _most_sessions() -> int:
    """How many sessions the limit of open files allows."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return (
        MAX_SESSIONS
        if files == resource.RLIM_INFINITY
        else max(1, min(MAX_SESSIONS, (files - NUMBER_OF_OTHER_FILES) // 2))
    )
