"""The service that the browser looks at, and pages that are watched."""

from __future__ import annotations

import email
import email.policy
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
import yaml
from redis import Redis

from app.launcher.screen import SEED
from app.settings import own_redis_socket
from tests.support.launched import PATIENT, ROOT, LaunchedService
from tests.support.servers import PATIENCE, short_folder, wait_until
from tests.unit.transports.mailserver import MailServer

if TYPE_CHECKING:
    from playwright.sync_api import ConsoleMessage, Locator, Page, Request

BROWSERS = ("chromium", "chromium-browser", "google-chrome-stable")
LINK = re.compile(r"https?://[^/\s]+(/console/login/\S+)")
TRACKED = re.compile(r'href="(https?://[^"]+/c/[^"]+)"')
GONE = "gone@customers.example"
"""The relay refuses it."""
REFUSAL = "550 5.1.1 nobody of that name lives here"
BUSY = "busy@customers.example"
"""The relay defers it."""
(_ACCOUNT,) = yaml.safe_load(SEED.read_text("utf-8"))["accounts"]
TOKENS: dict[str, str] = {key["access_level"]: key["token"] for key in _ACCOUNT["keys"]}
"""Access level -> a key of the demo."""


class Console:
    """A running service with the demo; its relay accepts all mail but that for `GONE` and `BUSY`."""

    def __init__(self, service: LaunchedService, relay: MailServer) -> None:
        self.service, self.relay = service, relay
        self.base = service.base
        self._sessions: dict[str, dict[str, str]] = {}

    def session(self, level: str) -> dict[str, str]:
        """The cookie of somebody who has signed in with the key of a level, or of the `operator` who followed the
        printed link, for tests of what comes after that: the attempts of an address are limited."""
        if level not in self._sessions:
            self._sessions[level] = self.new_session(level)
        return self._sessions[level]

    def new_session(self, level: str) -> dict[str, str]:
        """Signs in with the key of a level."""
        return self._signed_in("/console/sign-in", {"key": TOKENS[level]})

    def follow_printed_link(self) -> None:
        """Signs in with the link that the start of the service prints, as `operator`. It ends after five minutes, and
        the tests may take longer."""
        wait_until(lambda: LINK.search(self.service.output()), "the link is printed")
        match = LINK.search(self.service.output())
        assert match
        self._sessions["operator"] = self._signed_in(match[1], {})

    def _signed_in(self, path: str, form: dict[str, str]) -> dict[str, str]:
        answer = requests.post(
            f"{self.base}{path}",
            data=form,
            headers={"Sec-Fetch-Site": "same-origin"},
            allow_redirects=False,
            timeout=PATIENCE,
        )
        ((name, value),) = answer.cookies.items()
        return {"name": name, "value": value, "url": self.base}

    def forget_attempts(self) -> None:
        """Forgets the attempts to sign in of earlier tests, which all came from one address."""
        with Redis(unix_socket_path=str(own_redis_socket(self.service.data))) as redis:
            for key in redis.scan_iter("tms:console:*"):
                redis.delete(key)

    def link(self, *options: str) -> str:
        """The path of a new link that signs in once."""
        output = self.command("console", "login", *options)
        match = LINK.search(output)
        assert match, output
        return match[1]

    def test_key(self) -> str:
        """A new test key."""
        named = ("create", "browser", "--level", "standard", "--test", "--json")
        return str(json.loads(self.command("keys", *named))["token"])

    def command(self, *words: str) -> str:
        """What a command prints."""
        command = [sys.executable, "-m", "flask", "--app", "wsgi", *words]
        environment = self.service.environment
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=True
        )
        return done.stdout

    def send(self, address: str, token: str = TOKENS["standard"], **changes: object) -> str:
        """An accepted message of the demo; its uuid."""
        body = {
            **{"type": "email", "list_id": 1, "group_name": "First steps", "subject": "Hello"},
            **{"from_name": "Acme", "from_address": "hello@acme.example"},
            "body_html": '<p>Hello. <a href="https://acme.example/offers">Offers</a></p>',
            "recipients": [{"email": address}],
            **changes,
        }
        body = {name: value for name, value in body.items() if value is not None}
        headers = {"Authorization": f"Bearer {token}"}
        answer = requests.post(f"{self.base}/v1/transactional-sends", json=body, headers=headers, timeout=PATIENCE)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["_embedded"]["recipients"][0]["uuid"])

    def text(self, mobile: str) -> str:
        """An accepted text message; its uuid."""
        changes: dict[str, Any] = {
            **{"type": "sms", "from_address": "ACME", "unsubscribe_type": "none", "body_text": "Your code is 1234"},
            **dict.fromkeys(("subject", "from_name", "body_html")),
            **{"group_name": "Codes", "recipients": [{"mobile": mobile}]},
        }
        return self.send(mobile, **changes)

    def enter(self, address: str) -> None:
        """A new contact, which enters the automation of the demo."""
        contact = {"email": address, "plan": "gold"}
        headers = {"Authorization": f"Bearer {TOKENS['standard']}"}
        answer = requests.post(f"{self.base}/v1/lists/1/contacts", json=contact, headers=headers, timeout=PATIENCE)
        assert answer.status_code == 201, answer.text

    def state(self, uuid: str, token: str = TOKENS["standard"]) -> str:
        """The state of a message."""
        headers = {"Authorization": f"Bearer {token}"}
        answer = requests.get(f"{self.base}/v1/transactional-sends/{uuid}", headers=headers, timeout=PATIENCE)
        return str(answer.json()["state"])

    def hold(self, uuid: str) -> None:
        """Holds a message that waits, as a restore does."""
        held = "UPDATE send_queue SET state = 'held', held_state = 'queued' WHERE state = 'queued' AND recipient_id ="
        with closing(sqlite3.connect(self.service.data / "tms.sqlite3", timeout=PATIENCE)) as database, database:
            changed = database.execute(f"{held} (SELECT id FROM recipients WHERE uuid = ?)", (uuid,))
            assert changed.rowcount == 1

    def click(self, address: str) -> None:
        """Opens the tracked link of the mail to an address, as its recipient does."""
        (mail,) = [mail for mail in self.relay.mails if mail.recipients == [address]]
        html = email.message_from_bytes(mail.content, policy=email.policy.default).get_body(["html"])
        assert html is not None
        match = TRACKED.search(html.get_content())
        assert match
        headers = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/150.0 Safari/537.36"}
        assert requests.get(match[1], headers=headers, allow_redirects=False, timeout=PATIENCE).status_code == 302


