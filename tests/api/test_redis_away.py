"""Redis hangs: requests are answered all the same, and soon (docs/operations.md, Redis)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from flask import Flask

from app.services import WAIT
from app.settings import Rate, Settings
from tests.support.apps import app_with
from tests.support.client import check_error
from tests.support.redis_process import RedisProcess
from tests.support.sends import Desk
from tests.support.servers import short_folder
from tests.support.tenants import new_tenant


@pytest.fixture
def redis() -> Iterator[RedisProcess]:
    with short_folder() as folder:
        process = RedisProcess(folder)
        process.start()
        yield process
        process.stop()


@pytest.fixture
def limited_app(settings: Settings, redis: RedisProcess) -> Iterator[Flask]:
    """With a rate limit, which asks Redis at every request."""
    with app_with(settings, redis_url=redis.url, rate_limit=Rate(100, 3600)) as made:
        yield made


def test_one_request_waits_for_a_redis_that_hangs_and_the_others_do_not(
    limited_app: Flask, redis: RedisProcess
) -> None:
    desk = Desk(new_tenant(limited_app))
    assert "RateLimit-Limit" in desk.post(desk.email()).headers
    with redis.frozen():
        began = time.monotonic()
        first = desk.post(desk.email())
        waited = time.monotonic() - began
        assert (first.status_code, "RateLimit-Limit" in first.headers) == (202, False)
        assert WAIT <= waited < 2 * WAIT, waited
        began = time.monotonic()
        assert [desk.post(desk.email()).status_code for _ in range(3)] == [202, 202, 202]
        assert time.monotonic() - began < WAIT / 2
        answer = desk.tenant.api.get("/readyz")
        assert (answer.status_code, answer.get_json()["redis"]) == (503, "does not answer")
    desk.tenant.services.silence.end()
    assert "RateLimit-Limit" in desk.post(desk.email()).headers
    assert desk.tenant.api.get("/readyz").status_code == 200


def test_a_refused_connection_is_told_at_once(limited_app: Flask, redis: RedisProcess) -> None:
    tenant = new_tenant(limited_app)
    redis.stop()
    began = time.monotonic()
    assert tenant.api.get("/v1/").status_code == 200
    check_error(tenant.api.get("/v1/lists/0"), 404, "not_found")
    assert time.monotonic() - began < WAIT / 2
    redis.start()
