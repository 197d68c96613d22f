"""One connection of an application: TLS, and the login by a key (docs/smtp-submission.md#logging-in)."""

from __future__ import annotations

import asyncio
import base64
import binascii
import ssl
from asyncio import sslproto
from collections.abc import Callable
from typing import cast

from aiosmtpd.smtp import TLSSetupException, syntax

from app.smtp_server.session import BoundedSession
from app.submission.clients import Submitter

HANDSHAKE_SECONDS = 20
MECHANISMS = ("LOGIN", "PLAIN")


class SubmissionSession(BoundedSession):
    """One connection of an application."""

    begins_with_tls = False
    token: str | None = None
    """The key by which the client has logged in."""
    submitter: Submitter | None = None
    """Its rights, as they were when the mail began."""
    _handshake: asyncio.Future[None] | None = None
    """Done after the handshake of TLS; None before it begins."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The library's hook, which is called again for the transport of TLS. Plain text is enough within a machine:
        the library asks for TLS before AUTH elsewhere."""
        super().connection_made(transport)
        self.token = None
        self._auth_require_tls = self.address is None or not self.address.is_loopback
        if self.begins_with_tls and self._tls_protocol is None and not transport.is_closing():
            self._begin_tls()

    def end(self, reason: bytes) -> None:
        """Ends the session also during a handshake, where the library is not told that the connection is lost."""
        super().end(reason)
        if self._handshake is not None and not self._handshake.done():
            self._lose(None)

    def _begin_tls(self) -> asyncio.Future[None]:
        """Goes over to TLS; the future is done after the handshake."""
        self._handshake = done = self.loop.create_future()
        self._tls_protocol = protocol = sslproto.SSLProtocol(
            self.loop,
            self,
            cast("ssl.SSLContext", self.tls_context),
            done,
            server_side=True,
            ssl_handshake_timeout=HANDSHAKE_SECONDS,
        )
        plain = cast("asyncio.Transport", self.transport)
        self._original_transport = plain
        plain.set_protocol(protocol)
        self.transport = protocol._app_transport
        protocol.connection_made(plain)
        return done

    async def _handle_client(self) -> None:
        """The library's loop over commands. TLS from the first byte begins before it greets."""
        if self._handshake is not None:
            try:
                await self._handshake
            except (OSError, EOFError) as error:
                self._lose(error)
                return
        await super()._handle_client()

    def _lose(self, error: Exception | None) -> None:
        if isinstance(self._original_transport, asyncio.WriteTransport):
            self._original_transport.abort()
        self.connection_lost(error)

    @syntax("STARTTLS", when="tls_context")
    async def smtp_STARTTLS(self, arg: str | None) -> None:
        """The library has neither a limit of time for the handshake nor an answer to a second one."""
        if arg or not self.tls_context or self._tls_protocol:
            await self.push("501 5.5.4 Syntax: STARTTLS" if arg else "454 4.7.0 TLS is not available now")
            return
        await self.push("220 2.0.0 Ready to start TLS")
        try:
            await self._begin_tls()
        except (OSError, EOFError) as error:
            raise TLSSetupException from error

    @syntax("AUTH <mechanism>")
    async def smtp_AUTH(self, arg: str | None) -> None:
        """The login (RFC 4954). The library looks keys up where all sessions wait."""
        mechanism, _, response = (arg or "").partition(" ")
        if await self.check_helo_needed("EHLO"):
            return
        if self._auth_require_tls and not self._tls_protocol:
            await self.push("538 5.7.11 Encryption is required: use STARTTLS first")
        elif self.token is not None:
            await self.push("503 5.5.1 Already logged in")
        elif mechanism.upper() not in MECHANISMS:
            await self.push(f"504 5.5.4 The mechanisms are {', '.join(MECHANISMS)}")
        else:
            try:
                token = await self._password(mechanism.upper(), response.strip())
            except ValueError as error:
                await self.push(f"501 5.5.2 {error}")
                return
            await self._log_in(token)

    async def _password(self, mechanism: str, response: str) -> str:
        """The password that the client sends. Raises `ValueError` with what is wrong."""
        if mechanism == "PLAIN":
            parts = (_decoded(response) if response else await self._asked("")).split("\0")
            if len(parts) != 3:
                raise ValueError("Send authorization, user name and password, separated by NUL")
            return parts[2]
        if not response:
            await self._asked("Username:")
        return await self._asked("Password:")

    async def _asked(self, question: str) -> str:
        """The client's answer to a question."""
        await self.push(f"334 {base64.b64encode(question.encode()).decode()}")
        line = (await self._reader.readline()).strip()
        self._reset_timeout()
        if line == b"*":
            raise ValueError("The login was cancelled")
        return _decoded(line.decode("ascii", "replace"))

    async def _log_in(self, token: str) -> None:
        answer = await self.waiting(lambda: self.event_handler.log_in(token, self))
        if answer is None:
            self.token, self.session.authenticated = token, True  # type: ignore[union-attr]
        await self.push(answer or "235 2.7.0 Logged in")

    async def waiting(self, work: Callable[[], str | None]) -> str | None:
        """The result of work in a thread, for which the client waits."""
        self.is_taking = True
        try:
            return await self.loop.run_in_executor(None, work)
        finally:
            self.is_taking = False
            self._reset_timeout()


def _decoded(response: str) -> str:
    try:
        text = base64.b64decode("" if response == "=" else response, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("The response is not valid base64") from None
    return text.decode("utf-8", "surrogateescape")
