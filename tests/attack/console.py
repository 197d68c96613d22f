"""The console as an attacker sees it: its routes, browsers that send what they are told, and what they were shown."""

from __future__ import annotations

import http.client
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from flask import Flask
from sqlalchemy import select

from app.accounts.sessions import make_link
from app.db.models import Account
from app.http.api import PUBLIC, scopes_of
from app.http.console.guard import PLAIN_COOKIE, SECURE_COOKIE
from app.http.console.navigation import HOME
from app.http.console.pages import SIGN_IN
from app.http.paths import InstanceConverter
from app.http.plugins import discover
from tests.attack.stage import ENOUGH, Stage

OWN = {"Sec-Fetch-Site": "same-origin"}
"""What a browser says of a form of the console."""
ENDED = 0
"""In place of a status: the connection was ended instead."""
PARAMETER = re.compile(r"<(?:\w+(?:\([^)]*\))?:)?(\w+)>")
NUMBERS = itertools.product(range(1, 250), range(1, 250), range(1, 250))


@dataclass(frozen=True, slots=True)
class Page:
    """One method of one route. `scopes` are those of which a session needs one."""

    method: str
    rule: str
    scopes: frozenset[str]

    @property
    def name(self) -> str:
        """The method and the rule, as in a request line."""
        return f"{self.method} {self.rule}"

    @property
    def parameters(self) -> list[str]:
        """The names of its path parameters."""
        return PARAMETER.findall(self.rule)

    @property
    def is_public(self) -> bool:
        """Whether it needs no session."""
        return PUBLIC in self.scopes

    def path(self, values: Mapping[str, Any]) -> str:
        """The path of the page with these values of its parameters."""
        return PARAMETER.sub(lambda match: quote(str(values[match[1]]), safe=""), self.rule)


def pages() -> list[Page]:
    """All pages of the console, from the routes of the application: a new one is attacked by itself."""
    app = Flask(__name__, static_folder=None)
    app.url_map.converters["instance"] = InstanceConverter
    for blueprint in discover():
        app.register_blueprint(blueprint)
    return [
        Page(method, rule.rule, frozenset(scopes_of(app, rule.endpoint, method)))
        for rule in app.url_map.iter_rules()
        for method in sorted((rule.methods or set()) - {"OPTIONS", "HEAD"})
        if rule.rule == HOME or rule.rule.startswith(f"{HOME}/")
    ]


@dataclass(frozen=True, slots=True)
class ConsoleAnswer:
    """An answer."""

    method: str
    path: str
    status: int
    headers: Message
    text: str

    @property
    def cookies(self) -> dict[str, str]:
        """The cookies that it sets; one that it deletes is empty."""
        cookies_of_answer: dict[str, str] = {}
        for header in self.headers.get_all("Set-Cookie") or ():
            cookies_of_answer.update({name: cookie.value for name, cookie in SimpleCookie(header).items()})
        return cookies_of_answer

    @property
    def target(self) -> str:
        """The address to which the answer leads."""
        return str(self.headers.get("Location", ""))

    @property
    def is_page(self) -> bool:
        """Whether it is HTML."""
        return self.headers.get_content_type() == "text/html"


