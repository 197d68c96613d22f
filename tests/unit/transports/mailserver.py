"""Real servers on the loopback address: a correct SMTP server, and one that plays a list of reply lines."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import math
import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from tests.support.servers import PATIENCE

DROP = "drop"
WAIT = PATIENCE


@dataclass(frozen=True)
class ReceivedMail:
    """One mail as the server accepted it."""

    sender: str
    recipients: list[str]
    content: bytes
    options: list[str]
    encrypted: bool
    user: str | None


class MailServer:
    """Keeps every mail. `script[step]` contains replies other than success, one for each time the step is reached.

    Steps are `MAIL`, `RSET`, `DATA` (before the message), `.` (after it) and the address of a recipient. The reply
    `DROP` closes the connection; one that begins with 421 closes it afterwards, as in RFC 5321.

    `always[step]` is the reply of a step whose script is empty, and `always["RCPT"]` that of every recipient.

    `unanswered` contains the recipients of the mails that were received and await their answer.
    """

    def __init__(
        self, *, tls: ssl.SSLContext | None = None, users: dict[str, str] | None = None, **options: Any
    ) -> None:
        self.mails: list[ReceivedMail] = []
        self.commands: list[str] = []
        self.script: dict[str, collections.deque[str]] = collections.defaultdict(collections.deque)
        self.always: dict[str, str] = {}
        self.sessions = 0
        self.open_sessions: set[ScriptedSmtp] = set()
        self.closed = threading.Semaphore(0)
        self.unanswered: list[str] = []
        self._answers_left = math.inf
        self.users = users or {}
        if self.users:
            options |= {"authenticator": self._authenticate, "auth_require_tls": "tls_context" in options}
        self.port = 0
        self._controller = _Controller(self, "127.0.0.1", 0, ssl_context=tls, ready_timeout=WAIT, **options)

    def __enter__(self) -> Self:
        self._controller.start()
        assert self.closed.acquire(timeout=WAIT)  # the first connection is that of aiosmtpd itself
        self.sessions = 0
        self.port = self._controller.port
        return self

    def __exit__(self, *_: object) -> None:
        self._controller.stop()

    def url(self, options: str = "", *, scheme: str = "smtp", credentials: str = "", host: str = "127.0.0.1") -> str:
        return f"{scheme}://{credentials}{host}:{self.port}{options}"

    def reply(self, step: str, *replies: str) -> None:
        self.script[step].extend(replies)

    def end_sessions(self) -> None:
        """Closes the connections, as after a time without commands."""
        for session in tuple(self.open_sessions):
            self._controller.loop.call_soon_threadsafe(session.close_connection)

    @contextlib.contextmanager
    def hold_answers(self, *, after: int = 0) -> Iterator[None]:
        """Inside the block only so many mails are answered: the others are in flight until it ends, however long the
        test takes."""
        self._answers_left = after
        try:
            yield
        finally:
            self._answers_left = math.inf

    def answer(self, count: int) -> None:
        """Answers so many of the mails that are held back, or that come next."""
        self._answers_left += count

    async def wait_for_answer(self, recipient: str) -> None:
        """Returns when the mail may be answered."""
        self.unanswered.append(recipient)
        try:
            while self._answers_left <= 0:
                await asyncio.sleep(0.01)
            self._answers_left -= 1
        finally:
            self.unanswered.remove(recipient)

    def scripted(self, step: str) -> str | None:
        return self.script[step].popleft() if self.script[step] else self.always.get(step)

    def _authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: LoginPassword
    ) -> AuthResult:
        right = self.users.get(data.login.decode()) == data.password.decode()
        return AuthResult(success=right, handled=False, auth_data=data.login.decode())

    async def handle_MAIL(
        self, server: ScriptedSmtp, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        reply = await server.answer("MAIL") or "250 2.1.0 ok"
        if reply.startswith("2"):
            envelope.mail_from = address
            envelope.mail_options.extend(options)
        return reply

    async def handle_RCPT(
        self, server: ScriptedSmtp, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        reply = await server.answer(address) or self.always.get("RCPT") or "250 2.1.5 ok"
        if reply.startswith("2"):
            envelope.rcpt_tos.append(address)
        return reply

    async def handle_DATA(self, server: ScriptedSmtp, session: Session, envelope: Envelope) -> str:
        await self.wait_for_answer(envelope.rcpt_tos[0])
        reply = await server.answer(".") or "250 2.0.0 queued"
        if reply.startswith("2"):
            self.mails.append(
                ReceivedMail(
                    envelope.mail_from or "",
                    list(envelope.rcpt_tos),
                    envelope.original_content or b"",
                    list(envelope.mail_options),
                    session.ssl is not None or self._controller.ssl_context is not None,
                    session.auth_data,
                )
            )
        return reply


class _Controller(Controller):
    def factory(self) -> SMTP:
        return ScriptedSmtp(self.handler, **self.SMTP_kwargs)

    def _trigger_server(self) -> None:
        """The port is known only after the socket is bound; aiosmtpd would connect to port 0."""
        assert isinstance(self.server, asyncio.Server)
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()  # type: ignore[no-untyped-call]  # aiosmtpd's


class ScriptedSmtp(SMTP):
    event_handler: MailServer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._original_transport is None:
            self.event_handler.sessions += 1
        self.event_handler.open_sessions.add(self)
        super().connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self.event_handler.open_sessions.discard(self)
        self.event_handler.closed.release()

    def close_connection(self) -> None:
        assert isinstance(self.transport, asyncio.Transport)
        self.transport.close()

    async def answer(self, step: str) -> str | None:
        reply = self.event_handler.scripted(step)
        assert isinstance(self.transport, asyncio.Transport)
        if reply == DROP:
            self.transport.abort()
            raise ConnectionResetError
        if reply and reply.startswith("421"):
            await self.push(reply)
            self.transport.close()
            raise ConnectionResetError
        return reply

    async def smtp_DATA(self, arg: str) -> None:
        reply = await self.answer("DATA")
        if reply:
            await self.push(reply)
        else:
            await super().smtp_DATA(arg)

    async def smtp_RSET(self, arg: str) -> None:
        self.event_handler.commands.append("RSET")
        reply = await self.answer("RSET")
        if reply:
            await self.push(reply)
        else:
            await super().smtp_RSET(arg)

    async def smtp_QUIT(self, arg: str) -> None:
        self.event_handler.commands.append("QUIT")
        await super().smtp_QUIT(arg)


class _Lines:
    """Lines received over a connection; `rest` was received and not read yet."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.rest = b""

    def readline(self) -> bytes:
        """Empty at the end."""
        while b"\n" not in self.rest:
            part = self._connection.recv(65536)
            if not part:
                return b""
            self.rest += part
        line, feed, self.rest = self.rest.partition(b"\n")
        return line + feed


class LineServer:
    """Plays one list of replies per connection: the first on connecting, the next ones after each line received.

    After a reply that begins with 354 it reads up to the end of the message. At the end of the list it closes the
    connection. `behind` contains what had arrived with the end of each message, before the reply to it.
    """

    def __init__(self, *conversations: Sequence[str]) -> None:
        self._conversations = conversations
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.lines: list[bytes] = []
        self.behind: list[bytes] = []
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for a connection
        self._listener.close()
        self._thread.join(WAIT)

    def _serve(self) -> None:
        for replies in self._conversations:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                self._play(connection, _Lines(connection), replies)

    def _play(self, connection: socket.socket, lines: _Lines, replies: Sequence[str]) -> None:
        with contextlib.suppress(OSError):
            for number, reply in enumerate(replies):
                if number:
                    line = lines.readline()
                    while replies[number - 1].startswith("354") and line not in (b".\r\n", b""):
                        line = lines.readline()
                    self.lines.append(line)
                    if replies[number - 1].startswith("354") and line:
                        self.behind.append(lines.rest)
                connection.sendall(reply.encode() + b"\r\n")
