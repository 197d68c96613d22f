"""`flask webhooks`."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from sqlalchemy import func, select, update

from app.clock import now
from app.db.models import Event, List, Webhook, WebhookAttempt
from app.http.context import EXTENSION
from app.seed.load import load_seed
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
    webhook = cli.json("webhooks", "show", URL)
    creation_time = webhook.pop("creation_time")
    assert webhook == {
        "id": made["id"],
        "url": URL,
        "events": "all",
        "lists": "all",
        "secrets": ["k1"],
        "pending_events": 1,
        "failures": 0,
        "dropped_events": 0,
        "held": False,
        "barred": None,
        "next_try": None,
    }
    assert cli.json("webhooks", "list") == [{**webhook, "creation_time": creation_time}]
    assert made["secret"] not in cli.text("webhooks", "show", str(made["id"]))
    assert cli.json("webhooks", "delete", str(made["id"])) == {"id": made["id"], "url": URL, "deleted": True}
    assert cli.refused("webhooks", "show", URL) == f"the account has no webhook '{URL}'"


def test_secrets_are_rotated_by_adding_and_removing(cli: Cli) -> None:
    cli.text("webhooks", "create", URL, "--secret-id", "2026", "--secret", SECRET)
    added = cli.json("webhooks", "rotate", URL)
    assert (added["secret_id"], len(added["secret"])) == ("k1", 43)
    assert cli.json("webhooks", "rotate", URL, "--secret-id", "2027", "--secret", SECRET)["secret"] == SECRET
    assert cli.refused("webhooks", "rotate", URL, "--secret-id", "2027").endswith("already has a secret '2027'")
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
    """The command and the seed both query DNS first. The lookup may be slow, and all writers of SQLite would wait for
    it."""
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
    assert cli.refused("webhooks", "create", URL) == f"url: the account already has a webhook at {URL}"


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
    deliveries = cli.json("webhooks", "deliveries", URL)
    assert [(delivery["status"], delivery["outcome"], delivery["events"]) for delivery in deliveries] == [
        (204, "delivered", 3),
        (500, "failed", 3),
    ]
    assert len(cli.json("webhooks", "deliveries", URL, "--limit", "1")) == 1


def test_events_and_lists_are_chosen(cli: Cli, tenant: Tenant, customers: int) -> None:
    options = ("--event", "contact.created", "--event", "sms", "--list", str(customers))
    cli.text("webhooks", "create", URL, *options)
    webhook = cli.json("webhooks", "show", URL)
    assert (webhook["events"], webhook["lists"]) == (["contact.created", "sms.received"], [customers])
    tenant.new_contact(tenant.add_list(), email="ann@example.com")
    contact = tenant.new_contact(customers, email="ann@example.com")
    tenant.api.delete(f"/v1/lists/{customers}/contacts/{contact['id']}")
    assert cli.json("webhooks", "show", URL)["pending_events"] == 1
    changed = cli.json("webhooks", "update", URL, "--event", "contact.deleted")
    assert (changed["events"], changed["lists"]) == (["contact.deleted"], [customers])
    assert cli.json("webhooks", "update", URL, "--all-events", "--all-lists") == {
        **changed,
        "events": "all",
        "lists": "all",
    }


def test_a_wrong_choice_is_refused(cli: Cli) -> None:
    refused = cli.refused("webhooks", "create", URL, "--event", "contact.flown")
    assert "there is no event 'contact.flown'; known: contact, recipient, sms, webhook, contact.created" in refused
    assert cli.json("webhooks", "list") == []
    assert cli.refused("webhooks", "create", URL, "--list", "Nobody") == "the account has no list 'Nobody'"
    cli.text("webhooks", "create", URL)
    both = cli.refused("webhooks", "update", URL, "--all-events", "--event", "sms")
    assert both == "use either --all-events or --event, and either --all-lists or --list"


def test_a_seed_chooses_events_and_lists(cli: Cli, tenant: Tenant, customers: int, tmp_path: Path) -> None:
    """A key that is absent changes nothing; null means all."""
    for given, events, lists in (
        ({"events": ["recipient.sent"], "lists": [str(customers)]}, ["recipient.sent"], [customers]),
        ({}, ["recipient.sent"], [customers]),
        ({"events": None}, "all", [customers]),
    ):
        file = write_seed(tmp_path / "seed.yaml", {"name": tenant.name, "webhooks": [{"url": URL, **given}]})
        load_seed(tenant.services, file)
        webhook = cli.json("webhooks", "show", URL)
        assert (webhook["events"], webhook["lists"]) == (events, lists)


def test_a_url_for_development_names_the_setting_that_allows_it(settings: Settings, tenant: Tenant) -> None:
    with app_with(settings, webhook_allow_private=False) as app:
        cli = Cli(app, tenant.name)
        for url in ("http://localhost:3000/in", "https://127.0.0.1/in"):
            assert "WEBHOOK_ALLOW_PRIVATE=on allows http and private addresses" in cli.refused(
                "webhooks", "create", url
            )
        assert "WEBHOOK_ALLOW_PRIVATE" not in cli.refused("webhooks", "create", "localhost")


def test_a_delivery_is_shown_and_sent_again(cli: Cli, tenant: Tenant, customers: int) -> None:
    webhook_id = cli.json("webhooks", "create", URL)["id"]
    tenant.new_contact(customers, email="ann@example.com")
    with tenant.services.database.write() as transaction:
        last = transaction.scalars(select(func.max(Event.id)).where(Event.account_id == tenant.id)).one()
        transaction.execute(update(Webhook).where(Webhook.id == webhook_id).values(position=last))
    ended = {"batch_id": "b-7", "time": now(), "events": 1, "status": 200, "outcome": "delivered", "detail": None}
    span = {"after_event": last - 1, "last_event": last, "answer": "fine\nthanks", "milliseconds": 9}
    delivery_id = str(tenant.add(WebhookAttempt, webhook_id=webhook_id, **ended, **span))
    delivery = cli.json("webhooks", "delivery", delivery_id)
    assert (delivery["answer"], delivery["batch_id"], delivery["status"]) == ("fine\nthanks", "b-7", 200)
    assert [(event["object"], event["event"]) for event in delivery["body"]["events"]] == [("contact", "created")]
    assert cli.json("webhooks", "delivery", "b-7") == delivery
    assert '"event": "created"' in cli.text("webhooks", "delivery", delivery_id)
    assert cli.text("webhooks", "redeliver", delivery_id) == "1 event waits again\n"
    assert cli.acts("action=webhook.redelivered") == [("webhook.redelivered", "webhooks redeliver")]
    assert cli.json("webhooks", "show", URL)["pending_events"] == 1
    assert cli.json("webhooks", "replay", URL, "--since", "2026-01-31")["replayed"] == 1
    assert cli.refused("webhooks", "replay", URL) == "use either --last or --since"
    assert cli.refused("webhooks", "replay", URL, "--since", "noon").startswith(
        "--since: 'noon' is not a date or a time"
    )


def test_a_test_event_waits_for_the_webhook(cli: Cli) -> None:
    cli.text("webhooks", "create", URL, "--event", "sms")
    assert f"a test event waits for {URL}" in cli.text("webhooks", "test", URL)
    assert cli.json("webhooks", "show", URL)["pending_events"] == 1
