"""`flask console` (docs/console.md#signing-in)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from app.http.context import EXTENSION
from app.launcher.service import lock_data_dir
from app.settings import Settings
from tests.cli.conftest import Cli
from tests.support.apps import app_with
from tests.support.browser import HOME, Browser, signed_in, words
from tests.support.provider import provider
from tests.support.staff import Staff, staff
from tests.support.tenants import Tenant

LINK = re.compile(r"http://\S+?/console/login/(?P<token>[\w-]{43})\n")


def token_of(output: str) -> str:
    match = LINK.fullmatch(output)
    assert match, output
    return match["token"]


def test_login_prints_a_link_for_the_account(cli: Cli, tenant: Tenant) -> None:
    browser = Browser(tenant.app)
    browser.follow_link(token_of(cli.text("console", "login")))
    assert f"<h1>{tenant.name}</h1>" in browser.get(HOME).text


def test_a_link_leads_to_the_service_that_runs_in_the_data_folder(cli: Cli, settings: Settings) -> None:
    with closing(lock_data_dir(settings.data_dir, "http://127.0.0.1:8123")):
        assert cli.text("console", "login").startswith("http://127.0.0.1:8123/console/login/")
    assert cli.text("console", "login").startswith(f"{settings.public_url}/console/login/")


def test_login_prints_a_link_for_an_operator(bare: Cli) -> None:
    browser = Browser(bare.app)
    browser.follow_link(token_of(bare.text("console", "login", "--operator")))
    assert "Relays and gateways" in words(browser.get(HOME))


def test_login_as_json_says_how_long_the_link_works(cli: Cli) -> None:
    link = cli.json("console", "login")
    assert set(link) == {"url", "seconds"}
    assert link["seconds"] == 300


def test_a_link_is_for_an_account_or_an_operator(cli: Cli, bare: Cli) -> None:
    assert cli.refused("console", "login", "--operator") == ("use either --account or --operator")


def test_no_link_is_made_where_the_console_is_off(cli: Cli, settings: Settings) -> None:
    with app_with(settings, console=False) as without:
        assert without.extensions[EXTENSION].settings.console is False
        assert replace(cli, app=without).refused("console", "login") == "the console is switched off: CONSOLE=off"


def test_an_operator_sees_and_ends_a_session(bare: Cli, tenant: Tenant) -> None:
    browser = signed_in(tenant, "report")
    (console_session,) = [row for row in bare.json("console", "sessions") if row["account"] == tenant.name]
    assert console_session["signed_in_by"] == "key"
    assert (
        bare.text("console", "sign-out", str(console_session["id"])) == f"session {console_session['id']} has ended\n"
    )
    assert browser.get(HOME).status_code == 401
    assert (
        bare.refused("console", "sign-out", str(console_session["id"]))
        == f"id: there is no session {console_session['id']}"
    )


# ---------------------------------------------------------------------------------------------- people


@pytest.fixture
def house(settings: Settings, tenant: Tenant) -> Iterator[Staff]:
    """A service with a provider, whose people are an operator and a reader."""
    with provider() as made, staff(settings, made, f"admins=operator,help=reader:{tenant.name}") as running:
        made.people = {
            "ann": {"name": "Ann Lee", "email": "ann@example.com", "groups": ["admins"]},
            "cat": {"groups": ["help"]},
        }
        yield running


def people_of(house: Staff) -> dict[str, dict[str, Any]]:
    rows = Cli(house.app).json("console", "people")
    return {row["subject"]: row for row in rows if row["issuer"] == house.provider.issuer}


def test_an_operator_sees_the_people_and_their_sessions(house: Staff, tenant: Tenant) -> None:
    house.signed_in("ann")
    house.signed_in("cat")
    people = people_of(house)
    assert {name: value for name, value in people["ann"].items() if name != "id"} == {
        **{"name": "Ann Lee", "email": "ann@example.com", "roles": ["operator"], "sessions": 1},
        **{"issuer": house.provider.issuer, "subject": "ann"},
    }
    cat = people["cat"]
    assert (cat["name"], cat["email"], cat["roles"]) == (None, None, [f"reader:{tenant.id}"])
    ours = {f"person {row['id']}": row for row in people.values()}
    sessions = [row for row in Cli(house.app).json("console", "sessions") if row["name"] in ours]
    assert [(row["signed_in_by"], row["person"], row["role"], row["account"]) for row in reversed(sessions)] == [
        ("provider", "Ann Lee", "operator", None),
        ("provider", None, "reader", tenant.name),
    ]


def test_an_operator_ends_the_session_of_a_person(house: Staff) -> None:
    browser = house.signed_in("ann")
    name = f"person {people_of(house)['ann']['id']}"
    bare = Cli(house.app)
    (row,) = [row for row in bare.json("console", "sessions") if row["name"] == name]
    bare.text("console", "sign-out", str(row["id"]))
    assert browser.get(HOME).status_code == 401


def test_a_person_is_forgotten_by_number(house: Staff) -> None:
    browser, bare = house.signed_in("ann"), Cli(house.app)
    number = str(people_of(house)["ann"]["id"])
    assert [entry["actor"] for entry in bare.json("audit", "list", f"actor=person {number}")] == [
        f"Ann Lee (person {number})"
    ]
    forgotten = bare.json("console", "forget", number)
    assert forgotten == {"id": int(number), "forgotten": True, "sessions_ended": 1}
    assert (people_of(house), browser.get(HOME).status_code) == ({}, 401)
    (entry,) = bare.json("audit", "list", "action=person.forgotten", f"object_id=person {number}")
    assert (entry["via"], entry["counts"], entry["object_name"]) == ("console forget", {"sessions": 1}, None)
    assert "Ann" not in bare.text("audit", "list", f"actor=person {number}")
    assert bare.refused("console", "forget", number) == f"id: there is no person {number}"


def test_with_people_alone_only_a_link_for_an_emergency_is_made(settings: Settings, tenant: Tenant) -> None:
    with provider() as made, staff(settings, made, "admins=operator", oidc_only=True) as house:
        bare = Cli(house.app)
        for arguments in ((), ("--operator",), ("--account", tenant.name)):
            assert bare.refused("console", "login", *arguments) == (
                "links do not sign in: OIDC_ONLY=on; in an emergency, use --emergency"
            )
        browser = Browser(house.app)
        browser.follow_link(token_of(bare.text("console", "login", "--emergency")))
        assert browser.get("/console/audit").status_code == 200
        assert bare.refused("console", "login", "--emergency", "--account", tenant.name) == (
            "use either --account or --operator"
        )


def test_the_provider_is_asked_whether_it_answers(house: Staff, bare: Cli) -> None:
    here = Cli(house.app)
    assert bare.refused("console", "provider") == "no provider is set: OIDC_ISSUER"
    callback = "http://127.0.0.1:8000/console/sign-in/callback"
    assert here.text("console", "provider") == f"redirect URI: {callback}\nthe provider answers, with 1 key\n"
    issuer = house.provider.issuer
    assert here.json("console", "provider") == {
        **{"issuer": issuer, "redirect_uri": callback, "problem": None, "keys": 1},
        **{"authorization_endpoint": f"{issuer}/authorize", "token_endpoint": f"{issuer}/token"},
        **{"jwks_uri": f"{issuer}/jwks", "userinfo_endpoint": f"{issuer}/userinfo"},
    }
    house.provider.answers["/jwks"] = (404, {})
    failed = here.run("console", "provider")
    assert (failed.exit_code, failed.stdout) == (1, f"redirect URI: {callback}\nproblem: status 404\n")
