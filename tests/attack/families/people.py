"""An attacker wants in as somebody else by the doors of OpenID Connect: with answers for other browsers, with tokens
that prove nothing, by a provider that lies, with roles that the attacker does not have, and by asking for too much."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import quote

from sqlalchemy import func, select, update

from app.accounts.auth import MANAGE, STANDARD
from app.accounts.sessions import READER_SCOPES
from app.clock import now
from app.db.models import ConsolePerson, ConsoleSession
from app.http.console.guard import MAX_ATTEMPTS
from app.http.console.navigation import HOME
from app.http.console.pages import SIGN_IN
from tests.attack.console import OWN, Browser, Console, ConsoleAnswer
from tests.attack.families.console import signed_out
from tests.attack.families.console_requests import ELSEWHERE, values_of
from tests.attack.families.isolation import NOBODY, NOTHING
from tests.attack.markup import faults, is_own
from tests.attack.party import NAMES
from tests.attack.stage import Stage
from tests.attack.tally import Case, case
from tests.support.forged import CLAIMS, SIGNATURES
from tests.support.provider import parameters_of
from tests.support.servers import wait_until
from tests.support.staff import BEGIN, WAIT, path_of

VICTIM, ATTACKER = NAMES
SCRIPT = "\"'><img src=x onerror=alert(1)>"
PEOPLE: dict[str, dict[str, Any]] = {
    "operator": {"name": SCRIPT, "email": SCRIPT, "groups": ["admins"]},
    "manager": {"name": "manager", "groups": ["a"]},
    "reader": {"name": "reader", "groups": ["reads"]},
    "reader of all": {"name": "reader of all", "groups": ["all"]},
    "nobody": {"name": "nobody", "groups": ["Admins", "admins ", "*", "a*", 7, ["admins"]]},
}


def attack(on: Stage) -> Iterator[Case]:
    """All of it, with a provider that is honest again after each lie."""
    console = Console(on)
    on.provider.people = {**PEOPLE}
    walk = Walk(console)
    operator = walk.signed_in("operator")
    yield case("people", operator.get(f"{HOME}/audit").status == 200, "who never comes in proves nothing")
    yield from answers(walk)
    yield from tokens(walk)
    yield from lies(walk)
    yield from roles(walk)
    yield from strangers(walk)
    yield from ends(walk)
    yield from redirects(walk)
    yield from limits(walk)
    yield from secrets_in_log(walk)
    for answer in console.seen:
        leads_there = answer.target.startswith(f"{on.provider.issuer}/authorize?")
        faults_of_answer = [fault for fault in faults(answer) if not (leads_there and fault.startswith("it leads to"))]
        yield case("headers and scripts of answers", not faults_of_answer, f"{answer.path[:200]}: {faults_of_answer}")


class Walk:
    """The way of a person through the provider, each step by itself."""

    def __init__(self, console: Console) -> None:
        self.console, self.on, self.provider = console, console.on, console.on.provider
        self.secrets: set[str] = set()
        """What nobody may read in the log."""

    def asked(self, browser: PersonBrowser, subject: str) -> str:
        """Presses the button, and returns the address to which the provider sends the browser back."""
        begun = browser.ask("POST", BEGIN, OWN)
        assert begun.status == 200, f"{begun.status} {begun.text}"
        url = self.waited(browser).target
        back = self.provider.authorize(url, subject)
        self.secrets |= {parameters_of(back)[name] for name in ("code", "state")}
        return back

    def waited(self, browser: PersonBrowser) -> ConsoleAnswer:
        """What comes after "One moment"."""
        seen: list[ConsoleAnswer] = []

        def has_gone_on() -> bool:
            seen.append(browser.ask("GET", WAIT))
            return seen[-1].status != 200

        wait_until(has_gone_on, "the provider was asked")
        return seen[-1]

    def come_back(self, browser: PersonBrowser, url: str) -> ConsoleAnswer:
        """Follows the provider back; the answer that signs in, or says why not."""
        answer = browser.ask("GET", path_of(url))
        return self.waited(browser) if answer.status == 303 else answer

    def enter(self, subject: str) -> tuple[PersonBrowser, ConsoleAnswer]:
        """The whole way."""
        browser = PersonBrowser(self.console)
        return browser, self.come_back(browser, self.asked(browser, subject))

    def signed_in(self, subject: str) -> PersonBrowser:
        """The browser of a person who is signed in."""
        browser, answer = self.enter(subject)
        assert answer.status == 303, f"who has a role must be able to sign in: {answer.text}"
        return browser

    @contextmanager
    def lie(self, **changes: object) -> Iterator[None]:
        """The provider says something else inside the block."""
        before = {name: getattr(self.provider, name) for name in changes}
        for name, change in changes.items():
            setattr(self.provider, name, change)
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(self.provider, name, value)


class PersonBrowser(Browser):
    """A browser that keeps the cookie of its attempt, too."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, None)
        self.cookies: dict[str, str] = {}

    def ask(self, method: str, path: str, headers: dict[str, str] | None = None, **options: object) -> ConsoleAnswer:  # type: ignore[override]
        """The answer, whose cookies it keeps."""
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items() if value)
        sent = {**({"Cookie": cookies} if cookies else {}), **(headers or {})}
        answer = super().ask(method, path, sent, **options)  # type: ignore[arg-type]
        for header in answer.headers.get_all("Set-Cookie") or ():
            self.cookies |= {name: morsel.value for name, morsel in SimpleCookie(header).items()}
        return answer


