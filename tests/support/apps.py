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


@contextmanager
def app_with(settings: Settings, **changes: Any) -> Iterator[Flask]:
    """A second application over the same database and Redis; keyword arguments replace settings."""
    made = create_app(replace(settings, **changes))
    try:
        yield made
    finally:
        services: Services = made.extensions[EXTENSION]
        services.database.close()
        services.redis.close()
