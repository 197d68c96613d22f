"""Redaction of what relays and gateways report later: also of the names of those that only a transport names."""

from __future__ import annotations

from app.recipients.redaction import Redaction
from app.routing.transports import transport_urls
from app.services import Services


def installation_redaction(services: Services) -> Redaction:
    """The redaction for the installation with all its transports; one select."""
    with services.database.read() as session:
        urls = transport_urls(session, services.settings.secret_keys)
    return Redaction.of(services.settings, *urls)
