"""Databases for the tests of migrations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.databases import BACKENDS
from tests.support.prepared import migrated_file
from tests.support.servers import migrated_database, scratch_database, short_folder


@pytest.fixture(params=BACKENDS)
def migrated_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A database with the newest schema."""
    with ExitStack() as stack:
        if request.param == "postgresql":
            yield stack.enter_context(migrated_database(request.getfixturevalue("postgres")))
        else:
            yield migrated_file(stack.enter_context(short_folder()) / "tms.sqlite3")


@pytest.fixture(params=BACKENDS)
def database_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty database."""
    with ExitStack() as stack:
        if request.param == "postgresql":
            yield stack.enter_context(scratch_database(request.getfixturevalue("postgres")))
        else:
            yield f"sqlite:///{stack.enter_context(short_folder())}/tms.sqlite3"
