"""One service for all tests with Prometheus: starting it takes longer than most of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.monitoring.world import World, watched_service


@pytest.fixture(scope="package")
def world() -> Iterator[World]:
    """A running service, and what it depends on."""
    with watched_service() as made:
        yield made
