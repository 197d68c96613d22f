"""The services that a background process keeps between two jobs."""

from __future__ import annotations

import functools
import logging
import sys
import time
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from app.db.outage import log_failure, reason
from app.infrastructure import liveness, logs, memory, metrics, replacing, tracing
from app.infrastructure.start_checks import StartRefused, check_start
from app.infrastructure.startup_report import log_startup
from app.services import Services, make_services
from app.settings import SettingsError, from_environment
from app.transports.base import TransportUrlError
from app.transports.check import check_urls

logger = logging.getLogger("jobs.runtime")

RETRY_DELAY = 1.0
"""Seconds between two attempts to reach the database at the start."""


@functools.cache
def process_services() -> Services:
    """The services of this process, created at the first call. An invalid setting is one line and exit status 2, a
    start that the database refuses one line and exit status 1."""
    try:
        settings = from_environment()
        check_urls(settings.email_transport_url, settings.sms_transport_url)
    except (SettingsError, TransportUrlError) as error:
        print(f"cannot start: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    logs.configure(settings)
    made = make_services(settings)
    memory.tune()  # before it may wait for long
    _await_database(made)
    replacing.end_check()
    log_startup(settings, role="background")
    metrics.share(settings, made.database)
    tracing.start(settings, _role())
    return made


def _role() -> str:
    """The module of the process with its queues, such as `worker sends`."""
    return " ".join([Path(sys.argv[0]).stem, *sys.argv[1:]])


def _await_database(made: Services) -> None:
    """Waits for the database: there is nothing to do without it, and an unchecked schema may not match. A process that
    runs and can go on does not wait for its check."""
    while True:
        try:
            check_start(made.database, made.settings)
            return
        except StartRefused as error:
            print(f"cannot start: {error}", file=sys.stderr)
            raise SystemExit(1) from None
        except SQLAlchemyError as error:
            if replacing.is_check():
                print(f"cannot start: the database cannot be used: {reason(error)}", file=sys.stderr)
                raise SystemExit(1) from None
            log_failure(logger, "waiting for the database", error)
            liveness.starting("waiting for the database")
        time.sleep(RETRY_DELAY)
