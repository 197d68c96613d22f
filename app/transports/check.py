"""Checks transport URLs when a process starts, not when it sends its first message."""

from __future__ import annotations

from app.transports.base import TransportUrlError
from app.transports.email import email_transport
from app.transports.sms import sms_transport


def check_urls(email_url: str, sms_url: str) -> None:
    """Raises `TransportUrlError` with the name of the setting. Opens no connection."""
    for variable, make, url in (
        ("EMAIL_TRANSPORT_URL", email_transport, email_url),
        ("SMS_TRANSPORT_URL", sms_transport, sms_url),
    ):
        try:
            make(url)
        except TransportUrlError as error:
            raise TransportUrlError(f"{variable}: {error}") from None
