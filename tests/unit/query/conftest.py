"""A table of sample rows in both databases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from sqlalchemy import Engine

from app.db.engine import make_engine
from tests.support.servers import scratch_database

from .things import fill


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def things(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """An engine whose database contains the rows of `things.ROWS`."""
    with ExitStack() as stack:
        url = "sqlite://"
        if request.param == "postgresql":
            url = stack.enter_context(scratch_database(request.getfixturevalue("postgres")))
        engine = make_engine(url)
        stack.callback(engine.dispose)
        fill(engine)
        yield engine
