"""Silent name servers take no thread from other requests (docs/console-contents.md#checks)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from sqlalchemy import func, select

from app.accounts.domains import add_domain
from app.db.models import Domain, NetworkCheck
from app.http.context import EXTENSION
from app.network_checks.run import NetworkChecker
from app.settings import Settings
from tests.support.apps import app_with
from tests.support.browser import SAME_ORIGIN, new_link
from tests.support.nameserver import NameServer
from tests.support.servers import PATIENCE, wait_until
from tests.support.tenants import new_tenant, unique
from tests.support.web import Web, forked_web_server

CHECKS = 8
"""More than the server has threads."""


@pytest.fixture
def names() -> Iterator[NameServer]:
    with NameServer() as running:
        running.silent.set()
        yield running


@pytest.fixture
def small(settings: Settings, names: NameServer, tmp_path: Path) -> Iterator[Web]:
    """A server with two threads in all, which would query the silent name server."""
    limits = {"WEB_THREADS": "2", "WEB_WORKERS": "1", "DNS_RESOLVER": names.address}
    with forked_web_server(settings, tmp_path, **limits) as server:
        yield server


def test_while_eight_checks_are_under_way_other_requests_are_answered(
    small: Web, settings: Settings, names: NameServer
) -> None:
    """No process of the API asks the name server: it would answer after ten seconds, eight times."""
    with app_with(settings, dns_resolver=names.address) as app:
        services = app.extensions[EXTENSION]
        tenant, browser = new_tenant(app), requests.Session()
        browser.headers.update(SAME_ORIGIN)
        with services.database.write() as transaction:
            for _ in range(CHECKS):
                name = f"{unique('domain').lower()}.example"
                add_domain(transaction, tenant.id, name, trusted=False, secret_key=settings.secret_key)
            domains = list(transaction.scalars(select(Domain.id).where(Domain.account_id == tenant.id)))[-CHECKS:]
        followed = browser.post(f"{small.base}/console/login/{new_link(app, tenant.id)}", timeout=PATIENCE)
        assert followed.status_code == 200
        for domain_id in domains:
            answer = browser.post(f"{small.base}/console/domains/{domain_id}/check", timeout=PATIENCE)
            assert "being checked" in answer.text
        assert names.asked == []
        checker = NetworkChecker(services)
        checker.start()
        wait_until(lambda: bool(names.asked), "a worker asks")
        key = {"Authorization": f"Bearer {tenant.tokens['standard']}"}
        for _ in range(CHECKS):
            assert requests.get(f"{small.base}/v1/lists", headers=key, timeout=PATIENCE).status_code == 200
        with services.database.read() as session:
            assert session.scalar(select(func.count()).select_from(NetworkCheck)) == CHECKS
        names.silent.clear()
        checker.wait()
        with services.database.read() as session:
            assert session.scalar(select(func.count()).select_from(NetworkCheck)) == 0