def no_entry(attack_name: str, browser: Browser, answer: ConsoleAnswer, what: str) -> Iterator[Case]:
    """Nobody is signed in by the answer, nor afterwards."""
    held = answer.status == 403 and not any(answer.cookies.values())
    yield case(attack_name, held, f"{what}: {answer.status} {answer.cookies}")
    after = browser.ask("GET", HOME)
    yield case(attack_name, after.status == 401, f"{what}: the console then: {after.status}")


def answers(walk: Walk) -> Iterator[Case]:
    """Answers of the provider for another browser, for another attempt, altered ones, and old ones."""
    victim = PersonBrowser(walk.console)
    url = walk.asked(victim, "operator")
    stranger = PersonBrowser(walk.console)
    yield from no_entry("answers of others", stranger, stranger.ask("GET", path_of(url)), "without an attempt")
    other = PersonBrowser(walk.console)
    others_url = walk.asked(other, "nobody")
    yield from no_entry("answers of others", other, other.ask("GET", path_of(url)), "in another attempt")
    yield from no_entry("answers of others", victim, victim.ask("GET", path_of(others_url)), "of the attacker")
    altered = {
        "another state": re.sub("state=[^&]+", f"state={'0' * 64}", url),
        "no state": re.sub("&state=[^&]+", "", url),
        "two states": re.sub("state=", "state=x&state=", url),
        "another issuer": re.sub("iss=[^&]+", "iss=https://evil.example", url),
        "no issuer": re.sub("&iss=[^&]+", "", url),
        "a state of bytes": re.sub("state=[^&]+", "state=%ED%A0%80%00", url),
    }
    for name, changed in altered.items():
        yield from no_entry("answers of others", victim, victim.ask("GET", path_of(changed)), name)
    for method in ("POST", "PUT", "HEAD", "OPTIONS"):
        answer = victim.ask(method, path_of(url).replace("state=", "state=0"), OWN)
        yield case("answers of others", answer.status in (200, 403, 405), f"{method}: {answer.status}")
    code = parameters_of(others_url)["code"]
    stolen = walk.come_back(victim, re.sub("code=[^&]+", f"code={quote(code)}", url))
    yield from no_entry("answers of others", victim, stolen, "a code of another attempt")
    honest, entered = walk.enter("operator")
    yield case("answers of others", entered.status == 303, f"an honest walk: {entered.status}")
    for _ in range(2):
        again = honest.ask("GET", path_of(url))
        yield case(
            "answers of others", again.status == 403 and not any(again.cookies.values()), f"again: {again.status}"
        )


