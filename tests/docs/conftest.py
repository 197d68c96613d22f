"""The installation whose copies the examples run in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.world import template


@pytest.fixture(scope="session")
def data(redis_url: str) -> Iterator[Path]:
    """The data folder of the installation in which the examples of the pages are run. Each page gets a copy."""
    with template(redis_url) as folder:
        yield folder
