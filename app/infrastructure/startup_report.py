"""Log lines at the start of a process: its database and transports, and environment variables that are ignored."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable

from app.db import url as database_url
from app.infrastructure import running
from app.infrastructure.misspelt_settings import misspelt
from app.settings import Settings
from app.transports.email import relay_urls
from app.transports.urls import display_url

logger = logging.getLogger(__name__)


def log_startup(settings: Settings, *, role: str = "") -> None:
    """Logs one line with database and transports, and one for each variable that looks like a misspelt setting. `role`
    is that of a process that can be replaced in place."""
    running.register(settings, role)
    logger.info(
        "using the database %s, sending mail to %s and texts to %s",
        database_url.without_credentials(settings.database_url),
        email_destination(settings),
        display_url(settings.sms_transport_url),
    )
    for line in ignored_variables():
        logger.warning(line)


def email_destination(settings: Settings) -> str:
    """The folder, the relay, or the relays in their order."""
    return ", else to ".join(map(display_url, relay_urls(settings.email_transport_url)))


def ignored_variables() -> Iterable[str]:
    """A line for each environment variable that looks like a misspelt setting."""
    return [
        f"{name} is no setting of this service, so it is ignored; did you mean {meant}?"
        for name, meant in misspelt(os.environ).items()
    ]
