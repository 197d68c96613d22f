"""An attacker with keys of its own wants the rows of a victim: by every path, reference in a body, filter, cursor and
idempotency key. What is somebody else's must be answered exactly as what does not exist."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from itertools import product
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import requests
from sqlalchemy import Table, select

from app.accounts.auth import SCOPES
from app.db.models import Account, Base, List
from app.suppressions.states import BLOCKED, UNSUBSCRIBED
from tests.attack.description import Operation, Path, changed
from tests.attack.party import AUTOMATION, LEVELS, LIST, MANAGER, MESSAGE, MOBILES, NAMES
from tests.attack.stage import SENDS, Stage
from tests.attack.tally import Case, case
from tests.support.management import MANAGEMENT

NOBODY: dict[str, Any] = {"uuid": "00000000-0000-4000-8000-000000000000", "state": BLOCKED}
NOTHING = 9_007_199_254_740_000
"""An id that no row has."""
REQUEST_FIELDS = frozenset({"id", "timestamp", "_links"})
REFERENCES: dict[Path, str] = {
    ("list_id",): "list_id",
    ("message_id",): "message_id",
    ("group_id",): "group_id",
    ("recipients", 0, "contact_id"): "contact_id",
    ("contacts", 0, "id"): "contact_id",
    ("suppressions", 0, "list_id"): "list_id",
    ("list_ids", 0): "list_id",
    ("list",): "list_id",
    ("message",): "message_id",
}
"""Places of ids in bodies. An integer of the description that is not here fails the suite."""
NAMED: dict[Path, str] = {
    ("list",): LIST.format(NAMES[0]),
    ("message",): MESSAGE.format(NAMES[0]),
    ("group_name",): f"{NAMES[0]} group",
    ("from_address",): f"hello@{NAMES[0]}.example",
    ("bcc_address",): f"hello@{NAMES[0]}.example",
    ("transport",): NAMES[0],
}
"""Places of names in bodies, and what the victim has of that name."""
MANY: Path = ("suppressions",)
"""The array of the form that adds many suppressions."""
KEY = {"Idempotency-Key": "the-same-for-both"}
CHANGES_EVERY_MINUTE = {"api_keys", "idempotency_keys"}


def attack(on: Stage) -> Iterator[Case]:
    """All of it; the victim's rows are the same afterwards."""
    pages = pages_of_the_victim(on)
    on.await_rest()
    before = rows_of_the_victim(on)
    yield from levels(on)
    yield from paths(on)
    yield from bodies(on)
    yield from filters(on)
    yield from cursors(on, pages)
    yield from idempotency(on)
    on.await_rest()
    after = rows_of_the_victim(on)
    for name in before:
        yield case("rows of the victim afterwards", before[name] == after[name], f"{name} has changed")


# ---------------------------------------------------------------------------------------------- keys and levels


def levels(on: Stage) -> Iterator[Case]:
    """Every operation with a key of every level, without one, and with one that is nearly right."""
    for operation in on.operations:
        path = operation.path.format(**{name: NOBODY.get(name, NOTHING) for name in operation.parameters})
        for level in (*LEVELS, MANAGER):
            answer = on.ask(operation.method, path, on.attacker.tokens[level], body={})
            refused = (answer.status_code, code_of(answer)) == (403, "permission_denied")
            may = bool(operation.scopes & set(SCOPES[level]))
            yield case(
                "every route with keys of every level", refused != may, f"{operation.name} as {level}: {answer.text}"
            )
        for name, token in list(wrong_keys(on).items())[: 2 if on.short else None]:
            answer = on.ask(operation.method, path, token, body={})
            code = "api_key_invalid" if token else "api_key_missing"
            held = (answer.status_code, code_of(answer)) == (401, code)
            yield case("every route without a valid key", held, f"{operation.name} with {name}: {answer.text}")


def wrong_keys(on: Stage) -> dict[str, str | None]:
    """Keys that nobody has."""
    token = on.victim.token
    return {
        "no key": None,
        "another case": token.upper(),
        "a key cut short": token[:-1],
        "a longer key": token + "0",
        "another last character": token[:-1] + "1",
        "a wildcard": "tms_%",
        "its hash": "1b4f0e9851971998e732078544c96b36c3d01cedf7caa332359d6f1d83567014",
    }


# ---------------------------------------------------------------------------------------------- paths


