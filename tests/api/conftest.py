"""Fixtures for tests over HTTP."""

from __future__ import annotations

import pytest

from tests.support.sends import SendsApi
from tests.support.tenants import Tenant


@pytest.fixture
def sends(tenant: Tenant) -> SendsApi:
    """The sends API of an account."""
    return SendsApi(tenant)
