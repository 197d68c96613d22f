"""`flask webhooks`."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from sqlalchemy import func, select, update

from app.clock import now
from app.db.models import Event, List, Webhook, WebhookAttempt
from app.http.context import EXTENSION
from app.seed import load_seed
from app.settings import Settings
from tests.cli.conftest import Cli
from tests.support.apps import app_with
from tests.support.seeds import SECRET, write_seed
from tests.support.tenants import Tenant

URL = "https://hooks.example.com/in"


def test_webhooks_are_created_updated_and_deleted(cli: Cli, tenant: Tenant, customers: int) -> None:
    made = cli.json("webhooks", "create", URL)
    assert (made["url"], made["secret_id"], len(made["secret"])) == (URL, "k1", 43)
    tenant.new_contact(customers, email="ann@example.com")
    shown = cli.json("webhooks", "show", URL)
    creation_time = shown.pop("creation_time")
    assert shown == {
        "id": made["id"],
        "url": URL,
        "secrets": ["k1"],
        "pending_events": 1,
        "failures": 0,
        "dropped_events": 0,
        "next_try": None,
    }
    assert cli.json("webhooks", "list") == [{**shown, "creation_time": creation_time}]
    assert made["secret"] not in cli.text("webhooks", "show", str(made["id"]))
    assert cli.json("webhooks", "delete", str(made["id"])) == {"id": made["id"], "url": URL, "deleted": True}
    assert cli.refused("webhooks", "show", URL) == f"the account has no webhook '{URL}'"


def test_secrets_are_rotated_by_adding_and_removing(cli: Cli) -> None:
    cli.text("webhooks", "create", URL, "--secret-id", "2026", "--secret", SECRET)
    added = cli.json("webhooks", "rotate", URL)
    assert (added["secret_id"], len(added["secret"])) == ("k1", 43)
    assert cli.json("webhooks", "rotate", URL, "--secret-id", "2027", "--secret", SECRET)["secret"] == SECRET
    assert cli.refused("webhooks", "rotate", URL, "--secret-id", "2027").endswith("has a secret '2027' already")
    assert cli.json("webhooks", "show", URL)["secrets"] == ["2026", "k1", "2027"]
    assert cli.text("webhooks", "remove-secret", URL, "2026") == "removed secret 2026\n"
    cli.text("webhooks", "remove-secret", URL, "k1")
    assert cli.refused("webhooks", "remove-secret", URL, "2027").endswith("only secret of a webhook cannot be removed")


def test_a_replay_makes_accepted_events_wait_again(cli: Cli, tenant: Tenant, customers: int) -> None:
    cli.text("webhooks", "create", URL)
    for name in ("ann", "ben", "cid"):
        tenant.new_contact(customers, email=f"{name}@example.com")
    with tenant.services.database.write() as transaction:
        last = select(func.max(Event.id)).where(Event.account_id == tenant.id).scalar_subquery()
        transaction.execute(update(Webhook).where(Webhook.account_id == tenant.id).values(position=last))
    assert cli.json("webhooks", "show", URL)["pending_events"] == 0
    assert cli.text("webhooks", "replay", URL, "--last", "2") == "2 events wait again\n"
    assert cli.json("webhooks", "show", URL)["pending_events"] == 2
    assert cli.json("webhooks", "replay", URL, "--last", "9")["replayed"] == 1
    assert cli.run("webhooks", "replay", URL, "--last", "0").exit_code == 2


def test_dns_is_queried_before_the_transaction_that_writes(
    settings: Settings, tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both by the command and by the seed: the lookup may be slow, and all writers of SQLite would wait for it."""
    asked: list[str] = []

    def resolve(host: str, *_: object, **__: object) -> list[object]:
        with tenant.services.database.write() as transaction:
            transaction.execute(update(List).values(system=List.system))
        asked.append(host)
        return [(2, 1, 6, "", ("1.1.1.1", 0))]

    with app_with(settings, webhook_allow_private=False) as app:
        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        Cli(app, tenant.name).text("webhooks", "create", "https://one.example/in")
        load_seed(
            app.extensions[EXTENSION],
            write_seed(tmp_path / "seed.yaml", {"name": tenant.name, "webhooks": [{"url": "https://two.example/in"}]}),
        )
    assert asked == ["one.example", "two.example"]


def test_invalid_webhooks_are_reported(cli: Cli) -> None:
    assert cli.refused("webhooks", "create", "ftp://example.com").startswith("url: must begin with https://")
    assert cli.refused("webhooks", "create", URL, "--secret", "short").startswith("a signing secret has 32")
    cli.text("webhooks", "create", URL)
    assert cli.refused("webhooks", "create", URL) == f"url: the account has a webhook at {URL} already"


def test_deliveries_are_listed_newest_first(cli: Cli, tenant: Tenant) -> None:
    webhook_id = cli.json("webhooks", "create", URL)["id"]
    for status, outcome in ((500, "failed"), (204, "delivered")):
        tenant.add(
            WebhookAttempt,
            webhook_id=webhook_id,
            batch_id="b1",
            time=now(),
            events=3,
            status=status,
            outcome=outcome,
            detail=None,
            milliseconds=12,
        )
    shown = cli.json("webhooks", "deliveries", URL)
    assert [(one["status"], one["outcome"], one["events"]) for one in shown] == [
        (204, "delivered", 3),
        (500, "failed", 3),
    ]
    assert len(cli.json("webhooks", "deliveries", URL, "--limit", "1")) == 1
