"""What a worker process keeps warm between two jobs."""

from __future__ import annotations

import functools

from app import logs
from app.services import Services, make_services
from app.settings import SettingsError, from_environment


@functools.cache
def services() -> Services:
    """The services of this process, made at the first call. A wrong setting is one line and exit status 2."""
    try:
        settings = from_environment()
    except SettingsError as error:
        print(error)
        raise SystemExit(2) from None
    logs.configure(settings)
    return make_services(settings)
