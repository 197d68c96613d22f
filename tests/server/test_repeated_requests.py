"""Requests that the database fails while another server becomes the primary (docs/databases.md#repeated-requests)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import requests
from sqlalchemy import delete, insert, update
from werkzeug.test import TestResponse

from app.clock import now
from app.db.bounded_connection import WaitBudget
from app.db.models import IdempotencyRecord, Recipient
from app.http.console.guard import MAX_ATTEMPTS
from app.http.idempotency import LEASE
from app.http.repetition import ATTEMPTS_KEY, LEAST_SECONDS, LONGEST_PAUSE, Attempts
from app.ids import new_uuids
from app.settings import Settings
from tests.conftest import test_settings
from tests.support.apps import app_with
from tests.support.browser import SAME_ORIGIN, Browser
from tests.support.client import SENDS
from tests.support.own_postgres import OwnPostgres
from tests.support.races import meanwhile
from tests.support.sends import SendsApi
from tests.support.servers import PATIENCE, short_folder, wait_until
from tests.support.tenants import new_tenant, unique
from tests.support.web import Web, forked_web_server

RATE = 150
CLIENTS = 12
WAITS = "a request waits for the database: "


@dataclass(frozen=True)
class Service:
    """An API process with two threads, its database, and an account."""

    web: Web
    postgres: OwnPostgres
    sends: SendsApi

    def post(self, body: dict[str, Any], **headers: str) -> requests.Response:
        """Posts a send."""
        return requests.post(self.web.base + SENDS, json=body, headers=self._headers | headers, timeout=PATIENCE)

    def get(self, path: str) -> requests.Response:
        """Reads a path."""
        return requests.get(self.web.base + path, headers=self._headers, timeout=PATIENCE)

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.sends.tenant.tokens['standard']}"}

    def waiting(self) -> int:
        """How many requests have begun to wait for the database."""
        return sum(str(line["message"]).startswith(WAITS) for line in self.web.lines("app.http.repetition"))


@pytest.fixture
def settings(own_postgres: OwnPostgres, redis_url: str) -> Iterator[Settings]:
    with short_folder() as folder:
        yield test_settings(folder, DATABASE_URL=own_postgres.url, REDIS_URL=redis_url)


@pytest.fixture
def sends(settings: Settings) -> Iterator[SendsApi]:
    with app_with(settings) as app:
        yield SendsApi(new_tenant(app))


@pytest.fixture
def service(settings: Settings, sends: SendsApi, own_postgres: OwnPostgres, tmp_path: Path) -> Iterator[Service]:
    environ = {"WEB_THREADS": "2", "RATE_LIMIT": f"{RATE}/hour"}
    with forked_web_server(settings, tmp_path, **environ) as web:
        yield Service(web, own_postgres, sends)


def test_requests_wait_without_a_thread_until_the_database_is_back(service: Service) -> None:
    hour = time.time() // 3600
    bodies = [service.sends.email() for _ in range(CLIENTS)]
    keys = [{"Idempotency-Key": unique("key")} if number % 2 else {} for number in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS + 1) as clients:
        with service.postgres.away():
            posts = [clients.submit(service.post, body, **key) for body, key in zip(bodies, keys, strict=True)]
            read = clients.submit(service.get, "/v1/lists")
            wait_until(lambda: service.waiting() == CLIENTS + 1, "all of them wait")
            assert service.get("/healthz").status_code == 200
            assert not any(future.done() for future in (*posts, read))
        answers = [post.result() for post in posts]
    assert [answer.status_code for answer in answers] == [202] * CLIENTS
    assert read.result().status_code == 200
    stored = {recipient.uuid: recipient.email for recipient in service.sends.rows(Recipient)}
    uuids = [uuid_in(answer.json()) for answer in answers]
    assert stored == {
        uuid: body["recipients"][0]["email"] for uuid, body in zip(uuids, bodies, strict=True)
    }  # once each
    last = service.post(bodies[1], **keys[1])
    assert (last.json(), last.headers["Idempotent-Replayed"]) == (answers[1].json(), "true")
    if time.time() // 3600 == hour:  # else the count has begun anew
        assert last.headers["RateLimit-Remaining"] == str(RATE - CLIENTS - 2)
    access = [line["message"] for line in service.web.lines()]
    assert access.count(f"POST {SENDS} 202") == CLIENTS + 1


def end_backend(postgres: OwnPostgres, function: str, event: str) -> None:
    """Calls the function for the server process that waits for such an event, once there is one."""
    ended = f"SELECT {function}(pid) FROM pg_stat_activity WHERE '{event}' IN (wait_event, wait_event_type)"
    statement = f"{ended} AND datname = '{postgres.name}'"
    wait_until(lambda: " t\n" in postgres.run(statement), f"a server process waits for {event}")


@pytest.mark.parametrize("function", ["pg_cancel_backend", "pg_terminate_backend"])
def test_a_request_is_not_repeated_whose_commit_failed(
    sends: SendsApi, own_postgres: OwnPostgres, function: str
) -> None:
    """PostgreSQL calls a cancelled commit a success with a warning, and no standby may have it."""
    attempts, body = Attempts(), sends.email()
    with ThreadPoolExecutor(1) as pool, own_postgres.without_standby():
        posted = pool.submit(post, sends, body, attempts)
        end_backend(own_postgres, function, "SyncRep")
        answer = posted.result()
    assert (answer.status_code, "may have been made" in answer.text) == (503, True), answer.text
    assert attempts.number == 0
    assert len(sends.rows(Recipient)) == 1


def test_a_request_is_repeated_for_seven_seconds_and_those_behind_it_are_refused_at_once(
    sends: SendsApi, own_postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts, body = Attempts(), sends.email()

    def is_refused() -> bool:
        answer = post(sends, body, attempts)
        return attempts.pause is None and answer.status_code == 503

    with own_postgres.away():
        assert not is_refused()
        with monkeypatch.context() as patch:
            patch.setattr("app.db.bounded_connection.REQUEST_SECONDS", LONGEST_PAUSE + 0.5)
            wait_until(is_refused, "the request is refused")
            behind = Attempts()
            assert (post(sends, body, behind).status_code, behind.number) == (503, 0)
    attempts = Attempts()
    assert post(sends, body, attempts).status_code == 202
    assert len(sends.rows(Recipient)) == 1


def test_a_repeated_request_has_the_uuids_of_its_first_attempt(sends: SendsApi, own_postgres: OwnPostgres) -> None:
    attempts, body = Attempts(), sends.email()
    interrupt_work(sends, own_postgres, body, attempts)
    assert (attempts.number, attempts.pause is not None) == (1, True)
    second = post(sends, body, attempts)
    attempts.uuids.use_from_start()
    assert (second.status_code, uuid_in(second.get_json())) == (202, new_uuids(1)[0])


def test_an_attempt_to_sign_in_that_is_repeated_counts_once(sends: SendsApi, own_postgres: OwnPostgres) -> None:
    browser, attempts = Browser(sends.tenant.app), Attempts()

    def status() -> int:
        environ = {"REMOTE_ADDR": browser.address, ATTEMPTS_KEY: attempts}
        form = {"data": {"key": "tms_wrong"}, "headers": SAME_ORIGIN, "base_url": browser.base}
        return browser.client.post("/console/sign-in", environ_overrides=environ, **form).status_code

    with own_postgres.away():
        for _ in range(MAX_ATTEMPTS):
            status()
            assert is_waiting(attempts)
    assert status() == 401


def interrupt_work(
    sends: SendsApi, own_postgres: OwnPostgres, body: dict[str, Any], attempts: Attempts, **headers: str
) -> None:
    """Posts a send and ends its server process while it writes recipients."""
    with ThreadPoolExecutor(1) as pool, psycopg.connect(own_postgres.url.replace("+psycopg", "")) as other:
        other.execute("LOCK TABLE recipients IN SHARE MODE")
        first = pool.submit(post, sends, body, attempts, **headers)
        end_backend(own_postgres, "pg_terminate_backend", "Lock")
        first.result()
        other.rollback()


def test_an_idempotency_key_is_free_for_all_machines_once_the_database_is_back(
    sends: SendsApi, own_postgres: OwnPostgres
) -> None:
    """Another machine cannot see that the request has ended: its claim has to be released."""
    interrupt_work(sends, own_postgres, sends.email(), Attempts(), **{"Idempotency-Key": unique("key")})
    wait_until(lambda: not sends.rows(IdempotencyRecord), "the claim is released")


def test_the_claim_of_an_idempotency_key_is_released_whose_commit_nobody_has_confirmed(
    sends: SendsApi, own_postgres: OwnPostgres
) -> None:
    """It becomes visible after its request has ended, when a standby is back."""
    body = sends.email()
    with ThreadPoolExecutor(1) as pool, own_postgres.without_standby():
        posted = pool.submit(post, sends, body, Attempts(), **{"Idempotency-Key": unique("key")})
        end_backend(own_postgres, "pg_cancel_backend", "SyncRep")
        assert posted.result().status_code in (200, 503)
    wait_until(lambda: not sends.rows(IdempotencyRecord), "the claim is released")


def test_a_claim_that_appears_after_its_request_has_ended_leaves_the_key_free(sends: SendsApi) -> None:
    """As when a standby confirms it so late that the client has had its 503 and tries again meanwhile."""
    key, body, services = {"Idempotency-Key": unique("key")}, sends.email(), sends.tenant.services
    assert sends.post(body, headers=key).status_code == 202
    (first,) = sends.rows(IdempotencyRecord)  # its request has ended
    claim = {name: getattr(first, name) for name in ("account_id", "key", "fingerprint", "creation_time", "holder")}
    with services.database.write() as transaction:
        transaction.execute(delete(IdempotencyRecord))
    answers: list[TestResponse] = []
    with ExitStack() as after, services.database.write() as transaction:
        transaction.execute(insert(IdempotencyRecord).values(**claim, lease_time=now() + LEASE))
        after.enter_context(meanwhile(services, lambda: answers.append(sends.post(body, headers=key))))
    (answer,) = answers
    assert (answer.status_code, "Idempotent-Replayed" in answer.headers) == (202, False)


def test_a_request_waits_for_one_of_another_machine_with_its_idempotency_key(
    sends: SendsApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that does not repeat requests answers 409 at once, and so does this one in the end."""
    monkeypatch.setattr("app.http.repetition.LONGEST_PAUSE", PATIENCE / 2)
    key, body = {"Idempotency-Key": unique("key")}, sends.email()
    first = Attempts()
    assert post(sends, body, first, **key).status_code == 202
    (stored,) = sends.rows(IdempotencyRecord)
    claimed = {"status": None, "body": None, "holder": "another-1-machine:1", "lease_time": now() + LEASE}
    set_record(sends, **claimed)
    later = Attempts()
    post(sends, body, later, **key)
    assert is_waiting(later)
    assert sends.post(body, headers=key).status_code == 409
    set_record(sends, status=stored.status, body=stored.body)
    answer = post(sends, body, later, **key)
    assert (answer.status_code, answer.headers["Idempotent-Replayed"], is_waiting(later)) == (202, "true", False)
    set_record(sends, **claimed)
    later.budget = WaitBudget(PATIENCE / 4, total=True)
    answer = post(sends, body, later, **key)
    assert (answer.status_code, is_waiting(later)) == (409, False)
    assert 0 < int(answer.headers["Retry-After"]) <= LEASE.total_seconds()
    sends.tenant.services.database.note_failure()
    later.budget = WaitBudget(PATIENCE / 4, total=True)
    assert post(sends, body, later, **key).status_code == 503  # the other machine may have been unable to release it


