"""The OpenAPI description, made by flask-smorest from the blueprints."""

from __future__ import annotations

from typing import Any

from flask import Flask
from flask_smorest import Api

SPEC_OPTIONS: dict[str, Any] = {
    "info": {
        "description": "Sends time-sensitive transactional email and SMS, keeps contacts in lists, and reports what "
        "became of each message.",
    },
    "components": {
        "securitySchemes": {"apiKey": {"type": "http", "scheme": "bearer"}},
    },
    "security": [{"apiKey": []}],
}


def make_api(app: Flask) -> Api:
    """The collector of blueprints. It serves no pages of its own: `blueprints/docs.py` does."""
    app.config.update(API_TITLE="Transactional messaging", API_VERSION="1.0.2", OPENAPI_VERSION="3.1.0")
    return Api(app, spec_kwargs=SPEC_OPTIONS)


def description(app: Flask) -> dict[str, Any]:
    """The OpenAPI document of the application."""
    found: dict[str, Any] = app.extensions["flask-smorest"]["apis"][""]["ext_obj"].spec.to_dict()
    return found
