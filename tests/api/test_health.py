"""Probes and metrics (contract: Health)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask

from app.settings import Settings
from tests.support.apps import app_with
from tests.support.client import Client, not_found
from tests.support.tenants import Tenant

NOWHERE = "unix:///nowhere/redis.sock"


def test_the_process_answers(anon: Client) -> None:
    answer = anon.get("/healthz")
    assert answer.status_code == 200
    assert answer.get_json() == {"status": "ok"}


def test_ready_when_database_and_redis_answer(anon: Client) -> None:
    answer = anon.get("/readyz")
    assert answer.status_code == 200
    assert answer.get_json() == {"status": "ok", "failed": [], "database": "ok", "redis": "ok"}


@pytest.mark.parametrize("parts", [["redis"], ["database"], ["database", "redis"]])
def test_not_ready_names_what_does_not_answer(settings: Settings, tmp_path: Path, parts: list[str]) -> None:
    changes = {"database": {"database_url": f"sqlite:///{tmp_path}"}, "redis": {"redis_url": NOWHERE}}
    broken = {name: value for part in parts for name, value in changes[part].items()}
    with app_with(settings, **broken) as app:
        answer = Client(app).get("/readyz")
        assert Client(app).get("/healthz").status_code == 200
    assert answer.status_code == 503
    assert answer.get_json()["failed"] == parts
    assert {name: state for name, state in answer.get_json().items() if state == "does not answer"}.keys() == set(parts)
    assert "nowhere" not in answer.text
    assert str(tmp_path) not in answer.text


def test_metrics_count_requests_by_method_and_status(tenant: Tenant, anon: Client) -> None:
    tenant.api.get("/v1/messages")
    tenant.api.get("/v1/messages/0")
    tenant.api.get("/v1/messages", environ_overrides={"REQUEST_METHOD": "MADEUP"})
    answer = anon.get("/metrics")
    assert answer.status_code == 200
    assert answer.mimetype == "text/plain"
    assert 'tms_http_requests_total{method="GET",status="200"}' in answer.text
    assert 'tms_http_requests_total{method="GET",status="404"}' in answer.text
    assert 'tms_http_requests_total{method="other",status="405"}' in answer.text
    assert "MADEUP" not in answer.text


@pytest.fixture(scope="module")
def local_only(settings: Settings) -> Iterator[Flask]:
    """An application that shows its metrics to the loopback address only."""
    with app_with(settings, metrics_local_only=True) as made:
        yield made


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("192.0.2.1", False),
        ("2001:db8::1", False),
        ("", False),
    ],
)
def test_metrics_can_be_for_the_loopback_address_alone(local_only: Flask, address: str, shown: bool) -> None:
    answer = Client(local_only).get("/metrics", environ_overrides={"REMOTE_ADDR": address})
    if shown:
        assert answer.status_code == 200
    else:
        not_found(answer)


def test_metrics_are_for_everybody_by_default(anon: Client) -> None:
    assert anon.get("/metrics", environ_overrides={"REMOTE_ADDR": "192.0.2.1"}).status_code == 200
