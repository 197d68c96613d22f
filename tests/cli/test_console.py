"""`flask console` (docs/console.md#signing-in)."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import replace

from app.http.context import EXTENSION
from app.launcher.service import lock_data_dir
from app.settings import Settings
from tests.cli.conftest import Cli
from tests.support.apps import app_with
from tests.support.browser import HOME, Browser, signed_in, words
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
