"""Who sees which page of the console: nobody without a session, and nobody what belongs to another account."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from html import unescape
from typing import Any
from urllib.parse import quote

from sqlalchemy import select, update

from app.accounts.auth import MANAGE, SCOPES, STANDARD, hash_token
from app.accounts.sessions import OPERATOR
from app.clock import now
from app.console.messages import PATH
from app.db.models import Account, ConsoleSession, Message, Recipient, Send
from app.http.console.navigation import HOME
from app.http.console.pages import SIGN_IN
from app.query.cursors import CURSOR, CursorScope, Position
from tests.attack.console import OWN, Browser, Console, ConsoleAnswer
from tests.attack.families.console_requests import values_of
from tests.attack.families.isolation import NOBODY, NOTHING
from tests.attack.markup import read
from tests.attack.party import LEVELS, NAMES
from tests.attack.tally import Case, case

VICTIM, ATTACKER = NAMES
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
CHOSEN = frozenset({"account", "limit", "offset", "fields", "expand", "_tz", "from", "to", "cursor"})
"""Parameters that no wildcard could widen: most are the console's own to say."""
TEST_PARAMETERS = frozenset({"list_id", "message_id", "captured_id"})
"""What a test account has copies of, under the ids of the originals, and its inbox: a test key of the victim knows
them."""
WILDCARDS = ("%", "_", "*", "%@%", ".*@.*", "[a-z0-9-]*", "x' OR '1'='1", "a|b", "^", "\\", "(", "\x00", "\ud800", "‰")


# ---------------------------------------------------------------------------------------------- sessions


def without_session(console: Console) -> Iterator[Case]:
    """Every page that needs a session, without one and with cookies that are none; and the API with a cookie."""
    cookies = no_sessions(console)
    for page, (name, cookie) in itertools.product(console.private, cookies.items()):
        browser, path = console.browser(cookie), page.path(values_of(console, page))
        answer = browser.ask(page.method, path, OWN, query={"account": 1})
        asks_first = (answer.status, answer.target) in ((401, ""), (303, SIGN_IN))
        held = asks_first and VICTIM not in answer.text and not any(answer.cookies.values())
        yield case(
            "every page without a session", held, f"{page.name} with {name}: {answer.status} {answer.text[:200]}"
        )
        if page.method == "GET":
            live = browser.ask("GET", path, {"HX-Request": "true"})
            held = live.status == 401 and not live.text
            yield case("every page without a session", held, f"a part of {page.name} with {name}: {live.status}")
    session = console.signed_in(console.on.victim.token).cookie or ""
    for headers in ({"Authorization": f"Bearer {session}"}, {"Cookie": f"{console.cookie_name}={session}"}):
        refused = console.on.ask("GET", "/v1/lists", headers={**OWN, **headers}).status_code
        yield case("every page without a session", refused == 401, f"the API with {[*headers]}: {refused}")


def no_sessions(console: Console) -> dict[str, str | None]:
    """Cookies of sessions that are none."""
    signed_out, late = (console.signed_in(console.on.victim.token) for _ in range(2))
    live = console.signed_in(console.on.victim.token).cookie or ""
    signed_out.ask("POST", f"{HOME}/sign-out", OWN)
    with console.on.services.database.write() as transaction:
        criteria = ConsoleSession.token_hash == hash_token(late.cookie or "")
        transaction.execute(update(ConsoleSession).where(criteria).values(end_time=now()))
    return {
        "no cookie": None,
        "an empty one": "",
        "a made-up one": "A" * 43,
        "a wildcard": "%",
        "SQL": "x' OR '1'='1",
        "a key": console.on.victim.token,
        "the hash of a session": hash_token(live),
        "one cut short": live[:-1],
        "a longer one": f"{live}A",
        "another case": live.swapcase(),
        "an unused link": console.link(VICTIM),
        "one that was signed out": signed_out.cookie,
        "one whose time is over": late.cookie,
    }


