"""An attacker wants into the console, and what others see there: by guessed keys and links, by cookies that are forged,
planted or have ended, by pages of other sites that the victim's browser opens, by the ids of the victim, and by texts
that a page might take for its own. Every route of the console is attacked."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from sqlalchemy import update

from app.accounts.auth import hash_token
from app.accounts.keys import issue_key, key_with_token, revoke_key
from app.accounts.sessions import end_session, find_session
from app.clock import now
from app.db.models import ConsoleLink, ConsoleSession
from app.http.console.guard import MAX_ATTEMPTS, PLAIN_COOKIE, SECURE_COOKIE
from app.http.console.navigation import HOME
from app.http.console.pages import SIGN_IN
from tests.attack.console import OWN, Browser, Console, ConsoleAnswer
from tests.attack.families import console_pages, console_requests, console_texts
from tests.attack.families.forwarded import CLIENT_HEADERS
from tests.attack.families.isolation import rows_of_the_victim, wrong_keys
from tests.attack.families.tokens import altered
from tests.attack.markup import faults
from tests.attack.party import NAMES
from tests.attack.stage import Stage
from tests.attack.tally import Case, case

VICTIM, ATTACKER = NAMES
TABLES_OF_SIGNING_IN = frozenset({"console_sessions", "console_links", "audit_entries"})
"""Tables in which the victim's own visits leave rows."""
PLANTED = "p1anted-by-somebody-else-0123456789abcdefgh"


def attack(on: Stage) -> Iterator[Case]:
    """All of it; behind a proxy what depends on it. The victim's rows are the same afterwards."""
    console = Console(on)
    on.await_rest()
    before = rows_of_the_victim(on)
    yield from cookies(console)
    yield from limits(console)
    yield from console_requests.other_pages(console)
    if not on.strict:
        yield from wrong(console)
        yield from fixed(console)
        yield from links(console)
        yield from ends(console)
        yield from console_requests.redirects(console)
        yield from console_requests.sizes(console)
        yield from console_pages.without_session(console)
        yield from console_pages.levels(console)
        yield from console_pages.ids(console)
        yield from console_pages.filters(console)
        yield from console_texts.reflected(console)
    after = rows_of_the_victim(on)
    for name in sorted(set(before) - TABLES_OF_SIGNING_IN):
        yield case("rows of the victim afterwards", before[name] == after[name], f"{name} has changed")
    if not on.strict:
        yield from console_texts.stored(console)
    for answer in console.seen:
        faults_of_answer = [*faults(answer)]
        yield case(
            "headers and scripts of answers",
            not faults_of_answer,
            f"{answer.method} {answer.path[:200]}: {faults_of_answer}",
        )


# ---------------------------------------------------------------------------------------------- cookies and keys


def cookies(console: Console) -> Iterator[Case]:
    """What the cookie of a session looks like, and that it works over the scheme for which it was set alone."""
    on, browser = console.on, console.browser()
    answer = browser.sign_in(on.attacker.token)
    (header,) = answer.headers.get_all("Set-Cookie") or [""]
    secure = "; Secure" if on.strict else ""
    form = rf"{console.cookie_name}=[\w-]{{43}}; Expires=[^;]+; Max-Age=\d+{secure}; HttpOnly; Path=/; SameSite=Strict"
    yield case("cookies", re.fullmatch(form, header) is not None, header)
    other = PLAIN_COOKIE if on.strict else SECURE_COOKIE
    renamed = console.browser().ask("GET", HOME, {"Cookie": f"{other}={browser.cookie}"})
    yield case("cookies", renamed.status == 401, f"as {other}: {renamed.status}")
    if on.strict:
        for method, path in (("GET", HOME), ("POST", SIGN_IN), ("GET", f"{HOME}/messages.csv")):
            plain = browser.ask(method, path, {"X-Forwarded-Proto": "http", **OWN}, form={"key": on.attacker.token})
            held = plain.status == 403 and not plain.cookies
            yield case("cookies", held, f"plain http: {plain.status} {plain.cookies}")
    log = on.service.output()
    yield case(
        "cookies", browser.cookie is not None and browser.cookie not in log, "the log has the token of a session"
    )


