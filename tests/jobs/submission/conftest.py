"""An application that submits mail by SMTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.submitting import Application, listening, logged_in
from tests.support.tenants import Tenant


@pytest.fixture
def list_id(tenant: Tenant) -> int:
    return tenant.add_list()


@pytest.fixture
def application(tenant: Tenant) -> Iterator[Application]:
    with listening(tenant.services) as port, logged_in(port, tenant) as application:
        yield application
