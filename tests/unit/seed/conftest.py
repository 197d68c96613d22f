"""Fixtures of the seed's tests."""

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
    """Where a seed file may be written."""
    return tmp_path / "seed.yaml"
