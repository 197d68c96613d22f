"""When a key was last used, and what the log says of the client (docs/requests.md#rotating-a-key)."""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from app.accounts.auth import KeyUses
from app.clock import now
from app.db.models import ApiKey
from app.http.context import extension_name
from app.infrastructure import logs
from app.infrastructure.heartbeat import Heartbeat
from app.settings import Settings
from tests.support.apps import app_with
from tests.support.client import Client
from tests.support.tenants import Tenant, add_key


def uses_of(tenant: Tenant) -> KeyUses:
    uses: KeyUses = tenant.app.extensions[extension_name(KeyUses)]
    return uses


def last_used(tenant: Tenant) -> dict[str, datetime | None]:
    """The time of the last use of the keys, by access level."""
    with tenant.services.database.read() as session:
        rows = session.execute(select(ApiKey.access_level, ApiKey.last_used_time).where(ApiKey.account_id == tenant.id))
        return {row.access_level: row.last_used_time for row in rows}


def test_the_last_use_of_a_key_is_written_later_by_the_process(tenant: Tenant) -> None:
    before = now()
    assert Client(tenant.app, tenant.tokens["report"]).get("/v1/transactional-groups").status_code == 200
    assert set(last_used(tenant).values()) == {None}
    uses_of(tenant).write()
    uses = last_used(tenant)
    assert uses["report"] is not None
    assert before - timedelta(seconds=1) <= uses["report"] <= now()
    assert (uses["limited"], uses["standard"]) == (None, None)


def test_an_older_use_does_not_replace_a_newer_one(tenant: Tenant) -> None:
    newer = datetime(2099, 1, 1, tzinfo=UTC)
    with tenant.services.database.write() as transaction:
        transaction.execute(update(ApiKey).where(ApiKey.account_id == tenant.id).values(last_used_time=newer))
    Client(tenant.app, tenant.tokens["report"]).get("/v1/transactional-groups")
    uses_of(tenant).write()
    assert set(last_used(tenant).values()) == {newer}


def test_uses_that_could_not_be_written_are_written_the_next_time(tenant: Tenant) -> None:
    with tenant.services.database.read() as session:
        statement = select(ApiKey.id).where(ApiKey.account_id == tenant.id, ApiKey.access_level == "report")
        key_id = session.scalars(statement).one()

    class Away:
        def write(self) -> None:
            raise ConnectionError("away")

    uses = KeyUses(tenant.services.database)
    uses.note(key_id)
    uses._database = Away()  # type: ignore[assignment]
    with pytest.raises(ConnectionError):
        uses.write()
    uses._database = tenant.services.database
    uses.write()
    assert last_used(tenant)["report"] is not None


def test_a_process_writes_the_uses_when_it_stops(tenant: Tenant) -> None:
    Client(tenant.app, tenant.tokens["limited"]).get("/v1/messages")
    beating = Heartbeat(
        tenant.services.database,
        ["api"],
        time.monotonic,
        uses_of(tenant).write_if_due,
        settings=tenant.services.settings,
    )
    beating._stopped.set()
    beating._run()
    assert last_used(tenant)["limited"] is not None


class Log:
    """The access lines since it was told to listen."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._written = settings, io.StringIO()

    def listen(self) -> None:
        logs.configure(replace(self._settings, log_format="json"))
        (handler,) = logging.getLogger().handlers
        assert isinstance(handler, logs.LineHandler)
        handler.setStream(self._written)

    def lines(self) -> list[dict[str, Any]]:
        lines = map(json.loads, self._written.getvalue().splitlines())
        return [line for line in lines if line["logger"] == "app.access"]


@pytest.fixture
def log(settings: Settings) -> Iterator[Log]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    listening = Log(settings)
    listening.listen()
    yield listening
    root.handlers, root.level = handlers, level
    logging.captureWarnings(False)


def test_log_lines_have_the_name_of_the_key_and_the_address_of_the_client(tenant: Tenant, log: Log) -> None:
    token = add_key(tenant, "report")
    client = {"environ_overrides": {"REMOTE_ADDR": "203.0.113.7"}}
    Client(tenant.app, token).get("/v1/lists", **client)
    Client(tenant.app, "tms_" + "x" * 43).get("/v1/lists", **client)
    Client(tenant.app).get("/healthz", **client)
    accepted, refused, other = log.lines()
    with tenant.services.database.read() as session:
        name = session.scalars(
            select(ApiKey.name).where(ApiKey.account_id == tenant.id).order_by(ApiKey.id.desc())
        ).first()
    assert (accepted["client_address"], accepted["key"]) == ("203.0.113.7", name)
    assert (refused["client_address"], "key" in refused) == ("203.0.113.7", False)
    assert "key" not in other
    assert token not in json.dumps([accepted, refused, other])


def test_the_logged_address_is_the_one_before_the_trusted_proxies(tenant: Tenant, settings: Settings, log: Log) -> None:
    token = tenant.tokens["report"]
    with app_with(settings, trusted_proxies=1) as behind:
        log.listen()
        for app in (behind, tenant.app):
            Client(app, token).get("/v1/lists", headers={"X-Forwarded-For": "9.9.9.9, 2001:db8::9"})
        Client(behind, token).get("/v1/lists", headers={"X-Forwarded-For": "no address\x1b[31m" * 99})
    assert [line["client_address"] for line in log.lines()] == ["2001:db8::9", "127.0.0.1", None]


@pytest.mark.parametrize("path", ["/o/x.gif", "/c/x", "/u/x", "/p/x"])
def test_the_addresses_of_recipients_are_not_logged(tenant: Tenant, log: Log, path: str) -> None:
    Client(tenant.app).get(path, environ_overrides={"REMOTE_ADDR": "203.0.113.8"})
    (line,) = log.lines()
    assert "203.0.113.8" not in json.dumps(line)
