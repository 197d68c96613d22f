"""An operator shares logs, metrics and error messages: none contains a key, a password, a body, a token of a link or
the address of a recipient, whatever goes wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import requests

from tests.attack.families.tokens import seen_by
from tests.attack.party import secret_of
from tests.attack.stage import GATEWAY_PASSWORD, KANNEL_PASSWORD, RELAY_PASSWORD, SECRET_KEY, SENDS, Stage
from tests.attack.tally import Case, case
from tests.chaos.sqlite_lock import locked
from tests.support.servers import wait_until
from tests.support.web import Line

TYPES = ("application/json", "text/plain", "application/xml", "multipart/form-data; boundary=x", "image/png")
MARK = "m4rk3d"
"""Stands in every value that no log may show."""


def attack(on: Stage) -> Iterator[Case]:
    """Everything goes wrong once; then all that was shown is searched."""
    refuse(on)
    go_wrong(on)
    with database_away(on):
        # Each of the many waits for the database as long as a request may.
        (ask_once if on.short else go_wrong)(on)
    wait_until(lambda: requests.get(f"{on.base}/readyz", timeout=60).status_code == 200, "the database is back")
    on.await_rest()
    marks = secrets_of(on)
    hidden = {**{name: marks[name] for name in HIDDEN}, "port of the relay": f"127.0.0.1:{on.relay.port}"}
    log = on.service.output()
    for name, secret in marks.items():
        yield case("log", secret not in log, f"{name}: {_around(log, secret)}")
    metrics = requests.get(f"{on.base}/metrics", timeout=60).text
    for name, secret in marks.items():
        yield case("metrics", secret not in metrics, f"{name}: {_around(metrics, secret)}")
    for answer in on.answers:
        secrets_shown = [name for name, secret in hidden.items() if secret in answer.text + str(answer.headers)]
        paths = re.findall(r"(?:/tmp/tms-|/root/|Traceback|File \"/)\S*", answer.text)
        told = paths if "/docs" not in str(answer.url) else []
        yield case(
            "answers", not secrets_shown and not told, f"{answer.url}: {secrets_shown} {told} {answer.text[:300]}"
        )
    yield from files(on, marks)
    yield from commands(on, marks)


HIDDEN = ("SECRET_KEY", "password of the relay", "password of Kannel", "secret of a webhook")
"""What is in no answer either; nor are hosts and ports of the installation."""


def secrets_of(on: Stage) -> dict[str, str]:
    """What nobody but its owner may see."""
    seen = seen_by(on, on.victim.domain)
    return {
        "SECRET_KEY": SECRET_KEY,
        "password of the relay": RELAY_PASSWORD,
        "password of the gateway": f":{GATEWAY_PASSWORD}@",
        "password of Kannel": KANNEL_PASSWORD,
        "secret of a webhook": secret_of(on.victim.name),
        "a key": on.victim.token,
        "a body": f"Text of {on.victim.name}",
        "a marked value": MARK,
        "the address of a recipient": on.victim.person,
        "a mobile number": "61411111111",
        **{f"the token of a link /{kind}": token for kind, token in seen.links.items()},
        "a return path": seen.return_path,
    }


def refuse(on: Stage) -> None:
    """A recipient whose address the relay repeats in its refusal."""
    body = on.victim.send(group_name="refused", recipients=[{"email": f"refused-{MARK}@v1ct1m-people.example"}])
    on.ask("POST", SENDS, on.victim.token, body=body)
    on.await_rest()


def ask_once(on: Stage) -> None:
    """A few requests with marks."""
    body = on.victim.send(body_text=MARK, recipients=[{"email": f"{MARK}@example.org", "first_name": MARK}])
    on.ask("POST", SENDS, on.victim.token, body=body, headers={"Idempotency-Key": MARK})
    for path in (f"/v1/{MARK}", f"/v1/lists?name={MARK}", f"/u/{MARK}", f"/c/{MARK}"):
        on.ask("GET", path, on.victim.token)


def go_wrong(on: Stage) -> None:
    """Requests that fail in every way, with marks wherever a client may write."""
    token, contacts = on.victim.token, f"/v1/lists/{on.victim.ids['list_id']}/contacts"
    for body in (
        on.victim.send(subject=MARK, recipients=[{"email": f"{MARK}@"}]),
        on.victim.send(body_text=MARK, recipients=[{"email": f"{MARK}@example.org", "first_name": {MARK: MARK}}]),
        on.victim.send(from_address=f"{MARK}@{MARK}.example"),
        on.victim.send(),
        {MARK: MARK},
        [MARK],
    ):
        on.ask("POST", SENDS, token, body=body)
        on.ask("POST", contacts, token, body=body)
    for kind in TYPES:
        for data in (MARK.encode(), b'{"a":"' + MARK.encode(), b"\xff" + MARK.encode(), b""):
            headers = {"Authorization": f"Bearer {token}", "Content-Type": kind, "Idempotency-Key": MARK}
            requests.post(on.base + SENDS, data=data, headers=headers, timeout=60)
    for path in (
        f"/v1/{MARK}",
        f"/v1/lists/{MARK}",
        f"/u/{MARK}",
        f"/c/{MARK}",
        f"/{MARK}",
        f"/v1/lists?{MARK}={MARK}",
        f"/inbound/postmark/{MARK}",
        f"/inbound/kannel/mo?secret={MARK}",
        f"/v1/lists?email={MARK}",
    ):
        for method in ("GET", "POST", "DELETE"):
            on.ask(method, path, token)
            on.ask(method, path, f"tms_{MARK}")
    for raw in (b"GET /%b HTTP/1.1\r\n%b\r\n\r\n", b"%b / HTTP/1.1\r\n\r\n", b"GET /u/%b HTTP/9\r\n\r\n"):
        with Line(on.service.port) as line:
            line.ask(raw.replace(b"%b", MARK.encode()))


@contextmanager
def database_away(on: Stage) -> Iterator[None]:
    """Nothing can be written to SQLite, and nobody may connect to PostgreSQL."""
    if on.database_url is None:
        with locked(on.service.data / "tms.sqlite3"):
            yield
        return
    url = on.database_url.replace("postgresql+psycopg://", "postgresql://")
    name = url.partition("?")[0].rpartition("/")[2]
    with psycopg.connect(url.replace(f"/{name}", "/postgres"), autocommit=True) as server:
        server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
        try:
            yield
        finally:
            server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")


def files(on: Stage, marks: dict[str, str]) -> Iterator[Case]:
    """Files in DATA_DIR other than the database: journals are gone when everything is written."""
    for path in sorted(on.service.data.rglob("*")):
        if path.is_file() and not path.name.startswith("tms.sqlite3"):
            content = path.read_bytes()
            secrets_shown = [name for name, secret in marks.items() if secret.encode() in content]
            yield case("files", not secrets_shown, f"{path.name}: {secrets_shown}")


def commands(on: Stage, marks: dict[str, str]) -> Iterator[Case]:
    """Command lines, which every user of the machine sees, and environments, since the secrets came in files."""
    for pid in on.service.pids():
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        secrets_shown = [name for name, secret in marks.items() if secret.encode() in line]
        kept = [name for name in HIDDEN if marks[name].encode() in environment]
        yield case("processes", not secrets_shown and not kept, f"{line!r}: {secrets_shown} {kept}")


def _around(text: str, secret: str) -> str:
    at = text.find(secret)
    return text[max(at - 300, 0) : at + 200] if at >= 0 else ""
