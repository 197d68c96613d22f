"""examples/python/provision.py sets up an account from nothing to its first mail, and can be run again without effect
(docs/management.md)."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

from transactional_messaging import Client

from tests.clients.conftest import Service
from tests.support.launched import ROOT

PROGRAM = ROOT / "examples" / "python" / "provision.py"
NOUNS = ("lists", "messages", "webhooks", "domains", "senders", "keys", "automations")
CHANGING = ("checked_time", "last_used_time", "waiting_events", "failures", "failing_since", "is_checked")
"""What use and checks change."""


def provision(service: Service, token: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A run of the program."""
    command = [sys.executable, str(PROGRAM), *map(str, arguments)]
    return subprocess.run(command, env=service.environment(token), capture_output=True, text=True, check=False)


def estate(manager: Client) -> dict[str, list[dict[str, Any]]]:
    """All that the account has, without what use changes."""
    parts = {noun: getattr(manager.management, noun) for noun in NOUNS}
    return {
        noun: [{name: value for name, value in item.items() if name not in CHANGING} for item in part.list()]
        for noun, part in parts.items()
    }


def test_an_account_is_provisioned_twice_with_one_result(service: Service, tmp_path: Path) -> None:
    run = uuid.uuid4().hex[:8]
    name, domain, secrets = f"Tenant {run}", f"{run}.example", tmp_path / "secrets.json"
    service.flask("accounts", "create", name, "--owner-email", f"owner@{domain}", "--owner-confirmed")
    token = service.flask("keys", "create", "deployment", "--level", "manager", "--account", name)["token"]
    arguments = domain, f"https://127.0.0.1/{run}", f"ann@{domain}", secrets

    without_records = provision(service, token, *arguments)
    assert (without_records.returncode, without_records.stderr) == (
        1,
        f"Publish the records of {domain}, and run this program again.\n",
    )
    with service.client(token) as manager:
        (item,) = manager.management.domains.list()
        assert (item["verified"], {record["state"] for record in item["records"]}) == (False, {"missing"})
        for record in item["records"]:
            service.name_server.texts[record["name"]] = [record["value"]]
        first = provision(service, token, *arguments)
        assert (first.returncode, first.stderr) == (0, "")
        kept, after_first = secrets.read_text("utf-8"), estate(manager)
        again = provision(service, token, *arguments)
        assert (again.returncode, again.stdout) == (0, first.stdout)
        assert (secrets.read_text("utf-8"), estate(manager)) == (kept, after_first)
    assert {noun: len(items) for noun, items in after_first.items()} == {
        **{"lists": 1, "messages": 1, "webhooks": 1, "domains": 1, "senders": 0, "keys": 1, "automations": 0}
    }
    with service.client(json.loads(kept)["token"]) as shop:
        (mail,) = shop.sends.list()
        assert (shop.sends.wait(mail["uuid"]).state, mail["email"]) == ("delivered", f"ann@{domain}")
    assert secrets.stat().st_mode & 0o777 == 0o600
    acts = [entry["action"] for entry in service.flask("audit", "list", "--account", name, "--limit", "100")]
    assert sorted(acts) == [
        *("account.created", "domain.created", "domain.verified", "key.created", "key.created", "list.created"),
        *("message.created", "webhook.created"),
    ]
