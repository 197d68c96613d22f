"""Signing in to the console, its sessions, and which requests it takes (docs/console.md)."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from flask import Flask
from sqlalchemy import select, update

from app.accounts.auth import hash_token, new_token, token_hint
from app.accounts.keys import key_with_token, replace_token, revoke_key
from app.accounts.sessions import find_session
from app.clock import now, this_second
from app.db.models import Account, ApiKey, AuditEntry, ConsoleLink, ConsoleSession
from app.http.console.guard import MAX_ATTEMPTS
from app.maintenance.sweeps import clean
from app.settings import Settings
from tests.support.apps import app_with
from tests.support.browser import HOME, SAME_ORIGIN, Browser, new_link, operator, signed_in, words
from tests.support.cases import each
from tests.support.tenants import Tenant, add_key

SIGN_IN = "/console/sign-in"


def sessions(tenant: Tenant) -> list[ConsoleSession]:
    with tenant.services.database.read() as session:
        query = select(ConsoleSession).where(ConsoleSession.account_id == tenant.id)
        return list(session.scalars(query.order_by(ConsoleSession.id)))


def change(tenant: Tenant, statement: object) -> None:
    with tenant.services.database.write() as transaction:
        transaction.execute(statement)  # type: ignore[call-overload]


def entries(tenant: Tenant) -> list[tuple[str, str, str, str | None]]:
    """What the audit log says of the account's sessions."""
    with tenant.services.database.read() as session:
        query = select(AuditEntry.action, AuditEntry.actor_kind, AuditEntry.actor, AuditEntry.via).where(
            AuditEntry.account_id == tenant.id, AuditEntry.object == "session"
        )
        return [(row[0], row[1], row[2], row[3]) for row in session.execute(query.order_by(AuditEntry.id))]


# ---------------------------------------------------------------------------------------------- signing in


@each("level", ["report", "limited", "standard"])
def test_a_key_of_any_level_signs_in(tenant: Tenant, level: str) -> None:
    answer = signed_in(tenant, level).get(HOME)
    assert answer.status_code == 200
    assert tenant.name in words(answer)


@each("key", ["", "tms_unknown", "x" * 5000, "tms_\ud800"])
def test_a_wrong_key_shows_the_form_again(tenant: Tenant, key: str) -> None:
    browser = Browser(tenant.app)
    answer = browser.post(SIGN_IN, key=key.encode("utf-8", "replace").decode(), wanted="/console/day.csv")
    assert answer.status_code == 401
    assert 'name="wanted" value="/console/day.csv"' in answer.text
    assert "Set-Cookie" not in answer.headers
    assert browser.get(HOME).status_code == 401


def test_a_key_from_a_network_that_the_account_forbids_is_refused_at_any_time(tenant: Tenant) -> None:
    browser = signed_in(tenant)
    change(tenant, update(Account).where(Account.id == tenant.id).values(allowed_networks=["192.0.2.0/24"]))
    assert browser.get(HOME).status_code == 403
    assert Browser(tenant.app).post(SIGN_IN, key=tenant.tokens["standard"]).status_code == 403


def test_a_published_key_does_not_sign_in_where_others_reach_the_service(tenant: Tenant, settings: Settings) -> None:
    token = "tms_demo_" + new_token()
    key_update = update(ApiKey).where(ApiKey.account_id == tenant.id, ApiKey.access_level == "standard")
    change(tenant, key_update.values(token_hash=hash_token(token), token_hint=token_hint(token)))
    with app_with(settings, host="0.0.0.0") as exposed:
        answer = Browser(exposed).post(SIGN_IN, key=token)
    assert answer.status_code == 401
    assert "published keys of the demo work only" in words(answer)