def levels(console: Console) -> Iterator[Case]:
    """Every page with sessions of every level, by a link, and of an operator."""
    on = console.on
    operator = console.linked(None)
    sessions = {level: (console.signed_in(on.attacker.tokens[level]), frozenset(SCOPES[level])) for level in LEVELS}
    sessions["link"] = console.linked(ATTACKER), frozenset({*STANDARD, MANAGE})
    sessions["operator"] = operator, frozenset({*STANDARD, MANAGE, OPERATOR})
    nobody = {name: NOBODY.get(name, NOTHING) for page in console.private for name in page.parameters}
    for page, (who, (browser, scopes)) in itertools.product(console.private, sessions.items()):
        ends = page.method != "GET" and not page.parameters
        asking = _again(console, who) if ends else browser
        answer = asking.ask(page.method, page.path(nobody), OWN)
        refused, may = answer.status == 403, bool(page.scopes & scopes)
        yield case("every page with every level", refused != may, f"{page.name} as {who}: {answer.status}")
        if page.method == "GET" and who != "operator":
            widened = browser.ask("GET", page.path(nobody), query={"account": "", "operator": "1"})
            yield seen_nothing("every page with every level", widened, ())


def _again(console: Console, who: str) -> Browser:
    """A session for a page that may end it."""
    if who in LEVELS:
        return console.signed_in(console.on.attacker.tokens[who])
    return console.linked(None if who == "operator" else ATTACKER)


# ---------------------------------------------------------------------------------------------- ids and filters


def strangers(console: Console) -> dict[str, Browser]:
    """Sessions for which the victim's ids do not exist."""
    on = console.on
    return {
        **{level: console.signed_in(on.attacker.tokens[level]) for level in (*LEVELS, "test")},
        "a link": console.linked(ATTACKER),
        "the victim's test key": console.signed_in(on.victim.tokens["test"]),
    }


def ids(console: Console) -> Iterator[Case]:
    """The victim's ids in every path: answered as what does not exist."""
    on, browsers = console.on, strangers(console)
    for page in console.private:
        for name in page.parameters:
            yield case("every page is covered", name in on.victim.ids, f"no value for {name} of {page.name}")
        if not page.parameters or not set(page.parameters) <= set(on.victim.ids):
            continue
        theirs = {name: on.victim.ids[name] for name in page.parameters}
        absent = {name: NOBODY.get(name, NOTHING) for name in page.parameters}
        for who, browser in browsers.items():
            if who == "the victim's test key" and TEST_PARAMETERS & set(page.parameters):
                continue
            answer, nobody = (browser.ask(page.method, page.path(values), OWN) for values in (theirs, absent))
            said = [*theirs.values(), *absent.values()]
            same = (answer.status, _without(answer.text, said)) == (nobody.status, _without(nobody.text, said))
            held = same and answer.status in (403, 404)
            yield case("ids in paths", held, f"{page.name} as {who}: {answer.status} but {nobody.status}")
            if who != "the victim's test key":
                yield seen_nothing("ids in paths", answer, theirs.values())


def _without(text: str, said: Iterable[object]) -> str:
    text = unescape(text)
    for value in sorted(map(str, said), key=len, reverse=True):
        for written in (value, quote(value, safe=""), quote(value, safe=":,")):
            text = text.replace(written, "X")
    return text


def seen_nothing(attack_name: str, answer: ConsoleAnswer, said: Iterable[object]) -> Case:
    """Whether nothing of the victim is in the answer but what the request itself said."""
    text = _without(answer.text + answer.target, said)
    held = VICTIM not in text and answer.status < 500
    return case(attack_name, held, f"{answer.path[:200]}: {answer.status} {text[:300]}")


