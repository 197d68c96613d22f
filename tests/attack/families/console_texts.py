"""Texts that a browser or a spreadsheet might take for its own, in everything that a page of the console shows: what
the request itself says, and every text that somebody has ever stored."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from sqlalchemy import ColumnElement, Row, String, Table, and_, func, select, update

from app.db.models import Account, AuditEntry, Base, MessageVersion
from app.http.console.navigation import HOME
from app.http.console.pages import SIGN_IN
from tests.attack.console import OWN, Browser, Console, ConsoleAnswer
from tests.attack.families.arrivals import FORMULA
from tests.attack.families.console_requests import values_of
from tests.attack.markup import faults, read
from tests.attack.party import NAMES
from tests.attack.stage import SENDS
from tests.attack.tally import Case, case

ATTACKER = NAMES[1]
SCRIPTS = (
    "\"'><img src=x onerror=alert(1)>",
    "</script></title></textarea></style><svg/onload=alert(1)>",
    "javascript:alert(1)//",
    '" onmouseover="alert(1)" x="',
    "{{1234*4321}}{% print 1234*4321 %}${1234*4321}",
    "<!--<script>alert(1)</script>",
    "\x00<\x00s\x00c\x00ript>alert(1)",
    "&lt;script&gt;alert(1)&lt;/script&gt;<script>alert(1)</script>",
    "+ADw-script+AD4-alert(1)+ADw-/script+AD4-",
    "x\r\nSet-Cookie: injected=1\r\n\r\n<script>alert(1)</script>",
)
STORED = "\"'><img src=x onerror=alert({})>"
CELLS = ('=HYPERLINK("http://evil.example";"{}")', "\t=1+1 {}", '@SUM(1) "\n=1+1,{}', "+1;=1+1 {}", "\uff1d1+1 {}")
EVALUATED = "5332114"
UNWRITTEN_COLUMNS = frozenset(
    {
        *("uuid", "type", "kind", "state", "step", "result", "action", "object", "stage", "outcome", "simulates"),
        *("access_level", "priority", "email_priority", "sms_priority", "rate_limit", "time_zone", "actor_kind"),
        *("retain_content", "retain_recipients", "retain_captured", "retain_logs", "retain_audit", "held_state"),
        "brand_colour",
        *("token", "token_hash", "fingerprint", "digest", "address_digest", "key", "key_id", "email_key", "worker"),
        *("batch_id", "payload", "body", "holder", "request_id", "link_type", "open_type", "unsubscribe_type"),
        *("algorithm", "private_key", "public_key", "secret", "secret_values", "watched_event", "options"),
        *("role", "refresh_token"),
    }
)
"""Columns with words and tokens of this service: nobody else writes into them."""
PERSONAL = frozenset({"email", "mobile", "address", "detail", "note", "answer", "reason", "identifier"})
"""Columns with addresses of people and texts of other servers."""
RUN_LABELS = frozenset({"automation_runs.reason", "automation_passed_steps.detail"})
"""Words of this service that have such names; the API shows them to every key that reads automations."""
FOR_OPERATORS = "recipient_steps.note"
LABEL = re.compile(r"\w+\.\w+\.\d+")
MAX_ROWS = 100
"""Rows of a table that are changed."""
NOT_ALL_HAVE = re.compile(r"/content/(?:html|image|attachment|source)(?:\?|\Z)|/inbox(?:/|\Z)")
"""Pages of what not every message has, or not everybody of an account may see."""
MUST_SHOW = {"accounts.name", "console_sessions.name", "recipients.email", "recipient_steps.detail", FOR_OPERATORS}
"""What some page is known to show: otherwise the attack would prove nothing."""


def reflected(console: Console) -> Iterator[Case]:
    """In everything that a request says."""
    browsers = [console.browser(), console.signed_in(console.on.attacker.token), console.linked(None)]
    for text, browser in itertools.product(SCRIPTS[: 1 if console.on.short else None], browsers):
        for answer in said(console, browser, text):
            faults_of_answer = [*faults(answer), *([EVALUATED] if EVALUATED in answer.text else [])]
            held = not faults_of_answer and "injected" not in str(answer.headers.get_all("Set-Cookie"))
            yield case("texts of requests", held, f"{answer.path[:200]}: {faults_of_answer}")


def said(console: Console, browser: Browser, text: str) -> Iterator[ConsoleAnswer]:
    """Answers to requests that say it in a path, in each field, as the name of a field, and in headers."""
    plain = text.replace("\r", "").replace("\n", "")
    for page in (page for page in console.pages if page.method == "GET"):
        yield browser.get(page.path({**values_of(console, page), **dict.fromkeys(page.parameters, text)}))
        path = page.path(values_of(console, page))
        for name in {*read(browser.get(path)).fields, "wanted", "account", "cursor", "filters", text}:
            yield browser.get(path, query={name: text})
        yield browser.ask(
            "GET", path, dict.fromkeys(("User-Agent", "Referer", "Accept-Language", "X-Request-Id"), plain)
        )
        yield browser.ask("GET", path, {"HX-Current-URL": plain, "Sec-Fetch-Site": "cross-site"})
    yield browser.get(f"{HOME}/{quote(text, safe='')}")
    yield console.browser().ask("POST", SIGN_IN, OWN, form={"key": text, "wanted": text})
    yield console.browser().ask("POST", f"{HOME}/{quote(text, safe='')}", OWN)


# ---------------------------------------------------------------------------------------------- stored texts


def stored(console: Console) -> Iterator[Case]:
    """In every text of every row of an account: of names, subjects, values, replies and URLs, whoever wrote them."""
    on = console.on
    uuid = bounced(console)
    with on.services.database.read() as session:
        account = session.scalars(select(Account.id).where(Account.name == ATTACKER)).one()
    levels = ("report", "limited", "standard")
    browsers = {level: console.signed_in(on.attacker.tokens[level]) for level in levels}
    browsers |= {"link": console.linked(ATTACKER), "operator": console.linked(None)}
    with written(console, STORED, account):
        visited = list(visits(console, browsers, account, uuid))
    labels_seen: set[str] = set()
    for who, answer in visited:
        labels = {label.rpartition(".")[0] for label in LABEL.findall(answer.text)}
        labels_seen |= labels
        faults_of_answer = [*faults(answer)]
        is_there = answer.status == 200 or (
            answer.status in (303, 404) and NOT_ALL_HAVE.search(answer.path) is not None
        )
        yield case(
            "stored texts",
            not faults_of_answer and is_there,
            f"{answer.path} as {who}: {answer.status} {faults_of_answer}",
        )
        if who in ("report", "limited"):
            hidden = {label for label in labels if label.partition(".")[2] in PERSONAL} - RUN_LABELS
            yield case("what a report does not show", not hidden, f"{answer.path} as {who}: {hidden}")
        if who != "operator":
            yield case("what a report does not show", FOR_OPERATORS not in labels, f"{answer.path} as {who}: a note")
    missing = MUST_SHOW - labels_seen
    assert not missing, f"no page has shown {missing}, so the attack proves nothing"
    for payload in CELLS[: 3 if on.short else None]:
        with written(console, payload, account):
            visited = list(visits(console, browsers, account, uuid))
        for who, answer in visited:
            if answer.headers.get_content_type() == "text/csv":
                yield from cells(who, answer)


def cells(who: str, answer: ConsoleAnswer) -> Iterator[Case]:
    """No cell of a file is a formula, none begins a row, and the file is stored rather than shown."""
    rows = list(csv.reader(io.StringIO(answer.text, newline="")))
    for row in rows:
        formulas = [cell for cell in row if FORMULA.match(cell)]
        held = not formulas and len(row) == len(rows[0])
        yield case("cells of files", held, f"{answer.path} as {who}: {formulas} {row}")
    disposition = str(answer.headers.get("Content-Disposition"))
    held = re.fullmatch(r'attachment; filename="[\w.-]+\.csv"', disposition) is not None
    yield case("cells of files", held, f"{answer.path} as {who}: {disposition}")


def visits(
    console: Console, browsers: dict[str, Browser], account: int, uuid: str
) -> Iterator[tuple[str, ConsoleAnswer]]:
    """Every page that is read, as everybody who may see it."""
    values = console.on.attacker.ids | {"uuid": uuid, "version_number": newest_version(console)}
    for page in (page for page in console.private if page.method == "GET"):
        if not set(page.parameters) <= set(values):
            continue
        for who, browser in browsers.items():
            answer = browser.ask("GET", page.path(values), query={"account": account} if who == "operator" else None)
            if answer.status != 403:
                yield who, answer
    yield "operator", browsers["operator"].ask("GET", HOME)


def newest_version(console: Console) -> int:
    """The number of the newest version of the attacker's message: others may have been pushed out by the changes of
    other families."""
    newest = select(func.max(MessageVersion.number)).where(
        MessageVersion.message_id == console.on.attacker.ids["message_id"]
    )
    with console.on.services.database.read() as session:
        return session.scalars(newest).one()


def bounced(console: Console) -> str:
    """The uuid of a message that the relay has refused, with a reply."""
    on = console.on
    body = on.attacker.send(group_name="console", recipients=[{"email": "refused-in-the-console@example.org"}])
    answer = on.ask("POST", SENDS, on.attacker.token, body=body)
    assert answer.status_code == 202, answer.text
    on.await_rest()
    return str(answer.json()["_embedded"]["recipients"][0]["uuid"])


@contextmanager
def written(console: Console, shape: str, account: int) -> Iterator[None]:
    """Inside the block each text of the account's rows is of that shape, with a label of its own."""
    changed: list[tuple[Table, ColumnElement[bool], dict[str, Any]]] = []
    database = console.on.services.database
    with database.write() as transaction:
        for table in Base.metadata.sorted_tables:
            owner = table.c.id if table.name == Account.__tablename__ else table.c.get("account_id")
            names = _texts(table)
            if owner is None or not names or table.name == AuditEntry.__tablename__:
                continue  # entries are never changed; the visits to the pages add some, with the names of keys
            newest = (
                select(table)
                .where(owner == account)
                .order_by(*(column.desc() for column in table.primary_key))
                .limit(MAX_ROWS)
            )
            for number, row in enumerate(transaction.execute(newest).all()):
                # The reason of a failure is a code of this service.
                free = [name for name in names if name != "reason" or getattr(row, "state", "") != "failed"]
                which = _row(table, row)
                changed.append((table, which, {name: getattr(row, name) for name in free}))
                new = {name: _shaped(shape, f"{table.name}.{name}.{number}", name) for name in free}
                transaction.execute(update(table).where(which).values(new))
    try:
        yield
    finally:
        with database.write() as transaction:
            for table, which, texts in changed:
                transaction.execute(update(table).where(which).values(texts))


def _texts(table: Table) -> list[str]:
    return [
        column.name
        for column in table.columns
        if isinstance(column.type, String)
        and column.name not in UNWRITTEN_COLUMNS
        and not column.primary_key
        and not column.foreign_keys
    ]


def _row(table: Table, row: Row[Any]) -> ColumnElement[bool]:
    return and_(*(column == getattr(row, column.name) for column in table.primary_key))


def _shaped(shape: str, label: str, name: str) -> str:
    text = shape.format(label)
    return f"https://{text}/" if name.endswith("url") else text