def paths(on: Stage) -> Iterator[Case]:
    """Every mixture of the victim's ids, own ones and such as nobody has."""
    for operation in on.operations:
        if not operation.parameters:
            continue
        for name in operation.parameters:
            yield case("every route is covered", name in on.victim.ids, f"no value for {name} of {operation.name}")
        whose = [mixture for mixture in product((True, False), repeat=len(operation.parameters)) if any(mixture)]
        for mixture, (who, token) in product(whose, keys_of_strangers(on, operation)):
            mine = on.victim.ids if who == "the victim's test key" else on.attacker.ids
            theirs, absent = (
                {
                    name: chosen(name) if is_theirs else mine[name]
                    for name, is_theirs in zip(operation.parameters, mixture, strict=True)
                }
                for chosen in (on.victim.ids.__getitem__, lambda name: NOBODY.get(name, NOTHING))
            )
            body = body_for(on, operation)
            answer = on.ask(
                operation.method, operation.path.format(**theirs), token, body=body, query=query_for(operation)
            )
            nobody = on.ask(
                operation.method, operation.path.format(**absent), token, body=body, query=query_for(operation)
            )
            same = shape(answer, theirs) == shape(nobody, absent) and answer.status_code >= 400
            yield case("ids in paths", same, f"{operation.name} as {who}: {answer.text} but {nobody.text}")
            yield seen_nothing("ids in paths", on, answer, theirs.values())


def keys_of_strangers(on: Stage, operation: Operation) -> list[tuple[str, str]]:
    """Keys for which the victim's ids do not exist. A test key of the victim knows its lists and messages, and no key
    but it the captured mails."""
    keys = [(level, on.attacker.tokens[level]) for level in (*LEVELS, MANAGER, "test")]
    if (
        not {"list_id", "message_id", "captured_id"} & set(operation.parameters)
        and "contact_id" not in operation.parameters
    ):
        keys.append(("the victim's test key", on.victim.tokens["test"]))
    if "captured_id" in operation.parameters:
        keys.append(("the victim's live key", on.victim.token))
    return keys


def query_for(operation: Operation) -> dict[str, Any] | None:
    """What a request needs besides its path."""
    return {"id": NOTHING} if operation.method == "DELETE" and operation.path.endswith("/contacts") else None


def body_for(on: Stage, operation: Operation) -> Any:
    """A body that is valid as far as ids of the path matter."""
    if operation.method not in ("POST", "PATCH"):
        return None
    if operation.path.endswith("/contacts"):
        return {"contacts": [{"id": on.attacker.ids["contact_id"], "first_name": "Eve"}]}
    return {"first_name": "Eve"} if "/contacts/" in operation.path else {}


# ---------------------------------------------------------------------------------------------- bodies


def bodies(on: Stage) -> Iterator[Case]:
    """Every id and every name in a body."""
    for operation in on.operations:
        for place in operation.references:
            yield case(
                "every reference is covered", place in REFERENCES, f"{place} of {operation.name} is not in the table"
            )
        for place in operation.references:
            if place in REFERENCES:
                values = on.victim.ids[REFERENCES[place]], NOTHING
                yield from referred(on, operation, place, values)
        for place in operation.texts:
            # What a program stores under its own account may say anything.
            if place in NAMED and (place in REFERENCES or not operation.path.startswith(MANAGEMENT)):
                yield from referred(on, operation, place, (NAMED[place], NAMED[place].replace(NAMES[0], "nob0dy")))
    sender = [
        on.ask("POST", SENDS, on.attacker.token, body=on.attacker.text(from_address=number))
        for number in (MOBILES[NAMES[0]], "61400000009")
    ]
    same = shape(sender[0], {"": MOBILES[NAMES[0]]}) == shape(sender[1], {"": "61400000009"})
    yield case("names in bodies", same and sender[0].status_code == 422, f"the sender: {sender[0].text}")


def referred(on: Stage, operation: Operation, place: Path, values: tuple[Any, Any]) -> Iterator[Case]:
    """A body with something of the victim is answered as one with something that does not exist."""
    path = operation.path.format(**on.attacker.ids)
    answers = []
    for value in values:
        body = changed(valid_body(on, operation, place), place, value)
        if place == ("group_id",):
            del body["group_name"]
        if place == ("recipients", 0, "contact_id"):
            body["recipients"] = [{"contact_id": value}]
        answers.append(on.ask(operation.method, path, on.attacker.token_for(path), body=body))
    kind = "ids in bodies" if isinstance(values[0], int) else "names in bodies"
    said = [{"whole": value, "part": str(value).rpartition("@")[2]} for value in values]
    same = shape(answers[0], said[0]) == shape(answers[1], said[1])
    yield case(kind, same, f"{place} of {operation.name}: {answers[0].text} but {answers[1].text}")
    yield seen_nothing(kind, on, answers[0], said[0].values())