@each(
    ("wanted_page", "path"),
    [
        ("/console?a=1", "/console?a=1"),
        ("/console/day.csv", "/console/day.csv"),
        ("//evil.example/console", HOME),
        ("https://evil.example/console", HOME),
        ("/consolex", HOME),
        ("/console/\\evil", HOME),
        ("/console/../v1", HOME),
        ("/console/%2E%2e//evil.example", HOME),
        ("/console/a\r\nSet-Cookie: a=b", HOME),
        (SIGN_IN, HOME),
    ],
)
def test_one_comes_to_the_wanted_page_and_never_to_another_site(tenant: Tenant, wanted_page: str, path: str) -> None:
    answer = Browser(tenant.app).post(SIGN_IN, key=tenant.tokens["report"], wanted=wanted_page)
    assert (answer.status_code, answer.headers["Location"]) == (303, path)


def test_who_is_not_signed_in_comes_to_the_form_and_back(tenant: Tenant) -> None:
    browser = Browser(tenant.app)
    answer = browser.get("/console/day.csv?a=1&b=2")
    assert answer.status_code == 401
    assert 'value="/console/day.csv?a=1&amp;b=2"' in answer.text
    assert browser.get(HOME, headers={"HX-Request": "true"}).headers["HX-Refresh"] == "true"
    assert browser.post("/console/sign-out").headers["Location"] == SIGN_IN


def test_a_link_of_another_site_leads_to_the_page_that_asks_once_more(tenant: Tenant) -> None:
    answer = Browser(tenant.app).get(HOME, headers={"Sec-Fetch-Site": "cross-site"})
    assert '<meta http-equiv="refresh" content="0">' in answer.text
    assert "Set-Cookie" not in answer.headers, "the cookie may be there, and was only not sent"


# ---------------------------------------------------------------------------------------------- links


def test_a_link_signs_in_once_and_only_by_its_button(tenant: Tenant) -> None:
    token, browser = new_link(tenant.app, tenant.id), Browser(tenant.app)
    for _ in range(2):
        assert browser.get(f"/console/login/{token}").status_code == 200
    assert browser.get(HOME).status_code == 401
    assert browser.follow_link(token).headers["Location"] == HOME
    assert tenant.name in words(browser.get(HOME))
    again = Browser(tenant.app).follow_link(token)
    assert again.status_code == 404
    assert "was already used" in words(again)


def test_the_button_of_a_link_goes_to_the_address_of_its_page(tenant: Tenant) -> None:
    """To browsers a backslash in a form's address is a slash: whoever made up the link could choose where it goes."""
    answer = Browser(tenant.app).get("/console/login/%5C..%5C..%5Csign-out")
    assert re.findall("<form[^>]*>", answer.text) == ['<form method="post">']


def test_a_link_ends_after_five_minutes(tenant: Tenant) -> None:
    before = now()
    token = new_link(tenant.app, tenant.id)
    after = now()
    link_update = update(ConsoleLink).where(ConsoleLink.account_id == tenant.id)
    with tenant.services.database.read() as session:
        (end,) = session.scalars(select(ConsoleLink.end_time).where(ConsoleLink.account_id == tenant.id))
    assert before <= end - timedelta(minutes=5) <= after
    change(tenant, link_update.values(end_time=now()))
    assert Browser(tenant.app).follow_link(token).status_code == 404
    assert sessions(tenant) == []


def test_only_hashes_of_tokens_are_stored(tenant: Tenant) -> None:
    link = new_link(tenant.app, tenant.id)
    browser = signed_in(tenant)
    cookie = browser.client.get_cookie("tms_console", "localhost", "/")
    assert cookie is not None
    with tenant.services.database.read() as session:
        stored = str([row[0] for row in session.execute(select(ConsoleLink.token_hash))])
        stored += str([row[0] for row in session.execute(select(ConsoleSession.token_hash))])
    assert link not in stored
    assert cookie.value not in stored


# ---------------------------------------------------------------------------------------------- sessions


def test_a_session_is_new_at_each_sign_in(tenant: Tenant) -> None:
    browser = Browser(tenant.app)
    browser.client.set_cookie("tms_console", "known-to-an-attacker")
    browser.sign_in(tenant.tokens["standard"])
    first = browser.client.get_cookie("tms_console", "localhost", "/")
    browser.sign_in(tenant.tokens["standard"])
    second = browser.client.get_cookie("tms_console", "localhost", "/")
    assert first is not None
    assert second is not None
    assert "known-to-an-attacker" != first.value != second.value


