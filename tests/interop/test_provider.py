"""People sign in to the console by a certified provider of OpenID Connect, oidc-provider (docs/sign-in.md)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
import requests
import yaml
from sqlalchemy import update

from app.clock import now
from app.db.models import ConsoleSession
from app.services import make_services
from app.settings import from_environment
from tests.support.launched import SEED, LaunchedService
from tests.support.own_postgres import own_postgres
from tests.support.servers import PATIENCE, free_port, short_folder, wait_until
from tests.support.staff import WAIT

TOOLS = os.environ.get("PROVIDER_TOOLS", "")
CLIENT = ("tms-console", "s3cret-of-the-client")
SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}
SHOP = SEED["accounts"][0]["name"]
PEOPLE = {
    "ann": {"name": "Ann Lee", "email": "ann@example.com", "groups": ["admins"]},
    "bob": {"name": "Bob", "groups": ["shop"]},
    "eve": {"name": "Eve", "groups": []},
}

pytestmark = pytest.mark.skipif(not (Path(TOOLS) / ".installed").is_file(), reason="there is no npm")


class House:
    """The service as an operator starts it, and the provider beside it."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.people, self.port = folder / "people.json", free_port()
        self.say(PEOPLE)
        roles = f"admins=operator,shop=manager:{SHOP}"
        self.service = LaunchedService(
            folder,
            OIDC_ISSUER=f"http://127.0.0.1:{self.port}",
            OIDC_CLIENT_ID=CLIENT[0],
            OIDC_CLIENT_SECRET=CLIENT[1],
            OIDC_SCOPES="openid profile email groups",
            OIDC_ROLES=roles,
            OIDC_NAME="Staff",
            **settings,
        )
        (folder / "seed.yaml").write_text(yaml.safe_dump({"accounts": [SEED["accounts"][0]]}))

    def say(self, people: dict[str, Any]) -> None:
        """What the provider says of its people from now on."""
        self.people.write_text(json.dumps(people))

    def run(self) -> subprocess.Popen[bytes]:
        """Starts the provider, then the service."""
        script = Path(TOOLS).resolve() / "provider.mjs"
        callback = f"{self.service.base}/console/sign-in/callback"
        arguments = [str(self.port), *CLIENT, callback, str(self.people)]
        process = subprocess.Popen(["node", str(script), *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        self.service.start()
        return process

    def ask_about_roles(self) -> None:
        """Lets the time pass after which the provider is asked whether people still have their roles."""
        services = make_services(from_environment(self.service.environment))
        with services.database.write() as transaction:
            transaction.execute(update(ConsoleSession).values(check_time=now()))
        services.database.close()
        services.redis.close()


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def house(request: pytest.FixtureRequest) -> Iterator[House]:
    with ExitStack() as stack:
        folder = stack.enter_context(short_folder())
        is_sqlite = request.param == "sqlite"
        settings = {} if is_sqlite else {"DATABASE_URL": stack.enter_context(own_postgres()).url}
        made = House(folder, **settings)
        stack.callback(made.service.clear)
        process = stack.enter_context(made.run())
        stack.callback(process.terminate)
        yield made


def form_of(page: requests.Response) -> tuple[str, dict[str, str]]:
    """The address of the only form of a page of the provider, and its hidden fields."""
    (form,) = re.findall(r"<form.*?</form>", page.text, re.DOTALL)
    (action,) = re.findall(r'action="([^"]+)"', form)
    fields = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))
    return urljoin(page.url, unescape(action)), fields


def waited(browser: requests.Session, page: requests.Response) -> requests.Response:
    """The page that comes after "One moment", which renews itself."""
    answers = [page]

    def has_gone_on() -> bool:
        if 'http-equiv="refresh"' not in answers[-1].text:
            return True
        answers.append(browser.get(f"{answers[-1].url.partition('/console')[0]}{WAIT}", timeout=PATIENCE))
        return False

    wait_until(has_gone_on, "the provider was asked")
    return answers[-1]


def sign_in(house: House, subject: str) -> tuple[requests.Session, requests.Response]:
    """The whole walk of a person: the browser, and the page that it gets in the end."""
    browser, base = requests.Session(), house.service.base
    assert "Sign in with Staff" in browser.get(f"{base}/console", timeout=PATIENCE).text
    begun = browser.post(f"{base}/console/sign-in/attempts", headers=SAME_ORIGIN, timeout=PATIENCE)
    page = waited(browser, begun)
    while page.url.startswith(f"http://127.0.0.1:{house.port}/"):
        address, fields = form_of(page)
        typed = {"login": subject, "password": "any"} if fields["prompt"] == "login" else {}
        page = waited(browser, browser.post(address, data={**fields, **typed}, timeout=PATIENCE))
    return browser, page


def shows(browser: requests.Session, house: House, path: str) -> int:
    return browser.get(f"{house.service.base}{path}", timeout=PATIENCE).status_code


def test_an_operator_walks_from_the_button_to_the_audit_log(house: House) -> None:
    browser, page = sign_in(house, "ann")
    assert (page.status_code, page.url) == (200, f"{house.service.base}/console")
    assert '<span title="Operator">Ann Lee</span>' in page.text
    log = browser.get(f"{house.service.base}/console/audit", timeout=PATIENCE)
    assert log.status_code == 200
    assert "Ann Lee (person 1)" in log.text
    assert not [token for token in browser.cookies.values() if token in house.service.output()]


def test_a_manager_comes_into_the_account_and_nobody_without_a_role(house: House) -> None:
    browser, page = sign_in(house, "bob")
    assert (page.status_code, SHOP in page.text) == (200, True)
    assert [shows(browser, house, path) for path in ("/console/keys", "/console/audit")] == [200, 403]
    outside, refused = sign_in(house, "eve")
    assert (refused.status_code, "Staff names no role for you in this service." in refused.text) == (403, True)
    assert shows(outside, house, "/console") == 401


@pytest.mark.parametrize(
    "change",
    [
        lambda people: people["ann"].update(groups=["shop"]),
        lambda people: people.pop("ann"),
    ],
    ids=["another role", "no account"],
)
def test_a_role_that_is_taken_away_ends_the_session(house: House, change: Callable[[dict[str, Any]], None]) -> None:
    browser, _ = sign_in(house, "ann")
    bob, _ = sign_in(house, "bob")
    for _ in range(2):
        house.ask_about_roles()
    changed = json.loads(json.dumps(PEOPLE))
    change(changed)
    try:
        house.say(changed)
        house.ask_about_roles()
        wait_until(lambda: shows(browser, house, "/console") == 401, "the session has ended")
        assert shows(bob, house, "/console") == 200
    finally:
        house.say(PEOPLE)


def test_the_command_says_that_the_provider_answers(house: House) -> None:
    command = [sys.executable, "-m", "flask", "--app", "wsgi", "console", "provider", "--json"]
    done = subprocess.run(
        command, env=house.service.environment, cwd=house.service.working_folder, capture_output=True, check=True
    )
    facts = json.loads(done.stdout)
    assert (facts["problem"], facts["redirect_uri"]) == (None, f"{house.service.base}/console/sign-in/callback")
