"""The listener for applications: SMTP with STARTTLS or TLS, and a login by a key (docs/smtp-submission.md).

What every client is bounded in is that of all listeners (app/smtp_server); what it may do needs a key first.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from aiosmtpd.smtp import SMTP, Envelope, Session, TLSSetupException
from sqlalchemy.exc import SQLAlchemyError

from app.accounts.auth import KeyUses
from app.addresses import is_valid_email
from app.audit.actor import Actor, acting
from app.db.outage import log_failure
from app.errors import ServiceError
from app.infrastructure import logs
from app.sends.accept.draft import Limits
from app.sends.limits import MAX_RECIPIENTS
from app.services import Services
from app.settings import Settings, SettingsError
from app.smtp_server.arriving import NO_ROOM, IncomingMail
from app.smtp_server.listener import BoundedListener
from app.smtp_server.session import COMMAND_LIMITS, IDLE_SECONDS, NULL_SENDER, TRY_LATER, BoundedSession
from app.submission.clients import Clients
from app.submission.mail import read_submission
from app.submission.replies import Status, refusal_reply, reply
from app.submission.session import SubmissionSession
from app.submission.submit import submit

logger = logging.getLogger(__name__)

VIA = "SMTP"
MAX_BYTES_TAKEN = 48 * 1024 * 1024
"""Bytes of all mails that are read at the same time: reading one takes six times as much memory."""
ACCEPTED = Status(250, "2.0.0")


class Certificate:
    """The operator's certificate. It is read again when its file changes, for sessions that begin from then on."""

    def __init__(self, settings: Settings) -> None:
        """Raises `SettingsError` for files that cannot be read, or are no certificate with its key."""
        self._files = Path(settings.submission_certificate), settings.submission_key or None
        self._version = self._modified()
        try:
            self._context = self._load()
        except OSError as error:
            reason = "it is no certificate with its key" if isinstance(error, ssl.SSLError) else error.strerror
            raise SettingsError(f"SUBMISSION_CERTIFICATE={self._files[0]}: cannot be used: {reason}") from None

    def context(self) -> ssl.SSLContext:
        """The context for a new session."""
        version = self._modified()
        if version != self._version:
            self._version = version
            try:
                self._context = self._load()
            except OSError as error:
                logger.error("the new SUBMISSION_CERTIFICATE cannot be used: %s", error)
        return self._context

    def _load(self) -> ssl.SSLContext:
        certificate, key = self._files
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        return context

    def _modified(self) -> float | None:
        try:
            return self._files[0].stat().st_mtime
        except OSError:
            return None


