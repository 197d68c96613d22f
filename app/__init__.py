"""The service: a REST API that sends transactional email and SMS."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flask import Flask

    from app.settings import Settings


def create_app(settings: Settings | None = None) -> Flask:
    """The WSGI application of these settings, by default those of the environment.

    Its module is imported at the first call: every process imports this package, and those that serve no API start
    sooner without the web framework.
    """
    made: Flask = importlib.import_module("app.application").create_app(settings)
    return made
