"""Asking the provider of OpenID Connect in a worker (docs/sign-in.md#the-way)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, update

from app.accounts.sessions import Grant, encrypted_refresh_token, switch_role
from app.clock import now
from app.db.models import ConsoleSession, ConsoleSignIn
from app.infrastructure.redis_client import AUTOMATIONS
from app.maintenance.audit_seals import seal_entries
from app.maintenance.stored_secrets import count_secrets, encrypt_anew
from app.sign_in.due import has_due
from app.sign_in.run import SignInWorker
from jobs.schedule import tick
from tests.databases.running import Alone, alone
from tests.support.browser import HOME, Browser
from tests.support.databases import BACKENDS
from tests.support.provider import provider
from tests.support.races import meanwhile
from tests.support.servers import wait_until
from tests.support.staff import BEGIN, WAIT, Staff, path_of, staff


@pytest.fixture(params=BACKENDS)
def parts(request: pytest.FixtureRequest) -> Iterator[Alone]:
    with alone(request.getfixturevalue("postgres") if request.param == "postgresql" else None) as services:
        yield services


@pytest.fixture
def house(parts: Alone) -> Iterator[Staff]:
    with ExitStack() as stack:
        made = stack.enter_context(provider())
        made.people = {"ann": {"name": "Ann", "groups": ["admins"]}, "bob": {"groups": ["admins"]}}
        yield stack.enter_context(staff(parts.services.settings, made, "admins=operator"))


def is_due(house: Staff) -> bool:
    with house.services.database.read() as session:
        return has_due(session, house.services.settings)


def states(house: Staff) -> list[str]:
    with house.services.database.read() as session:
        return list(session.scalars(select(ConsoleSignIn.state).order_by(ConsoleSignIn.id)))


def change(house: Staff, model: type[Any], **values: Any) -> None:
    with house.services.database.write() as transaction:
        transaction.execute(update(model).values(values))


def wakes(parts: Alone, house: Staff) -> int:
    """The wake-ups that one look of the scheduler sends, when nothing else is due."""
    seal_entries(house.services)  # which workers of that queue do, too
    parts.services.redis.flushall()
    tick(house.services, [])
    return parts.waiting(AUTOMATIONS)


def test_the_button_wakes_a_worker_and_so_does_the_scheduler(parts: Alone, house: Staff) -> None:
    assert wakes(parts, house) == 0
    browser = Browser(house.app)
    browser.post(BEGIN)
    assert parts.waiting(AUTOMATIONS) == 1
    assert wakes(parts, house) == 1
    house.work()
    assert wakes(parts, house) == 0
    browser.get(path_of(house.provider.authorize(browser.get(WAIT).headers["Location"], "ann")))
    assert parts.waiting(AUTOMATIONS) == 1
    house.work()
    assert browser.get(WAIT).headers["Location"] == HOME
    assert wakes(parts, house) == 0
    change(house, ConsoleSession, check_time=now())
    assert wakes(parts, house) == 1


def test_an_attempt_of_a_dead_worker_begins_again_when_its_lease_has_run_out(house: Staff) -> None:
    browser = Browser(house.app)
    browser.post(BEGIN)
    change(house, ConsoleSignIn, due_time=now() + timedelta(seconds=60))
    assert not is_due(house)
    house.work()
    assert states(house) == ["begun"]
    change(house, ConsoleSignIn, due_time=now())
    house.work()
    assert states(house) == ["ready"]


def test_several_workers_redeem_each_code_once(house: Staff) -> None:
    browsers = [Browser(house.app) for _ in range(6)]
    for browser in browsers:
        url = house.provider.authorize(house.way(browser), "ann")
        browser.get(path_of(url))
    workers = [SignInWorker(house.services) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.wait()
    house.work()
    assert [browser.get(WAIT).headers["Location"] for browser in browsers] == [HOME] * 6
    assert house.provider.requests.count(("POST", "/token")) == 6
    with house.services.database.read() as session:
        assert session.scalar(select(func.count()).select_from(ConsoleSession)) == 6


def test_what_cannot_be_understood_ends_one_attempt_and_no_other(house: Staff) -> None:
    first, second = Browser(house.app), Browser(house.app)
    house.provider.answers["/.well-known/openid-configuration"] = (
        200,
        {**house.provider.description(), "token_endpoint_auth_methods_supported": 7},
    )
    first.post(BEGIN)
    house.work()
    house.provider.answers.clear()
    second.post(BEGIN)
    house.work()
    assert states(house) == ["refused", "ready"]


def test_a_silent_provider_is_given_up_at_the_deadline(house: Staff, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.events.guarded_connection.TOTAL_TIMEOUT", 0.05)
    house.provider.silence.clear()
    browser = Browser(house.app)
    browser.post(BEGIN)
    house.work()
    house.provider.silence.set()
    assert states(house) == ["refused"]
    assert "Staff does not answer as it should" in browser.get(WAIT).text


def test_a_redirect_of_the_provider_is_not_followed(house: Staff, parts: Alone) -> None:
    with provider() as other:
        house.provider.redirects = other.issuer
        Browser(house.app).post(BEGIN)
        house.work()
        assert (states(house), other.requests) == (["refused"], [])


def test_a_proxy_of_the_environment_is_not_used(house: Staff, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    house.signed_in("ann")


def test_without_a_provider_nothing_is_asked(parts: Alone, house: Staff) -> None:
    browser = Browser(house.app)
    browser.post(BEGIN)
    with parts.services.database.read() as session:
        assert not has_due(session, parts.services.settings)
    worker = SignInWorker(parts.services)
    worker.start()
    worker.wait()
    assert states(house) == ["begun"]


def test_a_new_secret_key_takes_attempts_and_sessions_along(house: Staff) -> None:
    browser = Browser(house.app)
    url = house.provider.authorize(house.way(browser), "ann")
    signed_in = house.signed_in("bob")
    old, new = house.services.settings.secret_keys[0], "another secret of the tests, long enough"
    assert encrypt_anew(house.services.database, (new, old), lambda _: None) >= 2
    assert not count_secrets(house.services.database, (new,)).unreadable
    changes = {"secret_key": new, "oidc_session": timedelta(hours=1)}
    with staff(house.services.settings, house.provider, "admins=operator", **changes) as later:
        change(later, ConsoleSession, check_time=now())
        later.work()
        moved = Browser(later.app)
        for name in ("tms_console_sign_in", "tms_console"):
            cookie = (browser if name.endswith("in") else signed_in).client.get_cookie(name, "localhost", "/")
            assert cookie is not None
            moved.client.set_cookie(name, cookie.value)
        assert moved.get(HOME).status_code == 200
        assert later.come_back(moved, url).headers["Location"] == HOME


def start_check(house: Staff) -> None:
    """Begins to check a session. The provider has been asked, and answers once its `silence` is set."""
    asked = house.provider.requests.count(("POST", "/token"))
    change(house, ConsoleSession, check_time=now())
    house.provider.silence.clear()
    house.worker.start()
    wait_until(lambda: house.provider.requests.count(("POST", "/token")) > asked, "the provider is asked")


def test_a_role_that_is_just_being_chosen_gets_the_new_refresh_token(house: Staff) -> None:
    browser = house.signed_in("ann")
    start_check(house)
    with house.services.database.write() as transaction:
        session_id = transaction.scalars(select(ConsoleSession.id)).one()
        token = switch_role(transaction, session_id, Grant("operator", None))
        assert token is not None
        house.provider.silence.set()
        with meanwhile(house.services, house.worker.wait):
            transaction.commit()
    browser.client.set_cookie("tms_console", token)
    house.check()
    assert browser.get(HOME).status_code == 200


@pytest.mark.parametrize("is_refused", [False, True], ids=["confirmed", "refused"])
def test_a_session_whose_refresh_token_is_just_being_encrypted_anew_is_still_found(
    house: Staff, is_refused: bool
) -> None:
    old, new = house.services.settings.secret_keys[0], "another secret of the tests, long enough"
    settings, made = house.services.settings, house.provider
    with staff(settings, made, "admins=operator", secret_key_fallbacks=(new,)) as rotating:
        browser = rotating.signed_in("ann")
        if is_refused:
            made.answers["/token"] = 400, {"error": "invalid_grant"}
        start_check(rotating)
        assert encrypt_anew(rotating.services.database, (new, old), lambda _: None) >= 1
        made.silence.set()
        rotating.worker.wait()
        if not is_refused:
            rotating.check()
        assert browser.get(HOME).status_code == (401 if is_refused else 200)


def test_a_check_that_is_refused_after_another_one_has_renewed_the_token_ends_no_session(house: Staff) -> None:
    """The lease of a process that was stopped has ended meanwhile."""
    browser = house.signed_in("ann")
    house.provider.answers["/token"] = 400, {"error": "invalid_grant"}
    newer = encrypted_refresh_token(house.services.settings, "a newer token")
    start_check(house)
    change(house, ConsoleSession, refresh_token=newer)
    house.provider.silence.set()
    house.worker.wait()
    assert browser.get(HOME).status_code == 200


def test_a_refresh_token_that_nobody_can_decrypt_ends_its_session(house: Staff) -> None:
    browser = house.signed_in("ann")
    change(house, ConsoleSession, refresh_token="no token", check_time=now())
    house.work()
    assert browser.get(HOME).status_code == 401
