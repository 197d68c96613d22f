"""What a view needs to know of the request that it answers."""

from __future__ import annotations

from flask import current_app, g

from app.auth import Principal
from app.services import Services

EXTENSION = "tms"


def services() -> Services:
    """The parts of this process."""
    found: Services = current_app.extensions[EXTENSION]
    return found


def principal() -> Principal:
    """The key that the guards let in."""
    found: Principal = g.principal
    return found


def request_id() -> str:
    """The id of this request: in the X-Request-Id header, in error bodies and in every log line."""
    found: str = g.request_id
    return found