def launch_options() -> dict[str, Any]:
    """How the browser of the system is started. Chromium's own sandbox does not start for root."""
    browser_path = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    assert browser_path, f"there is none of {', '.join(BROWSERS)}"
    return {"executable_path": browser_path, "chromium_sandbox": os.geteuid() != 0}


@contextmanager
def running_console() -> Iterator[Console]:
    """A service with the demo, and messages that have arrived, have bounced, were refused, and wait."""
    with short_folder() as folder, MailServer() as relay:
        relay.reply(GONE, *[REFUSAL] * 100)
        relay.reply(BUSY, *["451 4.2.1 the mailbox is busy"] * 100)
        settings = {"EMAIL_TRANSPORT_URL": relay.url("?tls=none"), "SEED": "", "CONSOLE": "on"}
        service = LaunchedService(folder, (sys.executable, "-m", "app.launcher"), **PATIENT, **settings)
        try:
            service.start()
            made = Console(service, relay)
            made.follow_printed_link()
            settled = {made.send("ann@example.com"): "delivered", made.send(GONE): "bounced"}
            settled[made.send("dead@example.com")] = "failed"
            made.send(BUSY)
            made.enter("gold@customers.example")
            settled[made.text("61411111111")] = "sent"
            test_key = made.test_key()
            captured = made.send("ann@example.com", test_key, track_opens=True)
            wait_until(lambda: made.state(captured, test_key) == "delivered", "a mail of a test key is captured")
            wait_until(
                lambda: all(made.state(expected) == state for expected, state in settled.items()), "they are settled"
            )
            yield made
        finally:
            service.clear()


class WatchedPage:
    """A page, with what the browser reports of it. `faults` are messages of its console, violations of the policy and
    errors of scripts among them, and requests to other hosts."""

    def __init__(self, page: Page, console: Console) -> None:
        self.page, self.console = page, console
        self.faults: list[str] = []
        self.expected = {401}
        """Answers that the browser mentions on its console: the page that asks to sign in, and what a test expects."""
        self._host = urlsplit(console.base).netloc
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("request", self._asked)
        page.on("dialog", lambda dialog: dialog.accept())

    def open(self, path: str) -> None:
        """Goes to a page of the console."""
        self.page.goto(self.console.base + path)

    def sign_in(self, path: str) -> None:
        """Signs in with a link."""
        self.open(path)
        self.page.get_by_role("button", name="Sign in to the console").click()
        self.page.get_by_role("button", name="Sign out").wait_for()

    def sign_in_with(self, token: str) -> None:
        """Signs in with a key."""
        self.open("/console")
        self.page.get_by_label("API key").fill(token)
        self.page.get_by_role("button", name="Sign in").click()

    def enter(self, level: str) -> None:
        """Goes to the first page with a session of the level."""
        self.page.context.add_cookies([self.console.session(level)])
        self.open("/console")

    def go(self, area: str, label: str | None = None) -> None:
        """Goes to an area of the navigation, and to a page of it, which is its first one without a label."""
        navigation = self._navigation()
        navigation.get_by_role("link", name=area, exact=True).first.click()
        if label is not None:
            navigation = self._navigation()
            navigation.get_by_role("link", name=label, exact=True).last.click()

    def _navigation(self) -> Locator:
        """The navigation, which a narrow screen has behind a button."""
        navigation, button = self.page.get_by_role("navigation", name="Pages"), self.page.locator(".bar .menu")
        if button.is_visible() and not navigation.is_visible():
            button.click()
        return navigation

    def unfold(self, title: str) -> None:
        """Opens the form with that title above a table, unless it is open."""
        form = self.page.locator("details.above").filter(has=self.page.locator("summary", has_text=title))
        if form.get_attribute("open") is None:
            form.locator("summary").click()

    def every_page(self) -> list[str]:
        """The paths of the pages in the navigation, and of those that a page leads to with the first row of its list or
        beside its title."""
        links = self.page.locator(".bar [data-key]")
        paths_to_visit = [str(link.get_attribute("href")) for link in links.all()]
        for path in paths_to_visit:  # which grows meanwhile
            self.open(path)
            rows = self.page.locator("main tbody th[scope=row] a").all()[:1]
            beside = self.page.locator("main .title a").all()
            paths = (str(element.get_attribute("href")) for element in (*rows, *beside))
            paths_to_visit += [new_path for new_path in dict.fromkeys(paths) if new_path not in paths_to_visit]
        return paths_to_visit

    def _said(self, message: ConsoleMessage) -> None:
        if not any(f"the server responded with a status of {status} " in message.text for status in self.expected):
            self.faults.append(f"console: {message.text} {message.location}")

    def _asked(self, request: Request) -> None:
        if urlsplit(request.url).scheme not in ("data", "blob") and urlsplit(request.url).netloc != self._host:
            self.faults.append(f"request to another host: {request.url}")
