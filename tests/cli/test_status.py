"""`flask status`: the figures of the whole installation (docs/cli.md#status)."""

from __future__ import annotations

import re
from datetime import timedelta

import orjson
from sqlalchemy import delete, text, update

from app.clock import now, this_second
from app.db.models import Account, AutomationRun, Event, QueueEntry, Recipient, Webhook
from app.events.payloads import contact_event
from app.maintenance.status import figures, status
from app.services import Services
from tests.cli.conftest import Cli
from tests.support.rows import Rows
from tests.support.tenants import Tenant


def test_it_counts_queued_work_of_all_accounts(bare: Cli, tenant: Tenant, other_tenant: Tenant) -> None:
    """The database is shared with other tests, so the differences are compared."""
    before = bare.json("status")
    mine, theirs = Rows(tenant.services, tenant.id), Rows(other_tenant.services, other_tenant.id)
    mine.add_send(["a@example.com", "b@example.com"])
    theirs.add_send(["c@example.com"])
    theirs.add_send(["d@example.com"], due_in=600)
    held = mine.add_send(["e@example.com", "f@example.com", "g@example.com"])
    mine.change(held[:2], state="sending", worker="one", lease_time=now() + timedelta(seconds=90))
    mine.change(held[2:], state="sending", worker="gone", lease_time=now() - timedelta(seconds=1))
    mine.change(theirs.add_send(["h@example.com"]), state="uncertain", due_time=now() + timedelta(seconds=900))
    webhook = mine.add_webhook()
    mine.add(Event, webhook_id=webhook, payload="{}")
    mine.change(mine.add_send(["i@example.com"]), state="held")
    mine.add(Webhook, url="https://held.example", creation_time=now(), due_time=now(), held_to=1)
    after = bare.json("status")
    assert {name: after[name] - before[name] for name in after if not name.endswith("_seconds")} == {
        "due": 3,
        "deferred": 1,
        "in_flight": 3,
        "abandoned": 1,
        "uncertain": 1,
        "held": 1,
        "events_waiting": 1,
        "runs_waiting": 0,
        "runs_due": 0,
        "runs_late": 0,
        "runs_held": 0,
        "webhooks_in_flight": 0,
        "webhooks_held": 1,
        "test_due": 0,
        "test_in_flight": 0,
        "test_uncertain": 0,
        "test_events_waiting": 0,
    }


def test_it_tells_which_of_them_are_of_test_accounts(bare: Cli, tenant: Tenant, other_tenant: Tenant) -> None:
    with tenant.services.database.write() as transaction:
        transaction.execute(update(Account).where(Account.id == tenant.id).values(test_of=other_tenant.id))
    before = bare.json("status")
    for one in (Rows(tenant.services, tenant.id), Rows(other_tenant.services, other_tenant.id)):
        one.add_send(["a@example.com"])
        one.change(one.add_send(["b@example.com"]), state="sending", worker="one", lease_time=now())
        one.change(one.add_send(["c@example.com"]), state="uncertain", due_time=now() + timedelta(seconds=900))
        one.add(Event, webhook_id=one.add_webhook(), payload="{}")
    after = bare.json("status")
    names = ("due", "in_flight", "uncertain", "events_waiting")
    assert {name: after[name] - before[name] for name in names} == dict.fromkeys(names, 2)
    assert {name: after[f"test_{name}"] - before[f"test_{name}"] for name in names} == dict.fromkeys(names, 1)


def test_it_shows_the_waiting_time_of_the_oldest(tenant: Tenant) -> None:
    """In seconds, so that nobody has to query tables for it. What other tests have left has waited for a shorter
    time."""
    rows, settings, moment = Rows(tenant.services, tenant.id), tenant.services.settings, this_second()
    webhook = rows.add_webhook()
    for years in (3, 2):
        since = moment - timedelta(days=years * 365)
        rows.add_send(["a@example.com"], due_in=-years * 365 * 86_400.0 - 60, accepted=moment)
        rows.change(rows.add_send(["b@example.com"]), state="sending", worker="one", lease_time=moment, due_time=since)
        ends = since + timedelta(seconds=settings.uncertain_wait - 5)
        rows.change(rows.add_send(["c@example.com"]), state="uncertain", due_time=ends)
        payload = orjson.dumps(contact_event("created", contact_id=1, list_id=1, moment=since)).decode()
        rows.add(Event, webhook_id=webhook, payload=payload)
    with tenant.services.database.write() as transaction:
        transaction.execute(delete(Event).where(Event.account_id != tenant.id))
        transaction.execute(delete(AutomationRun))
        busy = status(transaction, settings, moment)
        for model in (Recipient, QueueEntry, Event):
            transaction.execute(delete(model))
        idle = status(transaction, settings, moment)
        transaction.rollback()
    age = 3 * 365 * 86_400.0
    assert {name: value for name, value in busy.items() if name.endswith("_seconds")} == {
        "due_oldest_seconds": age + 60,
        "in_flight_oldest_seconds": age,
        "uncertain_oldest_seconds": age + 5,
        "events_waiting_oldest_seconds": age,
        "runs_due_oldest_seconds": None,
    }
    assert {value for name, value in idle.items() if name.endswith("_seconds")} == {None}
    assert [idle[name] for name in ("due", "in_flight", "uncertain", "events_waiting")] == [0, 0, 0, 0]


def test_the_default_output_has_a_line_for_each_figure(bare: Cli) -> None:
    lines = bare.text("status").partition("\n\n")[2].splitlines()
    assert [line.partition(":")[0].replace(" ", "_") for line in lines] == list(bare.json("status"))


def test_each_figure_about_recipients_is_one_statement_with_a_partial_index(services: Services) -> None:
    """The tables of a test are so small that PostgreSQL has to be kept from reading them."""
    of_recipients = {name: one for name, one in figures(now()).items() if "FROM send_queue" in str(one)}
    assert list(of_recipients) == ["due", "deferred", "in_flight", "abandoned", "uncertain", "held"]
    verb = "EXPLAIN" if services.database.is_postgresql else "EXPLAIN QUERY PLAN"
    with services.database.write() as transaction:
        if services.database.is_postgresql:
            transaction.execute(text("SET LOCAL enable_seqscan = off"))
        for name, statement in of_recipients.items():
            compiled = statement.compile(services.database.engine, compile_kwargs={"literal_binds": True})
            rows = transaction.execute(text(f"{verb} {compiled}".replace(":", r"\:"))).all()
            assert any("ix_send_queue_" in str(row[-1]) for row in rows), (name, rows)


def test_it_says_what_needs_attention(bare: Cli, tenant: Tenant) -> None:
    rows = Rows(tenant.services, tenant.id)
    rows.change(rows.add_send(["late@example.com"]), due_time=now() - timedelta(minutes=5), state="held")
    result = bare.run("status", "--check")
    assert result.exit_code == 1, result.output
    assert re.search(r"^! \d+ of email are held after a restore \(.*#tmsmessagesheld\)$", result.stdout, re.MULTILINE)
    assert "all is well" not in result.stdout
    assert bare.run("status").exit_code == 0, "without --check the exit code says whether the command worked"


def test_top_shows_it_over_and_over(bare: Cli) -> None:
    shown = bare.text("top", "--count", "2", "--interval", "0.1")
    assert shown.count("a second, on this host: ") == 2
    assert shown.count("processes: ") == 2
