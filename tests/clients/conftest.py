"""One running service for all of these tests: the demo, with a further account."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from transactional_messaging import Client

from app.launcher.screen import SEED
from tests.support.launched import PATIENT, ROOT, LaunchedService
from tests.support.nameserver import NameServer
from tests.support.servers import free_port, short_folder

LIBRARY = ROOT / "clients" / "python" / "src"
TOKEN = "tms_a-key-of-the-tests-of-the-client-library-0123456789"
POSTING = "tms_a-key-whose-account-has-the-webhooks-of-these-tests-01234"
LIMITED = "tms_a-key-with-a-rate-limit-for-the-tests-of-the-library"
SECRET = "the-secret-of-the-webhooks-of-these-tests-0123456789"
WEBHOOK_PORTS = (free_port(), free_port())
DEMO_TOKEN: str = yaml.safe_load(SEED.read_text("utf-8"))["accounts"][0]["keys"][0]["token"]

ACCOUNTS: list[dict[str, Any]] = [
    {
        "name": "Library",
        "owner_email": "owner@library.example",
        "owner_confirmed": True,
        "default_from": {"name": "Library", "address": "hello@library.example"},
        "domains": ["library.example"],
        "keys": [{"name": "backend", "access_level": "standard", "token": TOKEN}],
        "sms_senders": [{"address": "LIBRARY", "kind": "alphanumeric"}],
        "lists": [
            {
                "name": "Readers",
                "fields": [
                    {"name": "Email", "type": "Email"},
                    {"name": "Mobile", "type": "Mobile Phone"},
                    {"name": "First Name", "type": "First Name"},
                    {"name": "Born", "type": "Date of Birth"},
                    {"name": "Loans", "type": "Number"},
                ],
            }
        ],
        "messages": [
            {"name": "Reminder", "type": "email", "subject": "Hi %%first_name**reader%%", "from_name": "Library"}
            | {"from_address": "hello@library.example", "body_text": "Return %%title%%"}
        ],
        "automations": [
            {"name": "Greeting", "kind": "standard", "list": "Readers", "if": "first_name:EXACTLY:Nobody"}
            | {"trigger": "When a Contact is created from the REST API", "message": "Reminder"}
        ],
    },
    {
        # Nothing happens in it before the receivers run: webhooks that have failed wait ever longer.
        "name": "Posting",
        "owner_email": "owner@posting.example",
        "owner_confirmed": True,
        "default_from": {"name": "Posting", "address": "hello@posting.example"},
        "domains": ["posting.example"],
        "keys": [{"name": "backend", "access_level": "standard", "token": POSTING}],
        "lists": [{"name": "Readers", "fields": [{"name": "Email", "type": "Email"}]}],
        "webhooks": [
            {"url": f"http://127.0.0.1:{port}/webhooks", "secrets": [{"id": "k1", "secret": SECRET}]}
            for port in WEBHOOK_PORTS
        ],
    },
    {
        "name": "Limited",
        "owner_email": "owner@limited.example",
        "rate_limit": "2/second",
        "keys": [{"name": "backend", "access_level": "standard", "token": LIMITED}],
    },
]


@dataclass(frozen=True)
class Service:
    """The running service, and the ids of its account for these tests."""

    launched: LaunchedService
    name_server: NameServer
    list_id: int
    message_id: int
    automation_id: int

    def client(self, token: str = TOKEN) -> Client:
        """A client of the library."""
        return Client(token, self.launched.base)

    def flask(self, *arguments: str) -> Any:
        """What a command of the operator prints as JSON."""
        command = [sys.executable, "-m", "flask", "--app", "wsgi", *arguments, "--json"]
        done = subprocess.run(
            command, cwd=ROOT, env=self.launched.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def environment(self, token: str) -> dict[str, str]:
        """The environment of a program that uses the service."""
        ours = {"TMS_URL": self.launched.base, "TMS_KEY": token, "PYTHONPATH": str(LIBRARY)}
        return {**self.launched.environment, **ours}


def seed(launched: LaunchedService, file: Path) -> None:
    """Adds the account of these tests."""
    file.write_text(yaml.safe_dump({"accounts": ACCOUNTS}), "utf-8")
    command = [sys.executable, "-m", "flask", "--app", "wsgi", "seed", str(file), "--json"]
    done = subprocess.run(command, cwd=ROOT, env=launched.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    json.loads(done.stdout)


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    """The service as `make run` starts it."""
    settings = {"SEED": "", "WEBHOOK_ALLOW_PRIVATE": "on", "WEBHOOK_SPACING": "1", "RATE_LIMIT": "off"}
    with short_folder() as folder, NameServer() as name_server:
        launched = LaunchedService(folder, **PATIENT, **settings, DNS_RESOLVER=name_server.address)
        try:
            launched.start()
            seed(launched, folder / "library.yaml")
            with Client(TOKEN, launched.base) as client:
                first_items = [part.list().first() for part in (client.lists, client.messages, client.automations)]
            yield Service(launched, name_server, *(item["id"] for item in first_items if item is not None))
            launched.stop()
        finally:
            launched.clear()


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    """A client of the library with a standard key."""
    with service.client() as made:
        yield made