def revoke(tenant: Tenant, token: str) -> None:
    with tenant.services.database.write() as transaction:
        key = key_with_token(transaction, token)
        assert key is not None
        revoke_key(transaction, key)


def replace_secret(tenant: Tenant, token: str) -> None:
    with tenant.services.database.write() as transaction:
        key = key_with_token(transaction, token)
        assert key is not None
        replace_token(transaction, key, new_token())
        key.creation_time = this_second() + timedelta(seconds=2)


def end_overlap(tenant: Tenant, token: str) -> None:
    with tenant.services.database.write() as transaction:
        key = key_with_token(transaction, token)
        assert key is not None
        key.valid_until = now()


def delete_key(tenant: Tenant, token: str) -> None:
    with tenant.services.database.write() as transaction:
        transaction.delete(key_with_token(transaction, token))


@each("ends", [revoke, replace_secret, end_overlap, delete_key])
def test_a_session_ends_with_its_key(tenant: Tenant, ends: object) -> None:
    token = add_key(tenant, "standard")
    browser, other = Browser(tenant.app).sign_in(token), signed_in(tenant, "report")
    assert callable(ends)
    ends(tenant, token)
    assert browser.get(HOME).status_code == 401
    assert other.get(HOME).status_code == 200


def test_a_session_ends_in_time_and_is_deleted_by_the_cleaning(tenant: Tenant) -> None:
    browser = signed_in(tenant)
    (session,) = sessions(tenant)
    assert session.end_time - session.creation_time == timedelta(hours=12)
    change(tenant, update(ConsoleSession).where(ConsoleSession.id == session.id).values(end_time=now()))
    assert browser.get(HOME).status_code == 401
    clean(tenant.services)
    assert sessions(tenant) == []


def test_signing_out_ends_the_session_and_forgets_the_cookie(tenant: Tenant) -> None:
    browser = signed_in(tenant)
    cookie = browser.client.get_cookie("tms_console", "localhost", "/")
    answer = browser.post("/console/sign-out")
    assert (answer.status_code, answer.headers["Location"]) == (303, SIGN_IN)
    assert "Max-Age=0" in answer.headers["Set-Cookie"]
    assert cookie is not None
    with tenant.services.database.read() as session:
        assert find_session(session, cookie.value) is None


def test_the_audit_log_names_who_signed_in_and_out(tenant: Tenant) -> None:
    signed_in(tenant).post("/console/sign-out")
    token = new_link(tenant.app, tenant.id)
    Browser(tenant.app).follow_link(token)
    with tenant.services.database.read() as session:
        query = select(ApiKey.name).where(ApiKey.account_id == tenant.id, ApiKey.access_level == "standard")
        name = str(session.scalar(query))
    assert entries(tenant) == [
        ("session.started", "key", name, "POST /console/sign-in"),
        ("session.ended", "key", name, "POST /console/sign-out"),
        ("session.offered", "service", "service", None),
        ("session.started", "command", "service", "POST /console/login/<token>"),
    ]


def test_a_client_may_try_ten_times_a_minute(tenant: Tenant) -> None:
    browser = Browser(tenant.app)
    for key in tenant.services.redis.scan_iter(f"tms:console:{browser.address}:*"):
        tenant.services.redis.delete(key)
    # The minute may end in between, so that a second ten are counted from the beginning.
    statuses = [browser.post(SIGN_IN, key="tms_wrong").status_code for _ in range(2 * MAX_ATTEMPTS + 1)]
    assert statuses[:MAX_ATTEMPTS] == [401] * MAX_ATTEMPTS
    assert 429 in statuses
    assert Browser(tenant.app).post(SIGN_IN, key="tms_wrong").status_code == 401


# ---------------------------------------------------------------------------------------------- requests


