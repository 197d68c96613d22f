"""The examples do the same twelve tasks in every language, and the receivers of webhooks take what the service posts
(docs/clients.md#examples)."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import requests
from transactional_messaging import Client

from tests.clients.conftest import DEMO_TOKEN, POSTING, SECRET, WEBHOOK_PORTS, Service
from tests.support.launched import ROOT
from tests.support.servers import PATIENCE, wait_until

EXAMPLES = ROOT / "examples"
COMMANDS = {
    "python": (sys.executable, EXAMPLES / "python" / "first_steps.py"),
    "javascript": ("node", EXAMPLES / "javascript" / "first_steps.mjs"),
    "php": ("php", EXAMPLES / "php" / "first_steps.php"),
    "curl": ("sh", EXAMPLES / "curl" / "first_steps.sh"),
}
NEEDED = {
    "javascript": ("node", "-e", "if (!globalThis.fetch) process.exit(1)"),
    "php": ("php", "-r", "exit(function_exists('curl_init') && PHP_VERSION_ID >= 80100 ? 0 : 1);"),
    "curl": ("curl", "--fail-with-body", "--version"),
}
"""Succeeds if the interpreter is there and has what the example needs."""
OUTPUT = textwrap.dedent("""\
    1 the key may send email: yes
    2 the list Customers has the id N
    3 created ann-RUN@example.com
    4 the plan of Ann is gold
    5 read N of N contacts
    6 accepted 1 email
    7 accepted 2 emails
    8 accepted 1 text message
    9 the email is delivered; sent 1, delivered 1
    10 refused: invalid_email_address in recipients[1].email
    11 found 1 email with the invoice
    12 the reminder is failed: cancelled
    """)


def is_there(language: str) -> bool:
    command = NEEDED.get(language)
    if command is None:
        return True
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def counted(output: str) -> tuple[int, int]:
    match = re.search(r"read (\d+) of (\d+)", output)
    assert match is not None, output
    return int(match[1]), int(match[2])


@pytest.mark.parametrize("language", COMMANDS)
def test_the_first_tasks(language: str, service: Service) -> None:
    if not is_there(language):
        pytest.skip(f"the example in {language} is left out: there is no {NEEDED[language][0]} that can run it")
    done = subprocess.run(
        COMMANDS[language], env=service.environment(DEMO_TOKEN), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    read, all_of_them = counted(done.stdout)
    assert read == all_of_them > 20
    masked = re.sub(r"ann-[0-9a-f]{8}@", "ann-RUN@", re.sub(r"id \d+|\d+ of \d+", mask, done.stdout))
    assert masked == OUTPUT


def test_the_suppression_list_of_another_provider_is_imported(service: Service, tmp_path: Path) -> None:
    """Twice; what is no address is left out and said. Rows may be shorter or longer than the header, and the reply of a
    mail server is a bounce, whatever its words are."""
    bounces, others = tmp_path / "bounces.csv", tmp_path / "others.csv"
    bounces.write_text("Email,Created\nerin@example.com,2026-01-31\nnobody,2026-01-31\n", "utf-8-sig")
    rows = [
        *("email,Reason", "finn@example.com,SpamComplaint", "gus@example.com,ManualSuppression", "hal@example.com"),
        *("ida@example.com,550 5.7.1 rejected as spam,a,b", "jo@example.com,smtp;5.7.1 unsubscribed", ""),
    ]
    others.write_text("\n".join(rows), "utf-8")
    command = sys.executable, EXAMPLES / "python" / "import_suppressions.py", bounces, others
    for _ in range(2):
        environment = service.environment(DEMO_TOKEN)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "bounces.csv: 1 suppressions\nothers.csv: 5 suppressions\n"), (
            done.stderr
        )
        assert done.stderr.startswith("bounces.csv: left out nobody: ")
    with Client(environment["TMS_KEY"], environment["TMS_URL"]) as client:
        stored = {(item.email, item.state, item.reason) for item in client.suppressions.list()}
    assert stored >= {
        ("erin@example.com", "blocked", "permanent bounce"),
        ("finn@example.com", "blocked", "complaint"),
        ("gus@example.com", "unsubscribed", None),
        *((f"{name}@example.com", "blocked", "permanent bounce") for name in ("hal", "ida", "jo")),
    }


def mask(match: re.Match[str]) -> str:
    return re.sub(r"\d+", "N", match[0])


@contextmanager
def running(script: Path, port: int, service: Service, log: Path) -> Iterator[str]:
    """Runs a receiver; yields its address."""
    environment = {**service.environment(DEMO_TOKEN), "TMS_WEBHOOK_SECRETS": f"an old one,{SECRET}"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, script, str(port)], env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield f"http://127.0.0.1:{port}/webhooks"
    finally:
        process.terminate()
        process.wait(PATIENCE)


def test_both_receivers_take_the_events_of_a_send(service: Service, tmp_path: Path) -> None:
    names = ("webhook_flask", "webhook_wsgi")
    logs = [tmp_path / f"{name}.log" for name in names]
    started = [
        running(EXAMPLES / "python" / f"{name}.py", port, service, log)
        for name, port, log in zip(names, WEBHOOK_PORTS, logs, strict=True)
    ]
    with started[0] as flask_url, started[1] as wsgi_url:
        for url in (flask_url, wsgi_url):
            wait_until(partial(refuses, url), f"{url} refuses what is not signed")
        email = f"{uuid.uuid4().hex}@example.com"
        with service.client(POSTING) as client:
            (readers,) = client.lists.list()
            client.sends.create(
                type="email",
                list_id=readers.id,
                group_name="Posted",
                subject="Hi",
                from_name="Posting",
                body_text="Hello",
                recipients=[{"email": email}],
            )
        for log in logs:
            wait_until(partial(has, log, f"recipient sent {email}\n"), f"{log.name} has the event")


def refuses(url: str) -> bool:
    """Whether the receiver runs, and answers 401 to what nobody has signed."""
    try:
        return requests.post(url, b"{}", headers={"Service-Signature": "x"}, timeout=PATIENCE).status_code == 401
    except requests.ConnectionError:
        return False


def has(log: Path, line: str) -> bool:
    return line in log.read_text("utf-8")