def tokens(walk: Walk) -> Iterator[Case]:
    """ID tokens that prove nothing, by their claims and by their signatures."""
    for name, change in CLAIMS.items():
        with walk.lie(change_claims=change):
            yield from no_entry("forged tokens", *walk.enter("operator"), f"claims: {name}")
    for name, sign in SIGNATURES.items():
        with walk.lie(sign=sign):
            yield from no_entry("forged tokens", *walk.enter("operator"), f"signature: {name}")
    yield from no_entry("forged tokens", *walk.enter("nobody"), "no role")


def lies(walk: Walk) -> Iterator[Case]:
    """Answers of the token endpoint and of userinfo that are no answers."""
    lies_about_tokens: tuple[Any, ...] = (b"x" * 100_000, b"{", b"[]", (200, {}), (500, {}), (200, {"id_token": ["x"]}))
    for answer in lies_about_tokens:
        with walk.lie(answers={"/token": answer}):
            yield from no_entry("lies of the provider", *walk.enter("operator"), f"/token: {answer!r:.50}")
    lies_about_people: tuple[Any, ...] = (
        (200, {"sub": "operator", "groups": ["admins"]}),
        (200, {"groups": ["admins"]}),
        (500, {}),
    )
    for person in lies_about_people:
        with walk.lie(answers={"/userinfo": person}, claims_in_id_token=False):
            yield from no_entry("lies of the provider", *walk.enter("nobody"), f"/userinfo: {person!r}")


def roles(walk: Walk) -> Iterator[Case]:
    """Every page with every role; a role that a person has not is not taken by asking for it."""
    scopes = {
        "manager": frozenset({*STANDARD, MANAGE}),
        "reader": frozenset(READER_SCOPES),
        "reader of all": frozenset(READER_SCOPES),
    }
    browsers = {who: walk.signed_in(who) for who in scopes}
    console = walk.console
    nobody = {name: NOBODY.get(name, NOTHING) for page in console.private for name in page.parameters}
    for page, who in itertools.product(console.private, scopes):
        if page.rule == f"{HOME}/sign-out":
            continue
        answer = browsers[who].ask(page.method, page.path(nobody), OWN)
        may = bool(page.scopes & scopes[who])
        held = (answer.status == 403) != may
        yield case("every page with every role", held, f"{page.name} as {who}: {answer.status}")
        if who != "manager" and page.method != "GET":
            held = answer.status == (404 if page.rule == f"{HOME}/roles" else 403)
            yield case("every page with every role", held, f"{page.name} as {who}: {answer.status}")
    for who, role in itertools.product(scopes, ("operator", "manager", "reader", "OPERATOR", "")):
        for account in ("", "1", "2", "x"):
            if (who, role, account) == ("reader of all", "reader", ""):
                continue
            taken = browsers[who].ask("POST", f"{HOME}/roles", OWN, form={"role": role, "account": account})
            kept = _role(walk, who) == who.partition(" ")[0]
            yield case("roles of others", kept, f"{role}:{account} as {who}: {taken.status}")


def _role(walk: Walk, subject: str) -> str | None:
    """The role in the newest session of a person."""
    with walk.on.services.database.read() as session:
        newest = select(ConsoleSession.role).join(ConsolePerson, ConsolePerson.id == ConsoleSession.person_id)
        return session.scalars(
            newest.where(ConsolePerson.subject == subject).order_by(ConsoleSession.id.desc()).limit(1)
        ).first()


