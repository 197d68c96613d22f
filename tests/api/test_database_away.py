"""An outage or hang of the database: requests get a 503 in time, with few log lines
(docs/databases.md#database-outages)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from app.db import bounded_connection, outage
from app.db.bounded_connection import MIN_CONNECT_SECONDS, RESERVED_SECONDS
from app.db.database import Database, Transaction
from app.db.models import Recipient
from app.db.outage import OutcomeUnknown
from app.settings import Settings
from app.tracking.tokens import OPEN_PURPOSE, recipient_token
from tests.conftest import test_settings
from tests.support.apps import app_with
from tests.support.client import Client, check_error
from tests.support.own_postgres import OwnPostgres
from tests.support.sends import SendsApi
from tests.support.servers import PATIENCE, short_folder, wait_until
from tests.support.tenants import new_tenant, unique


@pytest.fixture
def own_settings(own_postgres: OwnPostgres, redis_url: str) -> Iterator[Settings]:
    with short_folder() as folder:
        yield test_settings(folder, DATABASE_URL=own_postgres.url, REDIS_URL=redis_url)


@pytest.fixture
def own_app(own_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Flask]:
    """An application that soon looks whether its database is there again."""
    monkeypatch.setattr("app.db.bounded_connection.PROBE_INTERVAL", 0.05)
    outage.outage.reset()
    with app_with(own_settings) as application:
        yield application
    outage.outage.reset()


@contextmanager
def hasty() -> Iterator[pytest.MonkeyPatch]:
    """Short waits inside the block, for a database that hangs: nothing that it does could be too slow for them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("app.db.bounded_connection.REQUEST_SECONDS", 0.4)
        patched.setattr("app.db.bounded_connection.RESERVED_SECONDS", dict.fromkeys(RESERVED_SECONDS, 0.4))
        patched.setattr("app.db.bounded_connection.CANCEL_SECONDS", 0.2)
        patched.setattr("app.db.bounded_connection.CONNECT_SECONDS", MIN_CONNECT_SECONDS)
        yield patched


@pytest.fixture
def own_sends(own_app: Flask) -> SendsApi:
    return SendsApi(new_tenant(own_app))


def is_back(sends: SendsApi) -> bool:
    return sends.tenant.api.get("/v1/").status_code == 200


def check_away(answer: TestResponse) -> str:
    body = check_error(answer, 503, "service_unavailable", "service_unavailable")
    assert int(answer.headers["Retry-After"]) > 0
    return str(body["developer_message"])


def test_requests_to_a_hanging_database_get_503_and_work_after_it_resumes(
    own_sends: SendsApi, own_postgres: OwnPostgres
) -> None:
    body = own_sends.email()
    with own_postgres.frozen(), hasty():
        for _ in range(3):
            assert "nothing was written" in check_away(own_sends.post(body))
    wait_until(lambda: is_back(own_sends), "it answers again")
    assert own_sends.rows(Recipient) == []
    own_sends.send(own_sends.email())


def test_the_pixel_is_an_image_under_every_host_while_the_database_hangs(
    own_sends: SendsApi, own_postgres: OwnPostgres
) -> None:
    """The account of the host need not be known at once: an open harms nobody, and it is recorded later."""
    own_sends.send(own_sends.email())
    (recipient,) = own_sends.rows(Recipient)
    token = recipient_token(own_sends.tenant.services.settings.secret_key, OPEN_PURPOSE, recipient.id)
    with own_postgres.frozen(), hasty():
        for host in ("click.acme.example", "localhost"):
            answer = Client(own_sends.tenant.app).request("GET", f"/o/{token}.gif", headers={"Host": host})
            assert (answer.status_code, answer.mimetype) == (200, "image/gif")
    wait_until(lambda: is_back(own_sends), "it answers again")
    wait_until(lambda: own_sends.rows(Recipient)[0].first_open_time is not None, "the open is recorded")