def valid_body(on: Stage, operation: Operation, place: Path = ()) -> Any:
    """One that names only what the attacker has, in the form that has the place."""
    if operation.path == SENDS:
        return on.attacker.send(group_name="isolation", recipients=[{"email": "eve@example.org"}])
    if operation.path.endswith("/validate"):
        trigger = "When a Contact is created from the REST API"
        return {
            "name": AUTOMATION.format("another"),
            "kind": "standard",
            "list": LIST.format(on.attacker.name),
            "trigger": trigger,
            "message": MESSAGE.format(on.attacker.name),
        }
    if operation.path.startswith(MANAGEMENT):
        return managed_body(on, operation)
    if operation.path == "/v1/suppressions":
        suppression = {"state": UNSUBSCRIBED, "email": "eve@example.org"}
        return {"suppressions": [suppression]} if place[:1] == MANY else suppression
    return body_for(on, operation) or {}


_numbers = itertools.count(1)


def managed_body(on: Stage, operation: Operation) -> Any:
    """A body with which a key of the level manager makes something new, or changes nothing."""
    name = f"{on.attacker.name} {next(_numbers)}"
    automation = {
        "kind": "standard",
        "list": LIST.format(on.attacker.name),
        "trigger": "When a Contact is created from the REST API",
        "message": MESSAGE.format(on.attacker.name),
    }
    bodies = {
        "POST /v1/management/lists": {"name": name, "fields": [{"name": "Email", "type": "Email"}]},
        "POST /v1/management/messages": {"name": name, "type": "email"},
        "POST /v1/management/webhooks": {"url": f"https://127.0.0.1/{name.replace(' ', '-')}"},
        "POST /v1/management/domains": {"name": f"{name.replace(' ', '-')}.example"},
        "POST /v1/management/keys": {"name": name, "access_level": "report"},
        "POST /v1/management/automations": {**automation, "name": name, "if": "first_name:EXACTLY:Nobody"},
        "PATCH /v1/management/automations/{automation_id}": {
            **automation,
            "name": AUTOMATION.format(on.attacker.name),
        },
    }
    return bodies.get(operation.name, {})


# ---------------------------------------------------------------------------------------------- filters


def filters(on: Stage) -> Iterator[Case]:
    """Every filter of every collection, with the value that the victim's row has; and all that can be embedded."""
    for operation in on.operations:
        if not operation.is_collection:
            continue
        level = MANAGER if operation.path.startswith(MANAGEMENT) else "standard"
        level = "test" if operation.path == "/v1/inbox" else level
        mine = on.ask("GET", operation.path.format(**on.attacker.ids), on.attacker.tokens[level], query={"limit": 1000})
        own_items = {identity(item) for item in items(mine)}
        (theirs, *_) = items(on.ask("GET", operation.path.format(**on.victim.ids), on.victim.tokens[level])) or [{}]
        for name in operation.filters:
            value = value_of(theirs, name)
            for operator in ("", ":in") if on.short else ("", ":ne", ":in"):
                text = str(value).lower() if isinstance(value, bool) else str(value or on.victim.name)
                answer = on.ask(
                    "GET",
                    operation.path.format(**on.attacker.ids),
                    on.attacker.tokens[level],
                    query={f"{name}{operator}": text, "expand": "", "limit": 1000},
                )
                foreign = {identity(item) for item in items(answer)} - own_items
                yield case("filters", not foreign, f"{operation.name} by {name}{operator}: {foreign}")
                yield seen_nothing("filters", on, answer, [text])
        for expansion in ("contacts", "content", "message"):
            answer = on.ask(
                "GET", operation.path.format(**on.attacker.ids), on.attacker.tokens[level], query={"expand": expansion}
            )
            yield seen_nothing("filters", on, answer, [])


def value_of(item: Any, name: str) -> Any:
    """The value of a property, dotted; None if there is none."""
    for part in name.split("."):
        item = item.get(part) if isinstance(item, dict) else None
    return item


