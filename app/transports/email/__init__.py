"""Mail transports: `email_transport` creates the transport of a URL, `mime.build` encodes the message it sends."""

import re

from app.transports.base import OutboundEmail, Transport
from app.transports.email.file import file_transport
from app.transports.email.relays import RelayTransport
from app.transports.email.smtp import smtp_transport
from app.transports.email.smtp_url import parse_smtp_url
from app.transports.registry import transport_for

__all__ = ["email_transport", "relay_servers", "relay_urls"]

_RELAY = re.compile(r"\s*smtps?://", re.IGNORECASE)
_NEXT_RELAY = re.compile(r",(?=\s*smtps?://)", re.IGNORECASE)


def relay_urls(url: str) -> list[str]:
    """The URLs in `EMAIL_TRANSPORT_URL`: one, or several relays separated by commas."""
    return [relay.strip() for relay in _NEXT_RELAY.split(url)] if _RELAY.match(url) else [url]


def relay_servers(url: str) -> list[tuple[str, int]]:
    """Host and port of each relay in `EMAIL_TRANSPORT_URL`; none of a folder or of a plug-in. Raises
    `TransportUrlError`."""
    relays = [parse_smtp_url(relay) for relay in relay_urls(url) if _RELAY.match(relay)]
    return [(relay.host, relay.port) for relay in relays]


def email_transport(url: str) -> Transport[OutboundEmail]:
    """The transport for `EMAIL_TRANSPORT_URL` (docs/transports.md), which may list several relays.

    Raises `TransportUrlError`.
    """
    relays = relay_urls(url)
    if len(relays) > 1:
        return RelayTransport([smtp_transport(relay) for relay in relays])
    return transport_for(url, {"file": file_transport, "smtp": smtp_transport, "smtps": smtp_transport})
