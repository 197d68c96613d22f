"""Whether the mail relays of a URL answer, so that a wrong password is found before the first mail waits for it."""

from __future__ import annotations

from app.errors import ServiceError
from app.transports.base import TransportUrlError
from app.transports.email import email_transport, relay_urls
from app.transports.email.smtp import SmtpTransport
from app.transports.email.smtp_session import SessionClosed, close_session, open_session
from app.transports.urls import display_url


def check_relays(url: str) -> None:
    """Opens a session with each relay of the URL, logs in and ends it; other transports are not asked.

    Raises `ServiceError` (`invalid_url`) for a URL that is none, or with the answer of a relay that takes no mail.
    """
    for relay in relay_urls(url):
        try:
            transport = email_transport(relay)
        except TransportUrlError as error:
            raise ServiceError("invalid_url", field="relay", detail=str(error)) from None
        if isinstance(transport, SmtpTransport):
            _sign_on(relay, transport)


def _sign_on(relay: str, transport: SmtpTransport) -> None:
    try:
        client = open_session(transport.settings, transport.context)
    except SessionClosed as error:
        detail = (
            f"{display_url(relay)} takes no mail: {error}. Nothing was changed. To store it anyway, use --unchecked"
        )
        raise ServiceError("invalid_url", field="relay", detail=detail) from None
    close_session(client)
