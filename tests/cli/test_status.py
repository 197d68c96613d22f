"""`flask status`: the figures of the whole installation (docs/health.md#status)."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import orjson
import pytest
from flask import Flask
from sqlalchemy import delete, insert, text, update

from app.cli.status import status_of
from app.clock import now, this_second, timestamp
from app.db.models import Account, AutomationRun, Event, QueueEntry, Recipient, RecipientStep, RunningProcess, Webhook
from app.distribution import COMMAND_LINE
from app.events.outbox import contact_event
from app.http.context import EXTENSION
from app.maintenance import overview
from app.maintenance.figures import Figures, read_figures
from app.maintenance.overview import Postponement, notes_on_schema, read_put_off
from app.services import Services
from tests.cli.conftest import Cli
from tests.conftest import test_settings
from tests.support.apps import app_with
from tests.support.plans import StatementRecorder
from tests.support.prepared import migrated_file
from tests.support.rows import Rows
from tests.support.scraped import samples, scrape, value
from tests.support.tenants import Tenant


def delete_work_with_due_times(services: Services) -> None:
    """Messages and runs that other tests have left would fall due between two readings of the status."""
    with services.database.write() as transaction:
        for model in (QueueEntry, AutomationRun):
            transaction.execute(delete(model))


def test_it_counts_queued_work_of_all_accounts(bare: Cli, tenant: Tenant, other_tenant: Tenant) -> None:
    """The database is shared with other tests, so the differences are compared."""
    delete_work_with_due_times(tenant.services)
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
    mine.change(mine.add_send(["j@example.com"]), state="paused")
    mine.add(Webhook, url="https://held.example", creation_time=now(), due_time=now(), held_to=1)
    after = bare.json("status")
    assert {name: after[name] - before[name] for name in after if type(after[name]) is int} == {
        "due": 3,
        "deferred": 1,
        "in_flight": 3,
        "abandoned": 1,
        "uncertain": 1,
        "held": 1,
        "paused": 1,
        "relays_refusing": 0,
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
    delete_work_with_due_times(tenant.services)
    before = bare.json("status")
    for rows in (Rows(tenant.services, tenant.id), Rows(other_tenant.services, other_tenant.id)):
        rows.add_send(["a@example.com"])
        rows.change(rows.add_send(["b@example.com"]), state="sending", worker="one", lease_time=now())
        rows.change(rows.add_send(["c@example.com"]), state="uncertain", due_time=now() + timedelta(seconds=900))
        rows.add(Event, webhook_id=rows.add_webhook(), payload="{}")
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
        rows.change(unsure := rows.add_send(["c@example.com"]), state="uncertain", due_time=moment)
        rows.add(RecipientStep, recipient_id=unsure[0], time=since - timedelta(seconds=5), step="uncertain")
        payload = orjson.dumps(contact_event("created", contact_id=1, list_id=1, moment=since)).decode()
        rows.add(Event, webhook_id=webhook, payload=payload)
    with tenant.services.database.write() as transaction:
        transaction.execute(delete(Event).where(Event.account_id != tenant.id))
        transaction.execute(delete(AutomationRun))
        busy = status_of(read_figures(transaction, settings, moment=moment))
        for model in (Recipient, QueueEntry, Event):
            transaction.execute(delete(model))
        idle = status_of(read_figures(transaction, settings, moment=moment))
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


def test_it_shows_the_hosts_with_what_runs_there(tmp_path: Path) -> None:
    """A silent process counts only where no other one of its host is alive: then the host is lost."""
    with app_with(test_settings(tmp_path, DATABASE_URL=migrated_file(tmp_path / "tms.sqlite3"))) as app:
        services, moment = app.extensions[EXTENSION], this_second()
        old, cut = moment - timedelta(days=2), moment - timedelta(hours=2)
        rows = [
            ("a", "api", "1.1.0", moment, moment, 0.04),
            ("a", "webhooks,maintenance", "1.2.0", old, moment - timedelta(seconds=30), -2.46),
            ("a", "sends", "1.0.0", old - timedelta(days=1), moment - timedelta(minutes=3), 9.0),
            ("b", "sends", "1.1.0", old, cut, None),
            ("b", "api", "1.1.0", moment - timedelta(days=1), cut - timedelta(minutes=1), None),
        ]
        columns = ("host", "roles", "version", "start_time", "seen_time", "clock_difference")
        with services.database.write() as transaction:
            values = [dict(zip(columns, row, strict=True), name=str(number)) for number, row in enumerate(rows)]
            transaction.execute(insert(RunningProcess), values)
        cli = Cli(app)
        lost, live = cli.json("status")["hosts"]
        text = cli.text("status")
    assert lost == {
        **{"host": "b", "state": "lost", "roles": ["api", "sends"], "processes": 2, "releases": ["1.1.0"]},
        **{"since": timestamp(old), "seen": timestamp(cut), "clock_difference_seconds": None},
    }
    assert live == {
        **{"host": "a", "state": "live", "roles": ["api", "maintenance", "webhooks"], "processes": 2},
        **{"releases": ["1.1.0", "1.2.0"], "since": timestamp(old), "seen": timestamp(moment)},
        "clock_difference_seconds": -2.5,
    }
    assert "! the host b is lost: its last process fell silent 2 h" in text
    header, *lines = text.rpartition("\n\n")[2].splitlines()
    assert header.split() == [
        "HOST",
        "STATE",
        "ROLES",
        "PROCESSES",
        "RELEASES",
        "SINCE",
        "SEEN",
        "CLOCK",
        "DIFFERENCE",
        "SECONDS",
    ]
    assert [line.split()[:4] for line in lines] == [
        ["b", "lost", "api,", "sends"],
        ["a", "live", "api,", "maintenance,"],
    ]


def test_the_default_output_has_a_line_for_each_figure(bare: Cli) -> None:
    lines = bare.text("status").split("\n\n")[1].splitlines()
    figure_names = [name for name in bare.json("status") if name not in ("refusals", "hosts")]
    assert [line.partition(":")[0].replace(" ", "_") for line in lines] == figure_names


@pytest.mark.both("each has its own plan")
def test_the_queue_is_counted_by_one_statement_with_a_partial_index_for_each_state(services: Services) -> None:
    """The tables of a test are so small that PostgreSQL has to be kept from reading them."""
    verb = "EXPLAIN" if services.database.is_postgresql else "EXPLAIN QUERY PLAN"
    with StatementRecorder(services.database.engine) as recorder, services.database.read() as session:
        read_figures(session, services.settings)
    ((statement, parameters),) = (
        executed for executed in recorder.statements.items() if "FROM send_queue" in executed[0]
    )
    with services.database.write() as transaction:
        if services.database.is_postgresql:
            transaction.execute(text("SET LOCAL enable_seqscan = off"))
        rows = transaction.connection().exec_driver_sql(f"{verb} {statement}", parameters).all()
    plan = "\n".join(str(row[-1]) for row in rows)
    used = re.findall(r"(?:using|on) (?:INDEX )?ix_send_queue_(\w+)", plan, re.IGNORECASE)
    assert sorted(used) == ["held", "lease", "paused", "ready", "uncertain"], plan


def test_it_says_what_needs_attention(bare: Cli, tenant: Tenant) -> None:
    rows = Rows(tenant.services, tenant.id)
    rows.change(rows.add_send(["late@example.com"]), due_time=now() - timedelta(minutes=5), state="held")
    result = bare.run("status", "--check")
    assert result.exit_code == 1, result.output
    assert re.search(
        rf"^! held after a restore: \d+ email messages? \(TmsMessagesHeld: `{COMMAND_LINE} holds list`\)$",
        result.stdout,
        re.MULTILINE,
    )
    assert "all is well" not in result.stdout
    assert bare.run("status").exit_code == 0, "without --check the exit code says whether the command worked"


def test_top_shows_it_over_and_over(bare: Cli) -> None:
    output = bare.text("top", "--count", "2", "--interval", "0.1")
    assert output.count("per second on this host: ") == 2
    assert output.count("processes: ") == 2


def test_it_tells_what_relays_said_last_that_put_messages_off(
    bare: Cli, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which changes no exit code, and leaves out what no relay has deferred and what test accounts send. Rows of other
    tests are out of sight for the time of this one."""
    rows, moment = Rows(tenant.services, tenant.id), now()
    ids = rows.add_send(["a@example.com", "b@example.com", "c@example.com", "d@example.com"])
    later = {"state": "queued", "due_time": moment + timedelta(hours=1)}
    rows.change(ids[:3], attempts=1, **later)
    rows.change(ids[3:], **later)
    for recipient_id, transport, note in ((ids[0], None, "no connection to 192.0.2.1:25"), (ids[1], "relay", None)):
        step = {"step": "deferred", "detail": "451 later", "transport": transport, "note": note}
        rows.add(RecipientStep, recipient_id=recipient_id, time=moment, **step)
    with tenant.services.database.write() as transaction:
        transaction.execute(delete(QueueEntry).where(QueueEntry.account_id != tenant.id))
        replies = read_put_off(transaction, moment)
        transaction.execute(update(Account).where(Account.id == tenant.id).values(test_of=tenant.id))
        test_replies = read_put_off(transaction, moment)
        transaction.rollback()
    assert replies == [
        Postponement("default", 1, "no connection to 192.0.2.1:25"),
        Postponement("relay", 1, "451 later"),
    ]
    assert test_replies == []
    monkeypatch.setattr(overview, "MAX_MESSAGES", 1_000_000)  # other tests may have left many
    assert re.search(r"^- \d+ messages? deferred by transport relay, last reply: 451", bare.text("status"), re.M)