def filters(console: Console) -> Iterator[Case]:
    """Every field of every search and every filter of the API with what the victim has; with wildcards; and cursors of
    the victim."""
    on = console.on
    with on.services.database.read() as session:
        victim = session.scalars(select(Account.id).where(Account.name == VICTIM)).one()
        owned = select(Recipient.uuid).join(Account, Account.id == Recipient.account_id)
        uuids = set(map(str, session.scalars(owned.where(Account.name == VICTIM))))
    levels = ("report", "standard") if on.short else (*LEVELS, "test")
    browsers = {level: console.signed_in(on.attacker.tokens[level]) for level in levels}
    filter_names = {name for operation in on.operations for name in operation.filters}
    for page, (who, browser) in itertools.product(console.reading, browsers.items()):
        path = page.path({})
        names = set() if on.short else filter_names
        for name in sorted(names | set(read(browser.get(path)).fields) | {"account", "find"}):
            for value in _values(console, name, victim):
                for operator in ("",) if on.short else ("", ":in", ":ne"):
                    answer = browser.get(path, query={f"{name}{operator}": value})
                    foreign = (uuids - {value}) & set(UUID.findall(answer.text))
                    yield case("filters", not foreign, f"{page.name} as {who} by {name}{operator}: {foreign}")
                    yield seen_nothing("filters", answer, [value])
    yield from wildcards(console, browsers["standard"], filter_names)
    yield from cursors(console, victim)


def _values(console: Console, name: str, account: int) -> list[str]:
    """What the victim has of that name."""
    ids, person = console.on.victim.ids, console.on.victim.person
    values_by_name = {"account": [str(account)], "find": [ids["uuid"], person], "email": [person]}
    return values_by_name.get(name) or [str(ids.get(name) or VICTIM)]


def wildcards(console: Console, browser: Browser, filter_names: set[str]) -> Iterator[Case]:
    """Texts that some language of searches takes for anything: here they are themselves, and find what has them."""
    texts_by_uuid = texts_of_messages(console)
    for page in console.reading:
        fields = ((set() if console.on.short else filter_names) | set(read(browser.get(page.path({}))).fields)) - CHOSEN
        for name, text in itertools.product(sorted(fields), WILDCARDS[: 1 if console.on.short else None]):
            query = {name: text.encode("utf-8", "surrogatepass")}
            answer = browser.get(page.path({}), query=query)
            wrong = {uuid for uuid in UUID.findall(answer.text) if text.lower() not in texts_by_uuid.get(uuid, "")}
            held = answer.status in (200, 303, 400, 403, 422) and not wrong
            yield case("wildcards", held, f"{page.name} by {name}={text!r}: {answer.status} {wrong}")


def texts_of_messages(console: Console) -> dict[str, str]:
    """What the search of the attacker's messages looks through, in lower case, by their uuids."""
    columns: Any = Recipient.uuid, Recipient.email, Recipient.mobile, Send.subject, Send.group_name, Message.name
    rows = select(*columns).join(Send, Send.id == Recipient.send_id)
    rows = rows.outerjoin(Message, Message.id == Recipient.message_id)
    rows = rows.join(Account, Account.id == Recipient.account_id).where(Account.name == ATTACKER)
    with console.on.services.database.read() as session:
        return {str(uuid): "\n".join(text or "" for text in texts).lower() for uuid, *texts in session.execute(rows)}


def cursors(console: Console, victim: int) -> Iterator[Case]:
    """A cursor of the victim's messages, as the service would make it, and one of another page."""
    secret_keys, position = console.on.services.settings.secret_keys, Position((now(), NOTHING))
    scope_of_api = CursorScope(secret_keys, victim, "/v1/transactional-sends")
    tried = [scope.make(position, []) for scope in (CursorScope(secret_keys, victim, PATH), scope_of_api)]
    browser = console.signed_in(console.on.attacker.token)
    for page, cursor in itertools.product(console.reading, [*tried, tried[0][:-2], "A" * 40, "%"]):
        answer = browser.get(page.path({}), query={CURSOR: cursor})
        held = answer.status == 400 or not page.rule.startswith(PATH)
        yield case("cursors of others", held, f"{page.name} with {cursor}: {answer.status}")
        yield seen_nothing("cursors of others", answer, [cursor])