def strangers(walk: Walk) -> Iterator[Case]:
    """What belongs to the victim does not exist for a manager and a reader of the attacker's account."""
    on = walk.on
    for who in ("manager", "reader"):
        browser = walk.signed_in(who)
        for page in walk.console.private:
            if not page.parameters or not set(page.parameters) <= set(on.victim.ids):
                continue
            answer = browser.ask(page.method, page.path(values_of(walk.console, page)), OWN)
            held = answer.status in (403, 404) and VICTIM not in answer.text
            yield case("ids of others", held, f"{page.name} as {who}: {answer.status}")
        for path in ("", "/messages", "/lists", "/webhooks", "/suppressions"):
            answer = browser.get(f"{HOME}{path}", query={"account": "1"})
            yield case("ids of others", VICTIM not in answer.text, f"{path} as {who}")


def ends(walk: Walk) -> Iterator[Case]:
    """Sessions whose role was taken away, or whose person the provider does not know any more."""

    def take_role() -> None:
        walk.provider.people["manager"] = {**PEOPLE["manager"], "groups": []}

    ways: dict[str, Callable[[], None]] = {"no role": take_role, "signed out": walk.provider.end_sessions}
    for way, change in ways.items():
        browser = walk.signed_in("manager")
        change()
        with walk.on.services.database.write() as transaction:
            transaction.execute(update(ConsoleSession).where(ConsoleSession.role == "manager").values(check_time=now()))

        def has_ended(browser: PersonBrowser = browser) -> bool:
            return browser.ask("GET", HOME).status == 401

        wait_until(has_ended, "the session has ended")
        yield case("ended roles", browser.ask("GET", f"{HOME}/messages.csv").status == 401, way)
        walk.provider.people = {**PEOPLE}


def redirects(walk: Walk) -> Iterator[Case]:
    """Places of others to come back to."""
    for target in ELSEWHERE[: 4 if walk.on.short else None]:
        browser = PersonBrowser(walk.console)
        begun = browser.ask("POST", BEGIN, OWN, form={"wanted": target})
        yield case("redirects", begun.status == 200 and target not in begun.text, f"{target!r}: {begun.text[:300]}")
        url = walk.provider.authorize(walk.waited(browser).target, "reader")
        answer = walk.come_back(browser, url)
        yield case("redirects", answer.status == 303 and is_own(answer.target), f"{target!r}: {answer.target!r}")
        back = parameters_of(path_of(url)) | {"redirect_uri": target, "next": target, "wanted": target}
        again = browser.ask("GET", f"{SIGN_IN}/callback", query=back)
        yield case("redirects", not again.target or is_own(again.target), f"{target!r}: {again.target!r}")


def limits(walk: Walk) -> Iterator[Case]:
    """More attempts than one client may begin; others are not kept from it."""
    browser = PersonBrowser(walk.console)
    tries = [browser.ask("POST", BEGIN, OWN) for _ in range(2 * MAX_ATTEMPTS + 2)]
    refused = [answer for answer in tries if answer.status == 429]
    yield case("attempts", bool(refused), f"none of {len(tries)} was refused")
    yield from (signed_out("attempts", answer) for answer in refused)
    yield case("attempts", walk.enter("reader")[1].status == 303, "another client cannot sign in")
    for headers in ({}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}):
        answer = PersonBrowser(walk.console).ask("POST", BEGIN, headers)
        yield case("attempts", answer.status == 403 and not answer.cookies, f"begun with {headers}: {answer.status}")


def secrets_in_log(walk: Walk) -> Iterator[Case]:
    """The log has nothing that signs in, and the database no person without a role."""
    log = walk.on.service.output()
    leaked = [secret for secret in walk.secrets if secret in log]
    yield case("secrets of attempts", not leaked, f"the log has {len(leaked)} of {len(walk.secrets)}")
    with walk.on.services.database.read() as session:
        people = session.scalar(select(func.count()).where(ConsolePerson.subject == "nobody"))
    yield case("secrets of attempts", not people, "who has no role is kept")
