"""Fixtures for tests of the seed file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tenants import unique


@pytest.fixture
def name() -> str:
    """The name of an account that no other test uses."""
    return unique("seeded")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The path of a seed file."""
    return tmp_path / "seed.yaml"