@pytest.fixture
def without_database(app: Flask, tmp_path: Path) -> Iterator[Cli]:
    """Commands of an installation whose database cannot be opened."""
    services: Services = app.extensions[EXTENSION]
    with app_with(services.settings, database_url=f"sqlite:///{tmp_path}") as away:
        yield Cli(away)


def test_a_database_that_does_not_answer_is_what_needs_attention(without_database: Cli) -> None:
    """The line names the section of the runbook, as that of every other finding does. The exit code is 1, because there
    are no figures."""
    result = without_database.run("status")
    assert result.exit_code == 1
    (line,) = [
        line_of_status
        for line_of_status in result.stdout.splitlines()
        if line_of_status.startswith("! the database does not answer")
    ]
    assert line.endswith(f"(TmsDatabaseDown: `{COMMAND_LINE} db current`)")
    assert without_database.run("status", "--json").stderr.startswith("Error: the database cannot be used: ")


def test_top_goes_on_without_a_database(without_database: Cli) -> None:
    """`top` is needed most when the database is away."""
    output = without_database.text("top", "--count", "2", "--interval", "0.1")
    assert output.count("! the database does not answer") == 2
    assert output.count("per second on this host: ") == 2


def test_a_schema_that_does_not_fit_is_named_before_any_table_of_it_is_read(app: Flask, tmp_path: Path) -> None:
    services: Services = app.extensions[EXTENSION]
    database = migrated_file(tmp_path / "old.sqlite3")
    with closing(sqlite3.connect(tmp_path / "old.sqlite3")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '0074'")
        connection.execute("DROP TABLE send_queue")
    with app_with(services.settings, database_url=database) as old:
        checked, as_json = Cli(old).run("status", "--check"), Cli(old).run("status", "--json")
        assert [value(scrape(old), name) for name in ("tms_database_up", "tms_events_waiting")] == [1, 0]
        assert [dict(key[1])["state"] for key in samples(scrape(old), "tms_schema_info")] == ["older"]
        assert samples(scrape(old), "tms_queue_entries") == {}
    assert (checked.exit_code, as_json.exit_code) == (1, 1)
    assert "! the database is at revision 0074, this version needs" in checked.stdout
    assert "Error: the database is at revision 0074, this version needs" in as_json.stderr


def test_a_newer_schema_is_told_though_nothing_is_wrong(app: Flask, tmp_path: Path) -> None:
    services: Services = app.extensions[EXTENSION]
    database = migrated_file(tmp_path / "new.sqlite3")
    with closing(sqlite3.connect(tmp_path / "new.sqlite3")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9000'")
    with app_with(services.settings, database_url=database) as newer:
        assert "- the schema is from a newer release, but this release works with it\n" in Cli(newer).text("status")


def test_pending_migrations_are_told_with_the_command() -> None:
    read: Figures = {"tms_schema_info": {("0044", "0045", "pending"): 1.0}}
    (note,) = notes_on_schema(read)
    assert note.startswith("migrations are pending, but not urgent: when all processes run this release")
    assert note.endswith("run `flask --app wsgi db upgrade --contract`")