def items(answer: requests.Response) -> list[dict[str, Any]]:
    """The items of a page; none of an answer that is no page."""
    embedded = answer.json().get("_embedded", {}) if answer.status_code == 200 else {}
    return [item for page in embedded.values() for item in page]


def identity(item: dict[str, Any]) -> str:
    """What names an item."""
    return str(item.get("_links", {}).get("self", {}).get("href") or item.get("uuid") or item.get("id") or item)


# ---------------------------------------------------------------------------------------------- cursors, idempotency


def pages_of_the_victim(on: Stage) -> dict[str, dict[str, str]]:
    """The queries of links to second pages, and the first use of an idempotency key."""
    pages = {}
    for path in (SENDS, "/v1/transactional-groups"):
        page = on.ask("GET", path, on.victim.token, query={"limit": 1}).json()
        pages[path] = dict(parse_qsl(urlsplit(page["_links"]["next"]["href"]).query))
    theirs = on.ask("POST", SENDS, on.victim.token, body=on.victim.send(), headers=KEY)
    assert theirs.status_code == 202, theirs.text
    return pages


def cursors(on: Stage, pages: dict[str, dict[str, str]]) -> Iterator[Case]:
    """A cursor of the victim's pages: as it is, altered, cut short, and with another length of the page."""
    for path, query in pages.items():
        tried = {
            "as it is": query,
            "altered": {**query, "cursor": query["cursor"][:-2] + ("AA" if query["cursor"][-2:] != "AA" else "BB")},
            "cut short": {**query, "cursor": query["cursor"][:-5]},
            "of another page": {**query, "limit": "2"},
        }
        for name, cursor in tried.items():
            answer = on.ask("GET", path, on.attacker.token, query=cursor)
            held = answer.status_code == 400 and code_of(answer) == "invalid_query_syntax"
            yield case("cursors of others", held, f"{path} {name}: {answer.text}")
            yield seen_nothing("cursors of others", on, answer, [])


def idempotency(on: Stage) -> Iterator[Case]:
    """An idempotency key of the victim, with the very same body and with another one."""
    first = on.ask("POST", SENDS, on.attacker.token, body=on.victim.send(), headers=KEY)
    yield case("idempotency keys of others", first.status_code == 422, f"the same body: {first.text}")
    answer_to_own = on.ask("POST", SENDS, on.attacker.token, body=on.attacker.send(group_name="isolation"), headers=KEY)
    held = answer_to_own.status_code == 202 and "Idempotent-Replayed" not in answer_to_own.headers
    yield case("idempotency keys of others", held, f"another body: {answer_to_own.text}")


# ---------------------------------------------------------------------------------------------- judging


def code_of(answer: requests.Response) -> str:
    """The code of an error."""
    try:
        return str(answer.json().get("code"))
    except ValueError:
        return ""


def shape(answer: requests.Response, named: dict[str, Any]) -> tuple[int, str]:
    """Status and error without what the request itself said; of a success only the status."""
    if answer.status_code < 400:
        return answer.status_code, ""
    error = {name: value for name, value in answer.json().items() if name not in REQUEST_FIELDS}
    text = json.dumps(error, ensure_ascii=False)
    for value in sorted(map(str, named.values()), key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", "X", text)
    return answer.status_code, text


def seen_nothing(attack_name: str, on: Stage, answer: requests.Response, said: Any) -> Case:
    """Whether nothing of the victim is in the answer but what the request itself said."""
    text = answer.text + str(answer.headers)
    for value in sorted(map(str, said), key=len, reverse=True):
        text = text.replace(value, "")
    return case(attack_name, on.victim.name not in text, f"{answer.request.url} shows {answer.text[:300]}")


def rows_of_the_victim(on: Stage) -> dict[str, set[Any]]:
    """All rows of the victim's account, by table."""
    rows_by_table: dict[str, set[Any]] = {}
    with on.services.database.read() as session:
        account = session.scalars(select(Account.id).where(Account.name == on.victim.name)).one()
        lists = select(List.id).where(List.account_id == account)
        for table in Base.metadata.sorted_tables:
            if table.name in CHANGES_EVERY_MINUTE or (condition := _of(table, account, lists)) is None:
                continue
            rows_by_table[table.name] = {
                tuple(map(repr, row)) for row in session.execute(select(table).where(condition))
            }
    return rows_by_table


def _of(table: Table, account: int, lists: Any) -> Any:
    if "account_id" in table.columns:
        return table.c.account_id == account
    return table.c.list_id.in_(lists) if "list_id" in table.columns else None