def is_waiting(attempts: Attempts) -> bool:
    return attempts.pause is not None


def set_record(sends: SendsApi, **values: Any) -> None:
    """Changes the only record of an idempotency key."""
    with sends.tenant.services.database.write() as transaction:
        transaction.execute(update(IdempotencyRecord).values(**values))


def test_the_time_in_which_a_request_waits_for_a_thread_counts_as_a_wait_for_the_database(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All threads may be waiting for the database; whoever waits behind them must not be answered after twice the
    time. The first attempt may wait for a second in any case."""
    monkeypatch.setattr("app.db.bounded_connection.REQUEST_SECONDS", 60.0)
    for waited, left in ((0.0, 60.0), (50.0, 10.0), (100.0, LEAST_SECONDS)):
        attempts = Attempts(waiting_since=time.monotonic() - waited)
        assert attempts.resume().left == pytest.approx(left, abs=0.5)
    attempts.waiting_since = time.monotonic()
    assert attempts.resume().left == pytest.approx(LEAST_SECONDS, abs=0.5)


def post(sends: SendsApi, body: dict[str, Any], attempts: Attempts, **headers: str) -> TestResponse:
    """Posts a send as a server does that repeats requests."""
    return sends.post(body, headers=headers, environ_overrides={ATTEMPTS_KEY: attempts})


def uuid_in(body: dict[str, Any]) -> str:
    """The uuid of the only recipient of an accepted send."""
    uuid: str = body["_embedded"]["recipients"][0]["uuid"]
    return uuid
