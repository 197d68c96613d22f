"""A relay that refuses everything, seen and repaired from `status` alone: nobody is blocked, and everything arrives
(docs/troubleshoot.md#a-relay-that-refuses-everything)."""

from __future__ import annotations

import re
import shlex
import sqlite3
import subprocess
from contextlib import closing

import requests

from tests.support.launched import PATIENT, ROOT, TOKEN, LaunchedService
from tests.support.servers import PATIENCE, short_folder, wait_until
from tests.unit.transports.mailserver import MailServer

REPLY = "554 5.7.1 Relay access denied"
SLOW = ("TmsRequestsSlow", "TmsHandoverSlow")
"""What a busy machine may bring about by itself, as may the messages that did leave late."""


def send(service: LaunchedService, *domains: str) -> None:
    """A send to one person of each domain."""
    recipients = [{"email": f"ann@{domain}.example"} for domain in domains]
    body = {"type": "email", "list_id": 1, "group_name": "Walk", "subject": "Hello", "body_text": "Hello"}
    answer = requests.post(
        f"{service.base}/v1/transactional-sends",
        json={**body, "from_name": "Acme", "from_address": "hello@acme.example", "recipients": recipients},
        headers={"Authorization": f"Bearer {TOKEN}"},
        timeout=PATIENCE,
    )
    assert answer.status_code == 202, answer.text


def flask(service: LaunchedService, *words: str) -> str:
    """What a command prints; a question is answered with yes."""
    command = [str(ROOT / ".venv" / "bin" / "flask"), "--app", "wsgi", *words]
    ran = subprocess.run(
        command, cwd=ROOT, env=service.environment, input="y\n", capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def findings(service: LaunchedService) -> list[str]:
    """What needs attention, but for what takes long."""
    lines = [line for line in flask(service, "status").splitlines() if line.startswith("! ")]
    return [line for line in lines if not any(alert in line for alert in SLOW)]


def states(service: LaunchedService) -> list[str]:
    """The states of all messages, the oldest first."""
    with closing(sqlite3.connect(service.data / "tms.sqlite3")) as database:
        return [state for (state,) in database.execute("SELECT state FROM recipients ORDER BY id").fetchall()]


def is_noticed(service: LaunchedService) -> bool:
    """Whether the relay counts as one that refuses everything."""
    with closing(sqlite3.connect(service.data / "tms.sqlite3")) as database:
        return bool(
            database.execute("SELECT noticed_time FROM relay_refusals WHERE noticed_time IS NOT NULL").fetchall()
        )


def skip_the_grace(service: LaunchedService) -> None:
    """Makes bulk actions due, as after the half minute in which they can be undone."""
    with closing(sqlite3.connect(service.data / "tms.sqlite3", timeout=PATIENCE)) as database, database:
        database.execute("UPDATE bulk_actions SET due_time = datetime('now')")


def test_a_relay_that_refuses_everything_is_mended_from_status_alone() -> None:
    with short_folder() as folder, MailServer() as relay:
        relay.always["RCPT"] = REPLY
        service = LaunchedService(folder, **PATIENT, EMAIL_TRANSPORT_URL=relay.url("?tls=none"), RETRY_DELAY="1")
        try:
            service.start()
            walk(service, relay)
        finally:
            service.clear()


def walk(service: LaunchedService, relay: MailServer) -> None:
    """Walks from the first refusal until nothing is refused any more."""
    for number, domain in enumerate(("a", "b"), 1):
        send(service, domain)
        wait_until(lambda: states(service) == ["bounced"] * number, "it has bounced")  # noqa: B023
    send(service, "c", "d", "e")
    wait_until(lambda: is_noticed(service), "it is noticed")
    (line,) = findings(service)
    assert line.startswith("! the transport default has refused all messages of Acme since "), line
    assert f", with: {REPLY}. Its messages wait, no address is blocked" in line
    listing, retrying = (shlex.split(command)[3:] for command in re.findall(r"`(flask [^`]+)`", line))
    assert len(re.findall(r"554 5\.7\.1", flask(service, *listing))) == 2
    relay.always.clear()
    flask(service, *retrying)
    skip_the_grace(service)
    wait_until(lambda: states(service) == ["delivered"] * 5, "everything arrives")
    assert sorted(mail.recipients[0] for mail in relay.mails) == [f"ann@{domain}.example" for domain in "abcde"]
    assert findings(service) == []
    assert flask(service, "suppressions", "list").strip() == "none"
