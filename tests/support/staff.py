"""The application with a provider of OpenID Connect, and browsers of people who sign in by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from flask import Flask
from sqlalchemy import update
from werkzeug.test import TestResponse

from app.clock import now
from app.db.models import ConsoleSession
from app.http.context import EXTENSION
from app.roles import parse_roles
from app.services import Services
from app.settings import Settings
from app.sign_in.run import SignInWorker
from tests.support.apps import app_with
from tests.support.browser import HOME, Browser
from tests.support.provider import CLIENT_ID, CLIENT_SECRET, Provider

BEGIN, WAIT = "/console/sign-in/attempts", "/console/sign-in/provider"


@dataclass
class Staff:
    """A service whose people sign in by `provider`."""

    app: Flask
    provider: Provider
    worker: SignInWorker

    @property
    def services(self) -> Services:
        """The parts of its process."""
        parts: Services = self.app.extensions[EXTENSION]
        return parts

    def work(self) -> None:
        """Has a worker ask the provider what is due."""
        self.worker.start()
        self.worker.wait()

    def way(self, browser: Browser, **form: str) -> str:
        """Presses the button, and returns the address at the provider to which the browser comes."""
        begun = browser.post(BEGIN, **form)
        assert begun.status_code == 200, begun.text
        self.work()
        return browser.get(WAIT).headers["Location"]

    def come_back(self, browser: Browser, url: str) -> TestResponse:
        """The browser follows the provider back, and waits until the code is redeemed; the page that it then gets."""
        answer = browser.get(path_of(url))
        assert (answer.status_code, answer.headers["Location"]) == (303, WAIT), answer.text
        self.work()
        return browser.get(WAIT)

    def enter(self, subject: str, browser: Browser | None = None, **form: str) -> TestResponse:
        """The whole walk of a person; the answer that signs in, or says why not."""
        browser = browser or Browser(self.app)
        return self.come_back(browser, self.provider.authorize(self.way(browser, **form), subject))

    def signed_in(self, subject: str) -> Browser:
        """The browser of a person who is signed in."""
        browser = Browser(self.app)
        answer = self.enter(subject, browser)
        assert (answer.status_code, answer.headers.get("Location")) == (303, HOME), answer.text
        return browser

    def check(self) -> None:
        """Lets the time pass after which the provider is asked whether people still have their roles, and asks."""
        with self.services.database.write() as transaction:
            is_checked = ConsoleSession.check_time.is_not(None)
            transaction.execute(update(ConsoleSession).where(is_checked).values(check_time=now()))
        self.work()


@contextmanager
def staff(settings: Settings, provider: Provider, roles: str, **changes: Any) -> Iterator[Staff]:
    """The application with the provider, whose claim `groups` gives these roles."""
    values: Mapping[str, Any] = {
        **{"oidc_issuer": provider.issuer, "oidc_client_id": CLIENT_ID, "oidc_client_secret": CLIENT_SECRET},
        **{"oidc_name": "Staff", "oidc_roles": parse_roles(roles)},
        **changes,
    }
    with app_with(settings, **values) as app:
        yield Staff(app, provider, SignInWorker(app.extensions[EXTENSION]))


def path_of(url: str) -> str:
    """The path of a URL with its query."""
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path
