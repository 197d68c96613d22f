"""Fixtures of the tests over HTTP."""

from __future__ import annotations

import pytest

from tests.support.sends import Desk
from tests.support.tenants import Tenant


@pytest.fixture
def desk(tenant: Tenant) -> Desk:
    """An account that sends."""
    return Desk(tenant)
