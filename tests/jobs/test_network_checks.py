"""Checks that wait for name servers, carried out by workers (docs/console-contents.md#checks)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from app.accounts.domains import add_domain, find_domain
from app.clock import now
from app.db.models import NetworkCheck, Webhook
from app.db.models.webhooks import UNCHECKED_BAR
from app.errors import ServiceError
from app.events.batches import has_due as has_due_webhooks
from app.events.redeliver import send_test
from app.events.webhooks import check_again
from app.infrastructure.redis_client import AUTOMATIONS
from app.maintenance.audit_seals import seal_entries
from app.maintenance.domain_check import verify_domain
from app.network_checks.ask import Kind, ask, is_under_way
from app.network_checks.run import NetworkChecker, has_due
from app.services import Services
from jobs.schedule import tick
from tests.databases.running import Alone, alone
from tests.jobs.conftest import Hook, changed
from tests.support.databases import BACKENDS
from tests.support.nameserver import NameServer
from tests.support.servers import wait_until
from tests.support.tenants import new_tenant, unique


@pytest.fixture(params=BACKENDS)
def parts(request: pytest.FixtureRequest) -> Iterator[Alone]:
    with alone(request.getfixturevalue("postgres") if request.param == "postgresql" else None) as services:
        yield services


@pytest.fixture
def names() -> Iterator[NameServer]:
    with NameServer() as running:
        yield running


@pytest.fixture
def asking(parts: Alone, names: NameServer) -> Services:
    """Services of a worker that queries the test's name server."""
    return changed(parts.services, dns_resolver=names.address, webhook_allow_private=False)


def domain_of(services: Services, account_id: int) -> tuple[int, str]:
    """The id and name of a new domain."""
    name = f"{unique('domain').lower()}.example"
    with services.database.write() as transaction:
        add_domain(transaction, account_id, name, trusted=False, secret_key=services.settings.secret_key)
        return find_domain(transaction, account_id, name).id, name


def ask_for(services: Services, account_id: int, object_id: int, kind: Kind = "domain") -> None:
    with services.database.write() as transaction:
        ask(transaction, services, kind, account_id, object_id)


def under_lease(services: Services) -> list[int]:
    """The accounts with a check under way."""
    with services.database.read() as session:
        running = NetworkCheck.lease_time.is_not(None)
        return sorted(session.scalars(select(NetworkCheck.account_id).where(running)))


def open_checks(services: Services) -> int:
    with services.database.read() as session:
        return len(session.scalars(select(NetworkCheck.id)).all())


def finish(checker: NetworkChecker, services: Services) -> None:
    """Waits until all that were asked for have ended."""
    wait_until(lambda: not open_checks(services), "all checks have ended")
    checker.wait()


def test_one_check_of_an_account_runs_at_a_time_and_those_of_others_beside_it(
    parts: Alone, asking: Services, names: NameServer
) -> None:
    """One check of an account runs at a time even with two processes. Silent name servers hold up only the accounts
    that have chosen them."""
    other = new_tenant(parts.tenant.app)
    for _ in range(3):
        ask_for(asking, parts.tenant.id, domain_of(asking, parts.tenant.id)[0])
    ask_for(asking, other.id, domain_of(asking, other.id)[0])
    names.silent.set()
    checkers = [NetworkChecker(asking), NetworkChecker(asking)]
    for checker in checkers:
        checker.start()
    assert under_lease(asking) == sorted([parts.tenant.id, other.id])
    with asking.database.read() as session:
        assert not has_due(session)
    names.silent.clear()
    for checker in checkers:
        finish(checker, asking)


