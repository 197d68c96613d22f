"""The application with settings that differ from those of the suite."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import cache
from typing import Any

from flask import Flask

from app import create_app
from app.application import assemble, configure
from app.http.context import EXTENSION
from app.infrastructure import logs
from app.services import Services
from app.settings import Settings
from tests.support.servers import wait_until


def new_app(settings: Settings) -> Flask:
    """As `create_app`, with the routes that all applications of this process share: assembling them takes longer than
    most tests."""
    logs.configure(settings)
    app = copy(_assembled())
    app.config, app.extensions = copy(app.config), dict(app.extensions)
    configure(app, settings)
    return app


@cache
def _assembled() -> Flask:
    return assemble()


@contextmanager
def app_with(settings: Settings, **changes: Any) -> Iterator[Flask]:
    """A second application over the same database and Redis; keyword arguments replace settings."""
    with _closed(new_app(replace(settings, **changes))) as made:
        yield made


@contextmanager
def app_with_plugins(settings: Settings) -> Iterator[Flask]:
    """A second application, with the plugins that are installed now."""
    with _closed(create_app(settings)) as made:
        yield made


@contextmanager
def _closed(made: Flask) -> Iterator[Flask]:
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
    services.close()
