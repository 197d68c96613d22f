"""The application with settings that differ from those of the suite."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from flask import Flask

from app import create_app
from app.http.context import EXTENSION
from app.services import Services
from app.settings import Settings
from tests.support.servers import wait_until


@contextmanager
def app_with(settings: Settings, **changes: Any) -> Iterator[Flask]:
    """A second application over the same database and Redis; keyword arguments replace settings."""
    made = create_app(replace(settings, **changes))
    try:
        yield made
    finally:
        close(made.extensions[EXTENSION])


def close(services: Services) -> None:
    """Closes the connections of an application."""
    close_database(services)
    services.redis.close()


def close_database(services: Services) -> None:
    """Closes its connections to the database, once its threads have returned theirs: one that is returned to a closed
    pool stays open until it is collected, which fails whatever test runs by then."""
    wait_until(lambda: services.database.pool_state[0] == 0, "no connection is in use")
    services.database.close()
