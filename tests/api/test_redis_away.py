"""Redis hangs: requests are still answered, and soon (docs/databases.md#redis)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from flask import Flask
from redis.connection import UnixDomainSocketConnection

from app.infrastructure import redis_client
from app.settings import Rate, Settings
from tests.support.apps import app_with
from tests.support.client import check_error
from tests.support.redis_process import RedisProcess, running_redis
from tests.support.sends import SendsApi
from tests.support.servers import PATIENCE, wait_until
from tests.support.tenants import new_tenant


@pytest.fixture
def redis() -> Iterator[RedisProcess]:
    with running_redis() as process:
        yield process


@pytest.fixture
def limited_app(settings: Settings, redis: RedisProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[Flask]:
    """An application with a rate limit, which uses Redis at every request."""
    monkeypatch.setattr("app.services.WAIT", 2.0)
    with app_with(settings, redis_url=redis.url, rate_limit=Rate(100, 3600)) as application:
        yield application


def test_one_request_waits_for_a_hanging_redis_and_the_others_do_not(
    limited_app: Flask, redis: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured by the counts that Redis was asked for meanwhile, which it executes after it resumes."""
    monkeypatch.setattr(redis_client, "SECONDS", 10 * PATIENCE)
    sends = SendsApi(new_tenant(limited_app))
    assert "RateLimit-Limit" in sends.post(sends.email()).headers
    before = redis.counted()
    with redis.frozen():
        first = sends.post(sends.email())
        assert (first.status_code, "RateLimit-Limit" in first.headers) == (202, False)
        assert [sends.post(sends.email()).status_code for _ in range(3)] == [202, 202, 202]
    wait_until(lambda: redis.counted() == before + 1, "the one question is answered")
    with redis.frozen():
        answer = sends.tenant.api.get("/readyz")
        assert (answer.status_code, answer.get_json()["redis"]) == (200, "does not answer")
    sends.tenant.services.redis_breaker.close()
    assert "RateLimit-Limit" in sends.post(sends.email()).headers
    assert sends.tenant.api.get("/readyz").status_code == 200


def test_a_refused_connection_is_reported_at_once(
    limited_app: Flask, redis: RedisProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis is tried once more, without a pause before it."""
    monkeypatch.setattr(redis_client, "SECONDS", 10 * PATIENCE)
    tenant = new_tenant(limited_app)
    redis.stop()
    with monkeypatch.context() as patched:
        patched.setattr("time.sleep", pytest.fail)
        with counted_connects(patched) as tries:
            assert tenant.api.get("/v1/").status_code == 200
            check_error(tenant.api.get("/v1/lists/0"), 404, "not_found")
    assert len(tries) == 2
    redis.start()


@contextmanager
def counted_connects(patched: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """One entry for each attempt to connect to Redis."""
    tries: list[object] = []
    connect = UnixDomainSocketConnection._connect

    def counting(connection: UnixDomainSocketConnection) -> object:
        tries.append(connection)
        connected: object = connect(connection)  # type: ignore[no-untyped-call]  # the library's
        return connected

    patched.setattr(UnixDomainSocketConnection, "_connect", counting)
    yield tries