@dataclass
class Console:
    """The console of one installation."""

    on: Stage
    pages: list[Page] = field(default_factory=pages)
    seen: list[ConsoleAnswer] = field(default_factory=list)
    """All answers."""

    @property
    def private(self) -> list[Page]:
        """Pages that need a session."""
        return [page for page in self.pages if not page.is_public]

    @property
    def reading(self) -> list[Page]:
        """Pages without a path parameter that are read, which may have filters."""
        return [page for page in self.private if page.method == "GET" and not page.parameters]

    @property
    def changing(self) -> list[Page]:
        """Pages that change something."""
        return [page for page in self.pages if page.method != "GET"]

    @property
    def origin(self) -> str:
        """The origin of the service, as browsers write it."""
        parts = urlsplit(self.on.services.settings.public_url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def cookie_name(self) -> str:
        """The name of the cookie that holds a session."""
        return SECURE_COOKIE if self.on.strict else PLAIN_COOKIE

    def browser(self, cookie: str | None = None) -> Browser:
        """A new browser, with an address of its own: attempts to sign in are counted by it."""
        return Browser(self, cookie)

    def signed_in(self, token: str) -> Browser:
        """A browser that has signed in with a key."""
        made = self.browser()
        answer = made.sign_in(token)
        assert answer.status == 303, f"who has a key must be able to sign in: {answer.text}"
        return made

    def link(self, account_name: str | None) -> str:
        """The token of a new link for an account, or for an operator."""
        with self.on.services.database.write() as transaction:
            named = select(Account).where(Account.name == account_name)
            return make_link(transaction, transaction.scalars(named).one_or_none())

    def linked(self, account_name: str | None) -> Browser:
        """A browser that a link has signed in."""
        made = self.browser()
        answer = made.follow(self.link(account_name))
        assert answer.status == 303, f"who has a link must be able to sign in: {answer.text}"
        return made


class Browser:
    """Sends requests with the cookie that it was given last."""

    def __init__(self, console: Console, cookie: str | None) -> None:
        self.console, self.cookie = console, cookie
        self.address = ".".join(map(str, next(NUMBERS)))
        """The last three bytes of its IPv4 address."""

    def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        *,
        query: Any = None,
        form: Any = None,
        body: bytes | None = None,
    ) -> ConsoleAnswer:
        """The answer to a request with a path that is sent as it is."""
        on, target = self.console.on, f"{path}?{urlencode(query, doseq=True)}" if query else path
        own_host = urlsplit(self.console.origin).netloc
        sent = {"Host": own_host} | (self._proxied() if on.strict else {})
        if self.cookie is not None:
            sent["Cookie"] = f"{self.console.cookie_name}={self.cookie}"
        if form is not None:
            body, sent["Content-Type"] = urlencode(form).encode(), "application/x-www-form-urlencoded"
        sent |= headers or {}
        source = None if on.strict else (f"127.{self.address}", 0)
        link = http.client.HTTPConnection("127.0.0.1", on.service.port, ENOUGH, source_address=source)
        try:
            link.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in {**sent, "Connection": "close"}.items():
                link.putheader(name, value.encode("latin-1", "replace"))
            if method not in ("GET", "HEAD") or body is not None:
                link.putheader("Content-Length", str(len(body or b"")))
            link.endheaders(body)
            answer = link.getresponse()
            text = answer.read().decode("utf-8", "replace")
        except ConnectionError:
            return ConsoleAnswer(method, target, ENDED, Message(), "")
        finally:
            link.close()
        page_shown = ConsoleAnswer(method, target, answer.status, answer.headers, text)
        if sent["Host"] == own_host:  # under another host there is no console, and so no page of it
            self.console.seen.append(page_shown)
        return page_shown

    def _proxied(self) -> dict[str, str]:
        return {"X-Forwarded-Proto": "https", "X-Forwarded-For": f"10.{self.address}"}

    def get(self, path: str, **options: Any) -> ConsoleAnswer:
        """A page; where a form leads to its query, the page of that."""
        answer = self.ask("GET", path, **options)
        is_canonical = answer.status == 303 and answer.target.startswith(f"{HOME}/messages?")
        return self.ask("GET", answer.target) if is_canonical else answer

    def post(self, path: str, **form: str) -> ConsoleAnswer:
        """A form of the console."""
        return self._keeping(self.ask("POST", path, OWN, form=form))

    def sign_in(self, token: str, **form: str) -> ConsoleAnswer:
        """Signs in with a key."""
        return self.post(SIGN_IN, key=token, **form)

    def follow(self, token: str) -> ConsoleAnswer:
        """Presses the button of a link."""
        return self.post(f"{HOME}/login/{token}")

    def _keeping(self, answer: ConsoleAnswer) -> ConsoleAnswer:
        if cookie := answer.cookies.get(self.console.cookie_name):
            self.cookie = cookie
        return answer