def test_a_lost_commit_is_reported_as_a_change_that_may_have_been_made(
    own_sends: SendsApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Transaction.commit

    def unanswered(transaction: Transaction) -> None:
        commit(transaction)
        raise OutcomeUnknown("COMMIT", {}, Exception("the connection is lost"))

    body = own_sends.email()
    with monkeypatch.context() as patched:
        patched.setattr(Transaction, "commit", unanswered)
        assert "may have been made" in check_away(own_sends.post(body))
    assert len(own_sends.rows(Recipient)) == 1


def test_an_outage_is_logged_in_one_line_per_request_with_one_traceback(
    own_sends: SendsApi, own_postgres: OwnPostgres, caplog: pytest.LogCaptureFixture
) -> None:
    outage.outage.reset()  # a thread of the process may have met a failure of its own while the fixtures were made
    caplog.clear()
    with own_postgres.away():
        answers = [own_sends.tenant.api.get("/v1/messages") for _ in range(5)]
    for answer in answers:
        check_away(answer)
    logged = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [bool(record.exc_info) for record in logged] == [True] + [False] * (len(logged) - 1)
    request_records = [record for record in logged if getattr(record, "path", None) == "/v1/messages"]
    assert [record.levelno for record in request_records] == [logging.WARNING] * 5
    wait_until(lambda: is_back(own_sends), "it answers again")


Work = Callable[[Transaction], TestResponse]


@contextmanager
def transacting(database: Database, instead: Callable[[Work], TestResponse]) -> Iterator[None]:
    """Inside the block the requests of this thread call something else than `transact`. The thread that releases their
    claims does not."""
    transact, requesting = database.transact, threading.current_thread()

    def choose(work: Work) -> TestResponse:
        return instead(work) if threading.current_thread() is requesting else transact(work)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(database, "transact", choose)
        yield


def test_an_idempotency_key_is_free_at_once_after_a_503(own_sends: SendsApi, own_postgres: OwnPostgres) -> None:
    """Nothing was written, and the database was not available to release the key."""
    headers, body = {"Idempotency-Key": unique("key")}, own_sends.email()
    database = own_sends.tenant.services.database
    transact = database.transact

    def frozen(work: Work) -> TestResponse:
        with own_postgres.frozen(), hasty():
            bounded_connection.current().shorten(0.4)
            return transact(work)

    with transacting(database, frozen):
        check_away(own_sends.post(body, headers=headers))
    wait_until(lambda: is_back(own_sends), "it answers again")
    assert own_sends.rows(Recipient) == []
    answer = own_sends.post(body, headers=headers)
    assert answer.status_code == 202
    assert "Idempotent-Replayed" not in answer.headers


def test_claims_are_released_by_a_thread_that_ends_before_its_database_is_closed(
    own_settings: Settings, own_postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would open another connection, which nobody closes, for as long as the claim lasts."""
    for pause in ("LOOK_PAUSE", "RELEASE_PAUSE"):
        monkeypatch.setattr(f"app.http.idempotency.{pause}", PATIENCE)
    with app_with(own_settings) as application:
        sends = SendsApi(new_tenant(application))
        database = sends.tenant.services.database
        transact = database.transact

        def without_database(work: Work) -> TestResponse:
            with own_postgres.away():
                return transact(work)

        with transacting(database, without_database):
            check_away(sends.post(sends.email(), headers={"Idempotency-Key": unique("key")}))
        assert "claims" in threads()
    assert "claims" not in threads()


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


def test_a_key_whose_commit_was_not_answered_does_its_work_once(own_sends: SendsApi, own_postgres: OwnPostgres) -> None:
    """The first commit waits for a standby that is absent: neither timeouts nor retries end that, or send twice."""
    headers, body = {"Idempotency-Key": unique("key")}, own_sends.email()
    database = own_sends.tenant.services.database
    transact = database.transact

    def without_standby(work: Work) -> TestResponse:
        standby.enter_context(own_postgres.without_standby())

        def hurried(transaction: Transaction) -> TestResponse:
            answer = work(transaction)
            patched.setattr("app.db.bounded_connection.RESERVED_SECONDS", dict.fromkeys(RESERVED_SECONDS, 0.4))
            bounded_connection.current().shorten(0.4)  # all of it is left for the commit
            return answer

        return transact(hurried)

    with ExitStack() as standby:
        with pytest.MonkeyPatch.context() as patched, transacting(database, without_standby):
            assert "may have been made" in check_away(own_sends.post(body, headers=headers))
        wait_until(lambda: own_postgres.waiting_commits() == 2, "the server waits on")
        with hasty():
            check_away(own_sends.post(body, headers=headers))
    answers: list[TestResponse] = []

    def is_answered() -> bool:
        answers.append(own_sends.post(body, headers=headers))
        return answers[-1].status_code != 503

    wait_until(is_answered, "the server has decided")
    assert answers[-1].status_code == 202
    assert answers[-1].headers["Idempotent-Replayed"] == "true"
    assert len(own_sends.rows(Recipient)) == 1
