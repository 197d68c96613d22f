"""What a worker process keeps warm between two jobs."""

from __future__ import annotations

import functools
import sys

from app import logs, memory
from app.services import Services, make_services
from app.settings import SettingsError, from_environment
from app.transports.base import TransportUrlError
from app.transports.check import check_urls


@functools.cache
def services() -> Services:
    """The services of this process, made at the first call. A wrong setting is one line and exit status 2."""
    try:
        settings = from_environment()
        check_urls(settings.email_transport_url, settings.sms_transport_url)
    except (SettingsError, TransportUrlError) as error:
        print(f"cannot start: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    logs.configure(settings)
    made = make_services(settings)
    memory.settle()
    return made