class Handler:
    """Answers to the commands of a session."""

    def __init__(self, services: Services, clients: Clients) -> None:
        self._services = services
        self._clients = clients

    def log_in(self, token: str, session: SubmissionSession) -> str | None:
        """The answer to a key that is refused; None for one that is not. Called in a thread."""
        with _context(session):
            return self._answer(lambda: self._clients.log_in(token, session.address), "a login was refused")

    def begin_mail(self, sender: str, session: SubmissionSession) -> str | None:
        """The answer to a mail that must not begin; None for one that may. Called in a thread."""

        def begin() -> None:
            session.submitter = self._clients.begin_mail(session.token or "", session.address, sender)

        with _context(session):
            return self._answer(begin, "a mail was refused at MAIL")

    def take(self, session: SubmissionSession, raw: bytes, to: Sequence[str]) -> str:
        """The answer to a mail that has arrived. Called in a thread."""
        request_id = os.urandom(16).hex()
        with _context(session, request_id):
            return self._answer(lambda: self._submit(session, raw, to, request_id), "a mail was refused") or TRY_LATER

    def _submit(self, session: SubmissionSession, raw: bytes, to: Sequence[str], request_id: str) -> str:
        settings, submitter = self._services.settings, session.submitter
        if submitter is None:
            raise ServiceError("api_key_missing")
        mail = read_submission(raw, Limits(settings.max_attachments, settings.max_attachment_bytes))
        uuids = submit(self._services, submitter, mail, to, request_id)
        fields = {"recipients": len(uuids), "account_id": submitter.principal.account_id}
        logger.info("a mail was accepted", extra=fields)
        return reply(ACCEPTED, uuids)

    def _answer(self, work: Callable[[], str | None], refused: str) -> str | None:
        """The result of the work, or the answer to its failure."""
        try:
            return work()
        except ServiceError as error:
            logger.info(refused, extra={"code": error.code})
            return refusal_reply(error)
        except SQLAlchemyError as error:
            log_failure(logger, "the client keeps the mail", error)
            return TRY_LATER

    async def handle_EHLO(
        self, _server: SMTP, session: Session, _envelope: Envelope, hostname: str, lines: list[str]
    ) -> list[str]:
        """What the service offers: several commands may be sent at once (RFC 2920)."""
        session.host_name = hostname
        return [*lines[:-1], "250-PIPELINING", lines[-1]]

    async def handle_MAIL(
        self, server: SubmissionSession, _session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """The domain of the envelope sender must be one of the account."""
        if address == NULL_SENDER or "@" not in address:
            return "550 5.1.7 MAIL FROM must be an address of a verified domain of the account"
        refused = await server.waiting(lambda: self.begin_mail(address, server))
        if refused is None:
            envelope.mail_from = address
            envelope.mail_options.extend(options)
        return refused or "250 2.1.0 ok"

    async def handle_RCPT(
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Each is a recipient of the send."""
        if not is_valid_email(address):
            return "553 5.1.3 This is not an email address"
        if len(envelope.rcpt_tos) >= MAX_RECIPIENTS:
            return f"452 4.5.3 A mail has at most {MAX_RECIPIENTS} recipients; send it again to the others"
        envelope.rcpt_tos.append(address)
        envelope.rcpt_options.extend(options)
        return "250 2.1.5 ok"

    async def handle_exception(self, error: Exception) -> str:
        """An internal error must not make the client give up the mail."""
        if isinstance(error, TLSSetupException):
            logger.info("a client did not get as far as TLS: %s", error.__cause__)
        else:
            logger.error("a mail cannot be processed", exc_info=error)
        return TRY_LATER


@contextmanager
def _context(session: SubmissionSession, request_id: str | None = None) -> Iterator[None]:
    """What log lines and the audit log say of the client."""
    address = str(session.address or "") or None
    principal = session.submitter.principal if session.submitter else None
    client = {"client_address": address, **({"key": principal.key_name} if principal else {})}
    logs.client.set(client)
    logs.request_id.set(request_id)
    try:
        if principal is None:
            yield
            return
        with acting(Actor("key", principal.key_name, address, VIA, request_id, principal.key_id)):
            yield
    finally:
        logs.client.set(None)
        logs.request_id.set(None)


class SubmissionListener(BoundedListener):
    """The server for applications. Raises `SettingsError` for a certificate that cannot be used."""

    def __init__(self, services: Services, uses: KeyUses) -> None:
        super().__init__()
        self._settings = services.settings
        self._handler = Handler(services, Clients(services, uses))
        self._bytes_taken = 0
        self._certificate = Certificate(services.settings) if services.settings.submission_certificate else None

    def new_session(self) -> BoundedSession:
        """A session of a client that has just connected."""
        session = SubmissionSession(
            self._handler,
            data_size_limit=self._settings.submission_max_bytes,
            enable_SMTPUTF8=True,
            hostname=self.hostname,
            ident="ESMTP",
            timeout=IDLE_SECONDS,
            tls_context=self._certificate.context() if self._certificate else None,
            auth_required=True,
            command_call_limit=COMMAND_LIMITS,
            loop=asyncio.get_running_loop(),
        )
        session.begins_with_tls = self._settings.submission_tls == "tls"
        return session

    def incoming(self, _to: Sequence[str]) -> IncomingMail:
        """Where a mail is kept while it arrives."""
        most = self._settings.submission_max_bytes
        return IncomingMail(self.store, most=most, kept=most)

    async def take(self, session: BoundedSession, raw: bytes, to: Sequence[str]) -> str:
        """Answers once the mail is committed."""
        if self._bytes_taken and self._bytes_taken + len(raw) > MAX_BYTES_TAKEN:
            return NO_ROOM
        submission, loop = cast("SubmissionSession", session), asyncio.get_running_loop()
        self._bytes_taken += len(raw)
        taking = loop.run_in_executor(None, self._handler.take, submission, raw, to)
        taking.add_done_callback(lambda _: self._is_taken(len(raw)))
        return await taking

    def _is_taken(self, size: int) -> None:
        self._bytes_taken -= size