def limits(console: Console) -> Iterator[Case]:
    """More attempts than one client may make: with keys and with links, with headers that name other clients, and from
    all addresses of one network."""
    guesses = itertools.count(1)
    ways = {
        "keys": lambda browser, headers: browser.ask(
            "POST", SIGN_IN, headers, form={"key": f"tms_{next(guesses):043d}"}
        ),
        "links": lambda browser, headers: browser.ask("POST", f"{HOME}/login/{next(guesses):043d}", headers),
    }
    names = [*CLIENT_HEADERS, "Forwarded"][: 4 if console.on.short else None]
    spoofs = [dict[str, str](), *({name: "192.0.2.%d"} for name in names)]
    if console.on.strict:
        spoofs = [{"X-Forwarded-For": "192.0.2.%d, 198.51.100.9"}, {"X-Forwarded-For": "2001:db8:1:2::%d"}]
    for (way, guess), spoof in itertools.product(ways.items(), spoofs):
        browser = console.browser()
        tries = [guess(browser, {**OWN, **_numbered(spoof, number)}) for number in range(1, 2 * MAX_ATTEMPTS + 2)]
        # A minute may end meanwhile.
        refused = [guess for guess in tries if guess.status == 429 and int(guess.headers.get("Retry-After", 0)) > 0]
        yield case("guesses", bool(refused), f"{way} with {spoof}: none of {len(tries)} was refused")
        yield from (signed_out("guesses", guess) for guess in tries)


def _numbered(headers: dict[str, str], number: int) -> dict[str, str]:
    return {name: text.replace("%d", str(number)) for name, text in headers.items()}


def signed_out(attack_name: str, answer: ConsoleAnswer) -> Case:
    """Nobody has been signed in by the answer."""
    held = 400 <= answer.status < 500 and not any(answer.cookies.values())
    return case(attack_name, held, f"{answer.method} {answer.path[:200]}: {answer.status} {answer.cookies}")


def wrong(console: Console) -> Iterator[Case]:
    """Keys that are nearly right or have ended, forms of other shapes, and a test key, which has no live message."""
    on = console.on
    with on.services.database.write() as transaction:
        attacker = key_with_token(transaction, on.attacker.token)
        assert attacker is not None
        revoked, token = issue_key(transaction, attacker.account_id, "revoked", "standard")
        former, over = issue_key(transaction, attacker.account_id, "former", "standard")
        revoke_key(transaction, revoked)
        former.valid_until = now()
    tried = {**wrong_keys(on), "a revoked key": token, "the former secret of a key": over}
    texts = ["\x00", "%", "x" * 100_000, "[]", f"{on.attacker.token}\x00", hash_token(on.attacker.token)]
    for name, key in (*tried.items(), *((repr(text[:50]), text) for text in texts)):
        answer = console.browser().sign_in(key or "")
        yield case("keys", answer.status == 401 and not any(answer.cookies.values()), f"{name}: {answer.status}")
    for kind, body in {
        "application/json": f'{{"key": "{on.attacker.token}"}}',
        "text/plain": f"key={on.attacker.token}",
        "multipart/form-data; boundary=x": "--x\r\n"
        + "Content-Disposition: form-data; name=a\r\n\r\n\r\n--x\r\n" * 3000,
    }.items():
        headers = {**OWN, "Content-Type": kind}
        yield signed_out("keys", console.browser().ask("POST", SIGN_IN, headers, body=body.encode()))
    inside = console.signed_in(on.attacker.tokens["test"])
    for path in (f"{HOME}/messages", f"{HOME}/messages.csv"):
        live_page = inside.get(path)
        held = live_page.status == 200 and on.attacker.ids["uuid"] not in live_page.text
        yield case("keys", held, f"{path} shows a live message to a test key: {live_page.status}")
    answer_of_live = inside.get(f"{HOME}/messages/{on.attacker.ids['uuid']}")
    yield case("keys", answer_of_live.status == 404, f"a live message for a test key: {answer_of_live.status}")


