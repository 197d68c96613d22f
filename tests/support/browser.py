"""A browser without JavaScript at the console: it keeps cookies, follows redirects when told, and sends forms."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from html import unescape
from typing import Any

from flask import Flask
from werkzeug.test import Client, TestResponse

from app.accounts.sessions import make_link
from app.db.models import Account
from app.http.context import EXTENSION
from tests.support.tenants import Tenant

HOME = "/console"
SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}
ADDRESSES = (f"10.{high}.{low}.7" for high, low in itertools.product(range(1, 255), range(1, 255)))


@dataclass
class Browser:
    """One browser, with an address of its own: attempts to sign in are counted by it."""

    app: Flask
    address: str = field(default_factory=lambda: next(ADDRESSES))
    base: str = "http://localhost"

    def __post_init__(self) -> None:
        self.client: Client = self.app.test_client()

    def open(self, method: str, path: str, **options: Any) -> TestResponse:
        """One request."""
        environ = {"REMOTE_ADDR": self.address}
        return self.client.open(path, method=method, base_url=self.base, environ_overrides=environ, **options)

    def get(self, path: str, **options: Any) -> TestResponse:
        """A page."""
        return self.open("GET", path, **options)

    def post(self, path: str, **form: str | list[str]) -> TestResponse:
        """A form that a page of the console sends."""
        return self.open("POST", path, data=form, headers=SAME_ORIGIN)

    def confirm(self, path: str, **form: str | list[str]) -> TestResponse:
        """A form whose question is answered with yes."""
        return self.post(path, **form, confirmed="1")

    def sign_in(self, token: str) -> Browser:
        """Signs in with a key, which must succeed."""
        answer = self.post("/console/sign-in", key=token)
        assert (answer.status_code, answer.headers["Location"]) == (303, HOME), answer.text
        return self

    def follow_link(self, token: str) -> TestResponse:
        """Presses the button of a link."""
        return self.post(f"/console/login/{token}")


def signed_in(tenant: Tenant, level: str = "standard") -> Browser:
    """A browser that is signed in with the tenant's key of a level."""
    return Browser(tenant.app).sign_in(tenant.tokens[level])


def new_link(app: Flask, account_id: int | None = None) -> str:
    """The token of a link; without an account, of an operator."""
    with app.extensions[EXTENSION].database.write() as transaction:
        account = None if account_id is None else transaction.get(Account, account_id)
        return make_link(transaction, account)


def linked(tenant: Tenant) -> Browser:
    """A browser that a link of the command line has signed in to the account."""
    browser = Browser(tenant.app)
    assert browser.follow_link(new_link(tenant.app, tenant.id)).status_code == 303
    return browser


def operator(app: Flask) -> Browser:
    """A browser of an operator."""
    browser = Browser(app)
    assert browser.follow_link(new_link(app)).status_code == 303
    return browser


def words(answer: TestResponse) -> str:
    """The text of a page, as people read it."""
    assert answer.mimetype == "text/html"
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", answer.text)).split())


def form_of(page: TestResponse, action: str) -> dict[str, str]:
    """The fields of the page's form with this `action`."""
    forms = (
        dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))
        for form in re.findall(r"<form.*?</form>", page.text, re.DOTALL)
    )
    form = next(form for form in forms if form.get("action") == action)
    return {name: unescape(value) for name, value in form.items()}