@each(
    ("headers", "is_taken"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "none"}, False),
        ({"Sec-Fetch-Site": "same-site", "Origin": "http://localhost"}, False),
        ({"Origin": "http://localhost"}, True),
        ({"Origin": "http://localhost:81"}, False),
        ({"Origin": "https://localhost"}, False),
        ({"Origin": "null"}, False),
        ({}, False),
    ],
)
def test_a_change_must_come_from_the_same_origin(tenant: Tenant, headers: dict[str, str], is_taken: bool) -> None:
    browser = signed_in(tenant)
    answer = browser.open("POST", "/console/sign-out", headers=headers)
    assert answer.status_code == (303 if is_taken else 403)
    assert browser.get(HOME).status_code == (401 if is_taken else 200)
    key = {"key": tenant.tokens["standard"]}
    signing_in = Browser(tenant.app).open("POST", SIGN_IN, headers=headers, data=key)
    assert signing_in.status_code == (303 if is_taken else 403)


def test_options_are_answered_also_for_a_page_that_only_changes_something(tenant: Tenant) -> None:
    answer = Browser(tenant.app).open("OPTIONS", "/console/sign-out")
    assert (answer.status_code, set(answer.allow)) == (200, {"OPTIONS", "POST"})


def test_over_https_the_cookie_is_for_this_host_alone(tenant: Tenant) -> None:
    browser = Browser(tenant.app, base="https://localhost")
    cookie = browser.post(SIGN_IN, key=tenant.tokens["standard"]).headers["Set-Cookie"]
    assert re.fullmatch(
        r"__Host-tms_console=[\w-]{43}; Expires=[^;]+; Max-Age=43200; Secure; HttpOnly; Path=/; SameSite=Strict",
        cookie,
    )
    assert browser.get(HOME).status_code == 200


def test_over_plain_http_the_cookie_has_another_name_and_https_does_not_take_it(tenant: Tenant) -> None:
    browser = Browser(tenant.app)
    cookie = browser.post(SIGN_IN, key=tenant.tokens["standard"]).headers["Set-Cookie"]
    assert re.fullmatch(
        r"tms_console=[\w-]{43}; Expires=[^;]+; Max-Age=43200; HttpOnly; Path=/; SameSite=Strict", cookie
    )
    assert replace(browser, base="https://localhost").get(HOME).status_code == 401


def test_plain_http_is_refused_where_https_is_required(tenant: Tenant, settings: Settings) -> None:
    with app_with(settings, require_https=True) as strict:
        answer = Browser(strict).post(SIGN_IN, key=tenant.tokens["standard"])
    assert answer.status_code == 403
    assert "Set-Cookie" not in answer.headers


def test_it_can_be_switched_off(settings: Settings) -> None:
    with app_with(settings, console=False) as without:
        assert {Browser(without).get(path).status_code for path in (HOME, SIGN_IN, "/console/x")} == {404}


@each("path", [HOME, SIGN_IN, "/console/nowhere", "/console/day.csv", "/console/login/x", "/console/assets/x/y"])
def test_every_answer_has_the_headers_that_keep_others_out(tenant: Tenant, path: str) -> None:
    headers = signed_in(tenant).get(path).headers
    rules = dict(rule.strip().split(" ", 1) for rule in headers["Content-Security-Policy"].split(";"))
    assert rules == {
        "default-src": "'none'",
        **dict.fromkeys(("script-src", "style-src", "connect-src", "form-action"), "'self'"),
        "img-src": "'self' data:",
        **dict.fromkeys(("base-uri", "frame-ancestors"), "'none'"),
    }
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"


def test_an_unknown_page_is_an_error_page(app: Flask) -> None:
    answer = operator(app).get("/console/nowhere")
    assert answer.status_code == 404
    assert "Back to the overview" in words(answer)


@pytest.mark.usefixtures("app")
def test_a_page_of_the_api_needs_its_key_also_from_who_is_signed_in(tenant: Tenant) -> None:
    assert signed_in(tenant).get("/v1/lists", headers=SAME_ORIGIN).status_code == 401
