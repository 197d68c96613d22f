"""Fixtures for tests over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.request_network import watched_requests
from tests.support.sends import SendsApi
from tests.support.tenants import Tenant


@pytest.fixture
def sends(tenant: Tenant) -> SendsApi:
    """The sends API of an account."""
    return SendsApi(tenant)


@pytest.fixture(autouse=True)
def no_request_waits_for_the_network() -> Iterator[None]:
    """Each test proves it of the requests that it makes (tests/guards/test_network_calls.py)."""
    with watched_requests() as watch:
        yield
    assert watch.noted == []