def test_all_lookups_of_a_domain_end_at_one_deadline(
    parts: Alone, asking: Services, names: NameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not answered is unknown, and not even asked if no time is left."""
    monkeypatch.setattr("app.maintenance.domain_check.DEADLINE_SECONDS", 0.05)
    monkeypatch.setattr("app.maintenance.domain_check.MAX_LOOKUPS", 1)
    names.silent.set()
    domain_id, name = domain_of(asking, parts.tenant.id)
    row = verify_domain(asking, parts.tenant.id, name)
    assert {record["state"] for record in row["records"]} == {"unknown"}
    assert len(set(names.asked)) < len(row["records"])
    assert "for all records" in row["records"][-1]["found"][0]
    assert domain_id == row["id"]


def test_the_check_of_a_dead_worker_begins_again_when_its_lease_has_run_out(parts: Alone, asking: Services) -> None:
    domain_id, name = domain_of(asking, parts.tenant.id)
    ask_for(asking, parts.tenant.id, domain_id)
    set_lease(asking, now() + timedelta(seconds=30))
    tick(asking, [])
    assert parts.waiting(AUTOMATIONS) == 1, "when it was asked for"
    parts.services.redis.flushall()
    seal_entries(asking)  # which workers of that queue do, too
    tick(asking, [])
    assert parts.waiting(AUTOMATIONS) == 0
    set_lease(asking, now())
    tick(asking, [])
    assert parts.waiting(AUTOMATIONS) == 1
    checker = NetworkChecker(asking)
    checker.start()
    finish(checker, asking)
    with asking.database.read() as session:
        assert find_domain(session, parts.tenant.id, name).checked_time is not None


def set_lease(services: Services, moment: Any) -> None:
    with services.database.write() as transaction:
        transaction.execute(update(NetworkCheck).values(lease_time=moment))


def test_a_check_that_fails_keeps_no_other_waiting(
    parts: Alone, asking: Services, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr("app.network_checks.run.verify_domain", fails)
    for _ in range(2):
        ask_for(asking, parts.tenant.id, domain_of(asking, parts.tenant.id)[0])
    checker = NetworkChecker(asking)
    checker.start()
    finish(checker, asking)
    assert "a check has failed" in caplog.text


# ---------------------------------------------------------------------------------------------- webhooks


def unchecked(parts: Alone, url: str) -> Hook:
    """A webhook that the console has registered, and one event for it."""
    webhook_id = parts.tenant.add(Webhook, url=url, creation_time=now(), due_time=now(), barred=UNCHECKED_BAR)
    ask_for(parts.services, parts.tenant.id, webhook_id, "webhook")
    hook = Hook(parts.services, parts.tenant.id, webhook_id)
    hook.happen(1)
    return hook


def run(services: Services) -> None:
    checker = NetworkChecker(services)
    checker.start()
    finish(checker, services)


def test_a_webhook_gets_what_has_happened_once_its_host_is_accepted(parts: Alone, asking: Services) -> None:
    """A host that nobody knows is accepted, as at the command line: nothing can be reached by it."""
    hook = unchecked(parts, "https://hooks.invalid/in")
    with asking.database.read() as session:
        assert not has_due_webhooks(session, asking.settings)
    run(asking)
    assert hook.row is not None
    assert (hook.row.barred, hook.waiting) == (None, 1)
    with asking.database.read() as session:
        assert has_due_webhooks(session, asking.settings)


def test_a_webhook_whose_host_leads_into_the_own_network_is_refused_with_the_reason(
    parts: Alone, asking: Services
) -> None:
    hook = unchecked(parts, "https://localhost/in")
    run(asking)
    assert hook.row is not None
    assert "(localhost), which is not a public address" in str(hook.row.barred)
    assert hook.waiting == 0
    hook.happen(2)
    assert hook.waiting == 0, "nothing is kept for it"
    with pytest.raises(ServiceError) as refused, asking.database.write() as transaction:
        send_test(transaction, transaction.get_one(Webhook, hook.id))
    assert "it was refused" in refused.value.errors[0].developer_message
    with asking.database.write() as transaction:
        check_again(transaction.get_one(Webhook, hook.id))
        ask(transaction, asking, "webhook", parts.tenant.id, hook.id)
    run(changed(asking, webhook_allow_private=True))
    assert hook.row.barred is None


def test_a_webhook_whose_check_fails_is_not_left_waiting(
    parts: Alone, asking: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr("app.network_checks.run.check_webhook", fails)
    hook = unchecked(parts, "https://hooks.invalid/in")
    run(asking)
    assert hook.row is not None
    assert hook.row.barred == "its host could not be checked"
    with asking.database.read() as session:
        assert not is_under_way(session, "webhook", parts.tenant.id, hook.id)
