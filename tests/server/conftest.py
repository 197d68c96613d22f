"""Servers: one with the default limits, and others whose limits are so small that a test can reach them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.settings import Settings
from tests.conftest import test_settings
from tests.server import doors
from tests.support import plugins
from tests.support.prepared import migrated_file
from tests.support.servers import short_folder
from tests.support.web import Web, forked_web_server


@pytest.fixture(scope="package")
def settings(redis_url: str) -> Iterator[Settings]:
    """Settings with a SQLite file: these tests do not depend on the database."""
    with short_folder() as folder:
        yield test_settings(folder, DATABASE_URL=migrated_file(folder / "tms.sqlite3"), REDIS_URL=redis_url)


@pytest.fixture(scope="package")
def doors_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """PYTHONPATH with the plugin of `tests.server.doors` installed."""
    folder = tmp_path_factory.mktemp("doors")
    plugins.write(folder, {"doors": "tms_doors"}, tms_doors=Path(doors.__file__).read_text())
    return os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])


@pytest.fixture(scope="package")
def web(settings: Settings, doors_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A server with the defaults."""
    with forked_web_server(settings, tmp_path_factory.mktemp("web"), PYTHONPATH=doors_path) as server:
        yield server


STRICT = {
    "WEB_CONNECTIONS": "40",
    "WEB_BUFFER_BYTES": "1048576",
    "MAX_REQUEST_BYTES": "1048576",
    "REQUIRE_HTTPS": "on",
}
THRIFTY = {"WEB_BUFFER_BYTES": str(16 * 1024 * 1024), "BODY_SECONDS": "600", "HEADER_SECONDS": "600"}
HASTY = {
    "HEADER_SECONDS": "2",
    "BODY_SECONDS": "2",
    "LEAST_RATE": "100000000",
    "KEEPALIVE_SECONDS": "2",
    "QUEUE_SECONDS": "0.8",
    "WEB_THREADS": "2",
    "REQUIRE_HTTPS": "on",
}


@pytest.fixture(scope="package")
def strict(settings: Settings, doors_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A server with small size limits and long time limits, which requires https and trusts no proxy."""
    with forked_web_server(settings, tmp_path_factory.mktemp("strict"), PYTHONPATH=doors_path, **STRICT) as server:
        yield server


@pytest.fixture(scope="package")
def thrifty(settings: Settings, doors_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A server that holds little for its clients."""
    with forked_web_server(settings, tmp_path_factory.mktemp("thrifty"), PYTHONPATH=doors_path, **THRIFTY) as server:
        yield server


@pytest.fixture(scope="package")
def proxied(settings: Settings, doors_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A server that holds little for its clients, and trusts one proxy."""
    environ = {**THRIFTY, "TRUSTED_PROXIES": "1"}
    with forked_web_server(settings, tmp_path_factory.mktemp("proxied"), PYTHONPATH=doors_path, **environ) as server:
        yield server


@pytest.fixture(scope="package")
def hasty(settings: Settings, doors_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A server with short time limits, for tests that exceed them."""
    with forked_web_server(settings, tmp_path_factory.mktemp("hasty"), PYTHONPATH=doors_path, **HASTY) as server:
        yield server
