"""The rate limit of a key and of the console: headers, error, and exceptions (docs/requests.md#rate-limit)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from flask import Flask

from app.accounts.rate_limit import Portions
from app.clock import now
from app.db.counters import hour_of
from app.http.console.assets import asset_url
from app.http.context import EXTENSION
from app.services import Services
from app.settings import Rate, Settings
from tests.support.apps import app_with
from tests.support.browser import HOME, Browser, new_link, signed_in, words
from tests.support.cases import each
from tests.support.client import Client, check_error
from tests.support.servers import wait_until
from tests.support.tenants import Tenant, add_key, new_tenant, unique

WINDOW = 100_000_000
HEADERS = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")


@pytest.fixture(scope="module")
def limited_app(settings: Settings) -> Iterator[Flask]:
    """Three requests in a window that does not end during a test, none of them used."""
    with app_with(settings, rate_limit=Rate(3, WINDOW)) as application:
        redis = application.extensions[EXTENSION].redis
        # The keys of both databases have the same ids, and the databases share one Redis.
        for counter in redis.scan_iter("tms:rate:*"):
            redis.delete(counter)
        yield application


def left() -> float:
    """The seconds to the end of the window."""
    return WINDOW - datetime.now(UTC).timestamp() % WINDOW


@pytest.fixture
def client(limited_app: Flask) -> Client:
    """A key that has made no requests."""
    return new_tenant(limited_app).api


def test_every_answer_has_the_remaining_requests(client: Client) -> None:
    before = left()
    answers = [client.get("/v1/") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert [answer.headers["RateLimit-Limit"] for answer in answers] == ["3", "3", "3"]
    assert [answer.headers["RateLimit-Remaining"] for answer in answers] == ["2", "1", "0"]
    after = left()
    assert after <= int(answers[-1].headers["RateLimit-Reset"]) < before + 1


def test_a_request_beyond_the_limit_is_refused_with_the_time_to_wait(client: Client) -> None:
    for _ in range(3):
        client.get("/v1/")
    answer = client.get("/v1/")
    check_error(answer, 429, "too_many_requests", "too_many_requests")
    assert answer.headers["RateLimit-Remaining"] == "0"
    assert answer.headers["Retry-After"] == answer.headers["RateLimit-Reset"]
    assert 1 <= int(answer.headers["Retry-After"]) <= WINDOW


def test_errors_count_and_carry_the_headers(client: Client) -> None:
    answers = [client.get("/v1/nothing"), client.request("PUT", "/v1/messages"), client.get("/v1/messages?limit=x")]
    assert [answer.status_code for answer in answers] == [404, 405, 400]
    assert [answer.headers["RateLimit-Remaining"] for answer in answers] == ["2", "1", "0"]
    assert client.get("/v1/").status_code == 429


def test_writes_beyond_the_limit_write_nothing(limited_app: Flask, tenant: Tenant) -> None:
    client = Client(limited_app, tenant.tokens["standard"])
    list_id = tenant.add_list()
    for _ in range(3):
        client.get("/v1/")
    assert client.post(f"/v1/lists/{list_id}/contacts", {}).status_code == 429
    assert tenant.api.get(f"/v1/lists/{list_id}/contacts", {"limit": 0}).get_json()["size"] == 0


def test_each_key_has_its_own_limit(limited_app: Flask) -> None:
    tenant = new_tenant(limited_app)
    for _ in range(4):
        tenant.client("standard").get("/v1/")
    assert tenant.client("standard").get("/v1/").status_code == 429
    assert tenant.client("limited").get("/v1/").status_code == 200
    assert Client(limited_app, add_key(tenant, "standard")).get("/v1/").status_code == 200


def test_a_request_without_a_valid_key_is_not_counted(limited_app: Flask) -> None:
    anon = Client(limited_app)
    for _ in range(5):
        answer = anon.get("/v1/")
        assert answer.status_code == 401
        assert not [name for name in HEADERS if name in answer.headers]


def test_options_pages_and_probes_are_not_counted(client: Client, limited_app: Flask) -> None:
    for path in ("/healthz", "/docs/errors", "/v2/lists"):
        for _ in range(4):
            assert "RateLimit-Limit" not in client.get(path).headers
    for _ in range(4):
        assert client.request("OPTIONS", "/v1/messages").status_code == 200
    assert client.get("/v1/").headers["RateLimit-Remaining"] == "2"


def test_an_account_may_have_a_rate_limit_of_its_own(limited_app: Flask) -> None:

    def begins(rate_limit: str) -> list[int]:
        api = new_tenant(limited_app, rate_limit=rate_limit).api
        return [api.get("/v1/").status_code for _ in range(6)]

    hour = hour_of(now())
    statuses = begins("5/hour")
    if hour_of(now()) != hour:
        statuses = begins("5/hour")  # the window has ended meanwhile; the next one lasts for another hour
    assert statuses == [200] * 5 + [429]
    free = new_tenant(limited_app, rate_limit="off").api
    answers = [free.get("/v1/") for _ in range(6)]
    assert [answer.status_code for answer in answers] == [200] * 6
    assert "RateLimit-Limit" not in answers[0].headers


def test_pages_of_the_console_count_for_the_key_that_has_signed_in(limited_app: Flask) -> None:
    tenant = new_tenant(limited_app)
    browser, other = signed_in(tenant), signed_in(tenant)
    answers = [browser.get(HOME), tenant.api.get("/v1/"), other.get("/console/lists.csv")]
    assert [answer.headers["RateLimit-Remaining"] for answer in answers] == ["2", "1", "0"]
    for refused in (browser.get(HOME), other.get(HOME), browser.post("/console/sign-out")):
        assert refused.status_code == 429
        assert refused.headers["Retry-After"] == refused.headers["RateLimit-Reset"]
        assert "The rate limit of this key or session is exhausted. Reload this page in" in words(refused)
    assert tenant.api.get("/v1/").status_code == 429
    assert signed_in(tenant, "limited").get(HOME).status_code == 200


@each("whose", ["account", "operator"])
def test_a_session_without_a_key_has_a_limit_of_its_own(limited_app: Flask, whose: str) -> None:
    account_id = new_tenant(limited_app).id if whose == "account" else None
    first, second = Browser(limited_app), Browser(limited_app)
    for browser in (first, second):
        assert browser.follow_link(new_link(limited_app, account_id)).status_code == 303
    assert [first.get(HOME).status_code for _ in range(4)] == [200, 200, 200, 429]
    assert second.get(HOME).status_code == 200


def test_the_rate_limit_of_an_account_holds_for_its_console(limited_app: Flask) -> None:
    tenant = new_tenant(limited_app, rate_limit="off")
    browser = signed_in(tenant)
    answers = [browser.get(HOME) for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200] * 5
    assert "RateLimit-Limit" not in answers[0].headers


def test_signing_in_and_the_files_of_pages_do_not_count(limited_app: Flask) -> None:
    browser = signed_in(new_tenant(limited_app))
    for path in ("/console/sign-in", asset_url("style.css")):
        for _ in range(4):
            assert "RateLimit-Limit" not in browser.get(path).headers
    assert browser.get(HOME).headers["RateLimit-Remaining"] == "2"


def test_without_a_limit_there_are_no_headers(api: Client) -> None:
    assert not [name for name in HEADERS if name in api.get("/v1/").headers]


def test_a_process_takes_a_hundredth_of_a_limit_at_a_time(services: Services) -> None:
    whose, rate, portions = unique(), Rate(300, WINDOW), Portions()
    used = [portions.use(services.redis, (whose, rate), 7) for _ in range(4)]
    assert used == [1, 2, 3, 4]
    assert int(services.redis.get(f"tms:rate:{whose}:{WINDOW}:7") or 0) == 6


def test_of_a_small_limit_all_processes_know_what_is_left(services: Services) -> None:
    """Below 200 each takes single requests, so the numbers are exact however many processes answer a client."""
    counter, processes = (unique(), Rate(199, WINDOW)), [Portions() for _ in range(3)]
    used = [process.use(services.redis, counter, 7) for _ in range(70) for process in processes]
    assert used == list(range(1, 211))


def test_processes_never_admit_more_than_the_limit_together(services: Services) -> None:
    counter, processes = (unique(), Rate(300, WINDOW)), [Portions() for _ in range(3)]
    used = [process.use(services.redis, counter, 7) for _ in range(150) for process in processes]
    assert sum(number <= 300 for number in used) == 300


def test_what_a_process_has_left_is_lost_to_the_others(services: Services) -> None:
    counter, first, second = (unique(), Rate(300, WINDOW)), Portions(), Portions()
    assert first.use(services.redis, counter, 7) == 1
    assert sum(second.use(services.redis, counter, 7) <= 300 for _ in range(400)) == 297
    assert first.use(services.redis, counter, 7) <= 300
    assert first.use(services.redis, counter, 8) == 1


def test_a_new_window_restores_the_limit(settings: Settings) -> None:
    with app_with(settings, rate_limit=Rate(1, 1)) as quick:
        client = new_tenant(quick).api
        codes: list[int] = []

        def is_restored() -> bool:
            codes.append(client.get("/v1/").status_code)
            return 429 in codes and codes[-1] == 200

        wait_until(is_restored, "a request is allowed again")
    assert codes[0] == 200
    assert set(codes) == {200, 429}
