"""Fixtures for tests of the code base, which need no service: `make lint` runs them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask

from app import create_app
from app.http.context import EXTENSION
from tests.conftest import test_settings
from tests.support.apps import close


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flask]:
    """An application of which nothing asks its database."""
    folder: Path = tmp_path_factory.mktemp("app")
    made = create_app(test_settings(folder))
    yield made
    close(made.extensions[EXTENSION])