def fixed(console: Console) -> Iterator[Case]:
    """A cookie that the attacker has put into the victim's browser is not that of the victim's session."""
    on = console.on
    for planted in (PLANTED, console.signed_in(on.attacker.token).cookie or ""):
        for way in ("key", "link"):
            victim = console.browser(planted)
            victim.sign_in(on.victim.token) if way == "key" else victim.follow(console.link(VICTIM))
            yield case("planted cookies", victim.cookie != planted, f"{way}: the session has the planted token")
            seen = console.browser(planted).get(HOME)
            yield case("planted cookies", VICTIM not in seen.text, f"{way}: {seen.text[:300]}")
    first, second = (console.signed_in(on.victim.token).cookie for _ in range(2))
    yield case("planted cookies", first != second, "two sessions have the same token")


# ---------------------------------------------------------------------------------------------- links


def links(console: Console) -> Iterator[Case]:
    """A link that was only looked at works, and afterwards never again."""
    token = console.link(VICTIM)
    path, browser = f"{HOME}/login/{token}", console.browser()
    for method, headers in itertools.product(
        ("GET", "HEAD", "OPTIONS", "PUT", "DELETE"),
        ({}, OWN, {"Purpose": "prefetch"}, {"Sec-Purpose": "prefetch;prerender"}, {"X-HTTP-Method-Override": "POST"}),
    ):
        answer = browser.ask(method, path, headers)
        held = answer.status in (200, 405) and not answer.cookies
        yield case("links", held, f"{method} with {headers}: {answer.status} {answer.cookies}")
    for forged in altered(token, console.on.short):
        answer = console.browser().ask("POST", f"{HOME}/login/{forged}".replace(" ", "%20"), OWN)
        yield signed_out("links", answer)
    with ThreadPoolExecutor(8) as several:
        answers = [*several.map(lambda browser: browser.ask("POST", path, OWN), [console.browser() for _ in range(8)])]
    statuses = sorted(answer.status for answer in answers)
    yield case("links", statuses == [303, *[404] * 7], f"eight at once: {statuses}")
    yield signed_out("links", console.browser().follow(token))
    late = console.link(VICTIM)
    with console.on.services.database.write() as transaction:
        criteria = ConsoleLink.token_hash == hash_token(late)
        transaction.execute(update(ConsoleLink).where(criteria).values(end_time=now()))
    yield signed_out("links", console.browser().follow(late))
    page = console.linked(ATTACKER).get(f"{HOME}?account=1")
    yield case("links", ATTACKER in page.text and VICTIM not in page.text, "the link of an account shows another")
    log = console.on.service.output()
    yield case("links", token not in log and late not in log, "the log has the token of a link")


def ends(console: Console) -> Iterator[Case]:
    """Sessions that have ended, in each way: their cookies are worth nothing."""
    on = console.on

    def sign_out(browser: Browser) -> None:
        browser.ask("POST", f"{HOME}/sign-out", OWN)

    def end(browser: Browser) -> None:
        with on.services.database.write() as transaction:
            session = find_session(transaction, browser.cookie or "")
            assert session is not None
            end_session(transaction, session.session_id)

    def expire(browser: Browser) -> None:
        with on.services.database.write() as transaction:
            criteria = ConsoleSession.token_hash == hash_token(browser.cookie or "")
            transaction.execute(update(ConsoleSession).where(criteria).values(end_time=now() - timedelta(seconds=1)))

    for way in (sign_out, end, expire, None):
        with on.services.database.write() as transaction:
            key = key_with_token(transaction, on.attacker.token)
            assert key is not None
            _, token = issue_key(transaction, key.account_id, f"ends by {way.__name__ if way else 'key'}", "standard")
        browser = console.signed_in(token)
        assert browser.get(HOME).status == 200, "a session that never worked proves nothing"
        if way is not None:
            way(browser)
        with on.services.database.write() as transaction:
            key = key_with_token(transaction, token)
            assert key is not None
            if way is None:
                revoke_key(transaction, key)
        answer = browser.get(HOME)
        yield case("ended sessions", answer.status == 401, f"{way.__name__ if way else 'revoke'}: {answer.status}")
        export = browser.get(f"{HOME}/messages.csv")
        yield case("ended sessions", export.status == 401, f"{way.__name__ if way else 'revoke'}: {export.status}")
