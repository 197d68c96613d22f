"""Fixtures for background work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from sqlalchemy import delete, select, update

from app.clock import now, this_second
from app.db.models import Account, Webhook, WebhookAttempt
from app.events.outbox import record
from app.events.registration import checked_url
from app.events.webhooks import create_webhook, pending_events
from app.services import Services, make_services
from app.settings import Settings
from tests.support.rows import permit_senders
from tests.support.tenants import unique

SECRET = "0123456789abcdef0123456789abcdef"


@dataclass(frozen=True)
class Hook:
    """A registered webhook with what the database stores about it."""

    services: Services
    account_id: int
    id: int

    @property
    def row(self) -> Webhook | None:
        """The webhook, or None after it was deleted."""
        with self.services.database.read() as session:
            return session.get(Webhook, self.id)

    @property
    def waiting(self) -> int:
        """The number of events that wait."""
        with self.services.database.read() as session:
            return pending_events(session, self.account_id).get(self.id, 0)

    @property
    def attempts(self) -> list[WebhookAttempt]:
        """The webhook delivery attempts, oldest first."""
        with self.services.database.read() as session:
            statement = select(WebhookAttempt).where(WebhookAttempt.webhook_id == self.id)
            return list(session.scalars(statement.order_by(WebhookAttempt.id)))

    def happen(self, *numbers: int) -> None:
        """Records events with these numbers."""
        with self.services.database.write() as transaction:
            record(transaction, self.account_id, [{"n": number} for number in numbers])

    def set(self, **values: Any) -> None:
        """Sets columns of the webhook; by default it becomes due at once."""
        with self.services.database.write() as transaction:
            changes = values or {"due_time": now()}
            transaction.execute(update(Webhook).where(Webhook.id == self.id).values(**changes))


AddHook = Callable[..., Hook]


@pytest.fixture(scope="session")
def services(settings: Settings) -> Iterator[Services]:
    """The services of a worker process; background work needs no Flask."""
    services = make_services(settings)
    yield services
    services.database.close()
    services.redis.close()


@pytest.fixture
def account_id(services: Services) -> int:
    """A new account, in a database without webhooks of other tests that are due."""
    with services.database.write() as transaction:
        transaction.execute(delete(Webhook))
    return new_account(services)


@pytest.fixture
def other_id(services: Services) -> int:
    """Another new account."""
    return new_account(services)


def new_account(services: Services) -> int:
    """A new account's id."""
    moment = this_second()
    with services.database.write() as transaction:
        times = {"creation_time": moment, "last_modified_time": moment}
        account = Account(name=unique("account"), owner_confirmed=True, **times)
        transaction.add(account)
        transaction.flush()
        permit_senders(transaction, account.id)
        return account.id


@pytest.fixture
def add_hook(services: Services, account_id: int) -> AddHook:
    """`add_hook(url)` registers a webhook of the account, or of another account."""
    own_account_id = account_id

    def add(url: str, *signers: tuple[str, str], account_id: int = own_account_id) -> Hook:
        return new_hook(services, account_id, url, *signers)

    return add


def new_hook(services: Services, account_id: int, url: str, *signers: tuple[str, str]) -> Hook:
    """A registered webhook."""
    checked = checked_url(services.settings, url)
    with services.database.write() as transaction:
        webhook = create_webhook(transaction, services.settings, account_id, checked, signers or [("k1", SECRET)])
    return Hook(services, account_id, webhook.id)


def changed(services: Services, **settings: Any) -> Services:
    """The services with changed settings and a new `stopping` event."""
    return Services(
        settings=replace(services.settings, **settings),
        database=services.database,
        redis=services.redis,
        wake_ups=services.wake_ups,
    )
