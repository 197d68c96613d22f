"""The OpenAPI description of this version, of an installation with a fixed address.

`python -m tests.support.description > docs/released/openapi.json` stores it with a release: later versions are compared
with it (docs/openapi.md#breaking-changes).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import orjson

from app import create_app
from app.settings import from_environment
from tests.support.client import Client

PUBLIC_URL = "https://api.example.org"
RELEASED = Path(__file__).parents[2] / "docs" / "released" / "openapi.json"


def describe() -> dict[str, Any]:
    """The description as a new installation with default settings serves it."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {"DATA_DIR": folder, "PUBLIC_URL": PUBLIC_URL, "SECRET_KEY": "0" * 64, "REQUIRE_HTTPS": "off"}
        answer = Client(create_app(from_environment(environment))).get("/docs/openapi.json")
    document: dict[str, Any] = answer.get_json()
    return document


if __name__ == "__main__":
    sys.stdout.buffer.write(orjson.dumps(describe(), option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n")
