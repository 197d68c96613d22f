"""What a scrape shows of an installation, on both databases: its figures, and messages on their way, those of test
accounts apart (docs/monitoring/metrics.md)."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete, insert, select, update

from app.accounts.testing import refreshed_test_account
from app.clock import now, timestamp
from app.db.models import (
    Account,
    AutomationRun,
    AutomationVersion,
    Event,
    QueueEntry,
    RecipientStep,
    RunningProcess,
    Webhook,
)
from app.infrastructure import heartbeat
from app.infrastructure.heartbeat import Heartbeat
from app.infrastructure.liveness import process_name
from app.infrastructure.sender_share import SenderShare
from app.maintenance import figures
from app.maintenance.figures import MAX_WORST, Figures, FiguresReader, Reading
from app.sends.delivery.drain import drain
from app.sends.delivery.sender_worker import close_sender_worker
from tests.databases.running import Alone, alone
from tests.support.automations import add_automation
from tests.support.databases import BACKENDS
from tests.support.plans import StatementRecorder
from tests.support.scraped import Samples, samples, scrape, value
from tests.support.sends import SendsApi
from tests.support.servers import PATIENCE, wait_until
from tests.support.tenants import Tenant, add_key, new_tenant

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
QUEUE, OLDEST = "tms_queue_entries", "tms_queue_oldest_seconds"


@pytest.fixture(scope="module", params=BACKENDS)
def installation(request: pytest.FixtureRequest) -> Iterator[Alone]:
    with alone(request.getfixturevalue("postgres") if request.param == "postgresql" else None) as services:
        yield services
        close_sender_worker(services.services)


@pytest.fixture
def idle_installation(installation: Alone) -> Alone:
    """An installation in which nothing is to be done, and no process has a heartbeat."""
    with installation.services.database.write() as transaction:
        for model in (QueueEntry, Event, Webhook, RunningProcess):
            transaction.execute(delete(model))
    return installation


def queue(idle_installation: Alone, name: str = QUEUE) -> dict[tuple[str, ...], float]:
    """The figures of the queue that are not 0."""
    figures = samples(scrape(idle_installation.tenant.app), name)
    labels = ("account_class", "type", "state")
    return {tuple(dict(key[1])[label] for label in labels): number for key, number in figures.items() if number}


def set_entries(idle_installation: Alone, **values: Any) -> None:
    with idle_installation.services.database.write() as transaction:
        transaction.execute(update(QueueEntry).values(**values))


def test_the_queue_is_counted_by_account_class_type_and_state(idle_installation: Alone) -> None:
    assert queue(idle_installation) == {}
    idle_installation.add_recipient(due_time=now() - HOUR, type="sms")
    idle_installation.add_recipient(due_time=now() - MINUTE)
    idle_installation.add_recipient(due_time=now() + HOUR)
    idle_installation.add_recipient(state="sending", due_time=now() - MINUTE, lease_time=now() + HOUR, worker="w")
    idle_installation.add_recipient(state="sending", due_time=now() - MINUTE, lease_time=now() - MINUTE, worker="w")
    unsure = idle_installation.add_recipient(state="uncertain", due_time=now() + MINUTE)
    for step, hours in (("deferred", 3), ("uncertain", 2), ("uncertain", 1)):
        idle_installation.tenant.add(RecipientStep, recipient_id=unsure, time=now() - hours * HOUR, step=step)
    live = new_tenant(idle_installation.tenant.app)
    test = Alone(
        idle_installation.services, idle_installation.redis, new_tenant(idle_installation.tenant.app, test_of=live.id)
    )
    test.add_recipient(due_time=now() - HOUR)
    states = ("due", "deferred", "in_flight", "abandoned", "uncertain")
    assert queue(idle_installation) == {
        ("live", "sms", "due"): 1,
        **{("live", "email", state): 1 for state in states},
        ("test", "email", "due"): 1,
    }
    oldest = queue(idle_installation, OLDEST)
    assert oldest["live", "sms", "due"] >= 3600
    assert 60 <= oldest["live", "email", "due"] < oldest["live", "sms", "due"]
    assert 7200 <= oldest["live", "email", "uncertain"] < 10_800, "since the first attempt without an answer"
    assert 60 <= oldest["live", "email", "in_flight"] < 3600
    assert 60 <= oldest["live", "email", "abandoned"] < 3600
    assert oldest["test", "email", "due"] >= 3600
    assert ("live", "email", "deferred") not in oldest


@pytest.mark.parametrize(("end", "hours_of_doubt"), [("sent", 2), ("bounced", 2), ("failed", 2), ("deferred", 30)])
def test_the_doubt_of_before_an_outcome_is_over(idle_installation: Alone, end: str, hours_of_doubt: int) -> None:
    """A retry goes on with the timeline. A deferral says nothing about an earlier attempt."""
    unsure = idle_installation.add_recipient(state="uncertain", due_time=now() + MINUTE)
    for step, hours in (("uncertain", 30), (end, 6), ("requeued", 5), ("uncertain", 2), ("uncertain", 1)):
        idle_installation.tenant.add(RecipientStep, recipient_id=unsure, time=now() - hours * HOUR, step=step)
    assert int(queue(idle_installation, OLDEST)["live", "email", "uncertain"]) // 3600 == hours_of_doubt


def test_scheduled_messages_are_not_in_the_queue_yet(idle_installation: Alone) -> None:
    idle_installation.add_recipient(state="scheduled", due_time=now() + HOUR)
    assert queue(idle_installation) == {}
    set_entries(idle_installation, state="queued", due_time=now() - HOUR)
    assert queue(idle_installation) == {("live", "email", "due"): 1}


def test_an_entry_without_a_type_is_counted_by_its_recipient(idle_installation: Alone) -> None:
    """The release before writes none; this one does."""
    idle_installation.add_recipient(type="sms")
    with idle_installation.services.database.read() as session:
        assert session.scalars(select(QueueEntry.type)).all() == [None]
    assert queue(idle_installation) == {("live", "sms", "due"): 1}
    set_entries(idle_installation, type="email")
    assert queue(idle_installation) == {("live", "email", "due"): 1}


def test_webhooks_are_shown_one_by_one_up_to_a_number(idle_installation: Alone) -> None:
    moment = now()
    ids = [
        idle_installation.tenant.add(Webhook, url=f"https://{n}.example/", creation_time=moment, due_time=moment)
        for n in range(12)
    ]
    for number, webhook_id in enumerate(ids[1:], 1):
        payload = f'{{"timestamp": "{timestamp(moment - number * HOUR)}"}}'
        idle_installation.tenant.add_all(Event, [{"webhook_id": webhook_id, "payload": payload} for _ in range(number)])
    with idle_installation.services.database.write() as transaction:
        transaction.execute(update(Webhook).where(Webhook.id == ids[5]).values(failures=1, lease_time=now()))
    figures = scrape(idle_installation.tenant.app)
    states = {state: value(figures, "tms_webhooks", state=state) for state in ("all", "behind", "failing", "in_flight")}
    assert states == {"all": 12, "behind": 11, "failing": 1, "in_flight": 1}
    assert value(figures, "tms_events_waiting") == sum(range(12))
    assert value(figures, "tms_events_oldest_seconds") >= 11 * 3600
    waiting = samples(figures, "tms_webhook_events_waiting")
    assert {dict(key[1])["webhook"]: number for key, number in waiting.items()} == {
        str(ids[number]): number for number in range(12 - MAX_WORST, 12)
    }
    oldest = samples(figures, "tms_webhook_oldest_seconds")
    hours = {dict(key[1])["webhook"]: int(age // 3600) for key, age in oldest.items()}
    assert hours == {str(ids[number]): number for number in range(12 - MAX_WORST, 12)}


def test_runs_of_automations_are_counted_by_state(idle_installation: Alone) -> None:
    moment = now()
    due_times = {"waiting": moment + HOUR, "due": moment, "late": moment - 2 * MINUTE, "held": moment}
    list_id = idle_installation.tenant.add_list("Runs")
    steps = {"kind": "advanced", "trigger": "REST API Contact Created", "steps": [{"name": "a day", "wait": "1 day"}]}
    automation_id = add_automation(
        idle_installation.services, idle_installation.tenant.id, list_id, {"name": "Runs", **steps}
    )
    with idle_installation.services.database.read() as session:
        criteria = AutomationVersion.automation_id == automation_id
        version_id = session.scalars(select(AutomationVersion.id).where(criteria)).one()
    shared = {"automation_id": automation_id, "version_id": version_id, "list_id": list_id, "entry_key": 0}
    for contact_id, (state, due_time) in enumerate(due_times.items(), 1):
        run_columns = {
            "contact_id": contact_id,
            "state": "held" if state == "held" else "waiting",
            "due_time": due_time,
        }
        idle_installation.tenant.add(AutomationRun, **shared, **run_columns, step="a day", trigger_time=moment)
    figures = scrape(idle_installation.tenant.app)
    run_counts = {state: value(figures, "tms_automation_runs", state=state) for state in due_times}
    assert run_counts == {"waiting": 1, "due": 2, "late": 1, "held": 1}


def process(idle_installation: Alone, name: str, roles: str, age: timedelta, **further: Any) -> None:
    """A row of a process whose main loop turned so long ago; keyword arguments are further columns."""
    row = {"name": name, "roles": roles, "host": "a", "version": "1", "start_time": now(), "seen_time": now() - age}
    row |= further
    with idle_installation.services.database.write() as transaction:
        transaction.execute(insert(RunningProcess).values(row))


def names(idle_installation: Alone) -> set[str]:
    with idle_installation.services.database.read() as session:
        return set(session.scalars(select(RunningProcess.name)))


def test_processes_are_live_silent_and_gone_by_their_heartbeats(idle_installation: Alone) -> None:
    process(idle_installation, "live", "webhooks,maintenance", timedelta(0))
    process(idle_installation, "silent", "webhooks", 3 * MINUTE)
    process(idle_installation, "gone", "sends", heartbeat.EXPIRY_AGE)
    beating = Heartbeat(
        idle_installation.services.database, ["scheduler"], time.monotonic, settings=idle_installation.services.settings
    )
    beating.write()
    beating.write()
    assert names(idle_installation) == {"live", "silent", process_name()}
    figures = scrape(idle_installation.tenant.app)
    numbers = {key[1]: number for key, number in samples(figures, "tms_processes").items() if number}
    assert numbers == {
        frozenset({("role", role), ("state", state)}): 1
        for role, state in (
            ("webhooks", "live"),
            ("webhooks", "silent"),
            ("maintenance", "live"),
            ("scheduler", "live"),
        )
    }
    assert value(figures, "tms_processes", role="sends", state="live") == 0
    assert value(figures, "tms_process_heartbeat_age_seconds", role="webhooks", host="a") < 180
    beating.delete()
    assert names(idle_installation) == {"live", "silent"}


def beat(idle_installation: Alone) -> None:
    """A process of this host writes a heartbeat, and ends."""
    services = idle_installation.services
    beating = Heartbeat(services.database, ["scheduler"], time.monotonic, settings=services.settings)
    beating.write()
    beating.delete()


def test_the_processes_of_a_lost_host_are_known_for_a_day(
    idle_installation: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They do not count as silent any more. Those of a host on which another one runs are gone after ten minutes."""
    process(idle_installation, "a-1", "api", timedelta(0))
    process(idle_installation, "a-2", "sends", 20 * MINUTE)
    process(idle_installation, "b-1", "sends", 20 * MINUTE, host="b")
    process(idle_installation, "b-2", "webhooks,maintenance", 15 * MINUTE, host="b")
    process(idle_installation, "c-1", "sends", 24 * HOUR, host="c")
    beat(idle_installation)
    assert names(idle_installation) == {"a-1", "b-1", "b-2"}
    figures = scrape(idle_installation.tenant.app)
    ages = samples(figures, "tms_host_heartbeat_age_seconds")
    assert {dict(key[1])["host"]: age // 60 for key, age in ages.items()} == {"a": 0, "b": 15}
    assert {key[1] for key, number in samples(figures, "tms_processes").items() if number} == {
        frozenset({("role", "api"), ("state", "live")})
    }
    monkeypatch.setattr(heartbeat, "MAX_LOST", 1)
    beat(idle_installation)
    assert names(idle_installation) == {"a-1", "b-2"}
    process(idle_installation, "b-3", "api", timedelta(0), host="b")
    beat(idle_installation)
    assert names(idle_installation) == {"a-1", "b-3"}


def test_a_process_that_sends_knows_the_others_by_their_heartbeats(idle_installation: Alone) -> None:
    """Those that are silent do not count, nor those that do not send."""
    for name, roles, age in (("a", "sends", 0), ("b", "sends,webhooks", 0), ("c", "webhooks", 0), ("d", "sends", 3)):
        process(idle_installation, name, roles, age * MINUTE)
    services, share = idle_installation.services, SenderShare()
    beating = Heartbeat(services.database, ["sends"], time.monotonic, settings=services.settings, share=share)
    beating.write()
    assert (share.connections(4), share.rate(30.0)) == (1, 10.0)
    beating.delete()


def test_a_heartbeat_is_as_old_as_the_last_turn_of_the_main_loop(idle_installation: Alone) -> None:
    """The age of a heartbeat is not that of the last time that its thread wrote it. A process that hangs falls
    silent."""
    beating = Heartbeat(
        idle_installation.services.database,
        ["sends"],
        lambda: time.monotonic() - 300,
        settings=idle_installation.services.settings,
    )
    beating.write()
    figures = scrape(idle_installation.tenant.app)
    assert value(figures, "tms_processes", role="sends", state="silent") == 1
    assert value(figures, "tms_processes", role="sends", state="live") == 0
    (age,) = samples(figures, "tms_process_heartbeat_age_seconds").values()
    assert age >= 300


def test_a_heartbeat_is_written_by_its_thread_and_deleted_at_an_orderly_end(
    idle_installation: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "STOP_SECONDS", PATIENCE)
    before = names(idle_installation)
    beating = Heartbeat(idle_installation.services.database, ["inbound"], settings=idle_installation.services.settings)
    beating.start()
    wait_until(lambda: len(names(idle_installation)) == len(before) + 1, "it is written")
    beating.stop()
    assert names(idle_installation) == before


def test_the_clock_of_a_host_differs_as_much_as_its_farthest_process_says(idle_installation: Alone) -> None:
    """Processes that are silent, or have compared nothing, do not count."""
    for name, host, age, difference in (
        ("a-1", "a", timedelta(0), -30.25),
        ("a-2", "a", timedelta(0), 1.5),
        ("b-1", "b", 3 * MINUTE, 30),
        ("c-1", "c", timedelta(0), None),
    ):
        process(idle_installation, name, "sends", age, host=host, clock_difference=difference)
    measured = samples(scrape(idle_installation.tenant.app), "tms_clock_difference_seconds")
    assert {dict(key[1])["host"]: seconds for key, seconds in measured.items()} == {"a": -30.25}


@pytest.mark.both("SQLite has no clock of its own")
def test_a_heartbeat_compares_the_clocks_unless_the_database_has_none_of_its_own(idle_installation: Alone) -> None:
    """The first one, which adds the row, has nothing to write yet."""
    services = idle_installation.services
    beating = Heartbeat(services.database, ["sends"], time.monotonic, settings=services.settings)
    differences: list[float | None] = []
    for _ in range(2):
        beating.write()
        with services.database.read() as session:
            differences += session.scalars(select(RunningProcess.clock_difference)).all()
    beating.delete()
    assert differences[0] is None
    assert (differences[1] is None) is not services.database.is_postgresql
    assert abs(differences[1] or 0.0) < 1


def test_figures_read_no_history(idle_installation: Alone) -> None:
    """A scrape reads a recipient only for the type of a queue entry that has none, and a timeline only for the first
    attempt of an uncertain one. Of the sends of an account it reads only the next one to be purged. The number of
    recipients and sends does not matter to it."""
    idle_installation.add_recipient()
    set_entries(idle_installation, type="email")
    with StatementRecorder(idle_installation.services.database.engine) as recorder:
        scrape(idle_installation.tenant.app)
    read = " ".join(recorder.statements)
    for column in ("recipients.id", "recipient_steps.recipient_id"):
        read = read.replace(f"FROM {column.partition('.')[0]} \nWHERE {column} = send_queue.recipient_id", "")
    assert "send_queue" in read
    first = r"FROM sends \n(WHERE \(sends\.account_id, sends\.id\) > [^\n]*)\n LIMIT"
    assert len(re.findall(first, read)) == 1
    read = re.sub(first, "", read)
    assert [table for table in ("recipients", "recipient_steps", "sends", "contacts") if f"FROM {table}" in read] == []
    assert len(recorder.statements) < 20


def test_a_wake_up_of_a_queue_without_one_is_counted_as_added(idle_installation: Alone) -> None:
    queue_label = {"queue": "maintenance"}
    before = scrape(idle_installation.tenant.app)
    for _ in range(2):
        idle_installation.services.wake_ups.wake("maintenance")
    after = scrape(idle_installation.tenant.app)
    results = {result: {**queue_label, "result": result} for result in ("added", "waiting", "failed")}
    name = "tms_wake_ups_total"
    grown = {key: value(after, name, **labels) - value(before, name, **labels) for key, labels in results.items()}
    assert grown == {"added": 1, "waiting": 1, "failed": 0}


def test_however_many_scrapers_come_figures_are_read_once_at_a_time(
    idle_installation: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figures are not read again within the least interval."""
    monkeypatch.setattr(figures, "WAIT_SECONDS", 0.0)
    monkeypatch.setattr(figures, "MIN_INTERVAL", 20 * PATIENCE)
    reader, gate, readings = FiguresReader(idle_installation.services), threading.Event(), list[str]()

    def hanging(*_: Any) -> dict[str, Any]:
        readings.append(threading.current_thread().name)
        gate.wait(PATIENCE)
        return {}

    monkeypatch.setattr(figures, "read_figures", hanging)
    assert [reader.latest() for _ in range(5)] == [None] * 5
    gate.set()
    wait_until(lambda: reader._running is None, "it ends")
    latest = [reader.latest() for _ in range(5)]
    assert [reading is not None and reading.database_up for reading in latest] == [True] * 5
    assert readings == ["figures"]


def test_a_scrape_does_not_wait_for_figures_that_took_longer_than_it_waits(
    idle_installation: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scrape takes the same time however much work is left. The next one after the reading shows its figures."""
    monkeypatch.setattr(figures, "WAIT_SECONDS", 2 * PATIENCE)
    reader, gate = FiguresReader(idle_installation.services), threading.Event()
    before = reader._latest = Reading({}, time.monotonic(), 3 * PATIENCE, database_up=True, redis_up=True)

    def hanging(*_: Any) -> Figures:
        gate.wait(PATIENCE)
        return {"tms_events_waiting": {(): 5.0}}

    monkeypatch.setattr(figures, "read_figures", hanging)
    assert reader.latest() is before
    assert reader._running is not None, "the reading goes on"
    gate.set()
    wait_until(lambda: reader._running is None, "it ends")
    assert (reader.latest() or before).figures == {"tms_events_waiting": {(): 5.0}}


def test_account(tenant: Tenant) -> Tenant:
    """The test account of this one."""
    with tenant.services.database.write() as transaction:
        test = refreshed_test_account(transaction, transaction.get_one(Account, tenant.id))
        made = Tenant(tenant.app, test.id, test.name, tenant.domain)
    made.tokens["standard"] = add_key(made, "standard")
    return made


test_account.__test__ = False  # type: ignore[attr-defined]

COUNTED = {
    "tms_accepted_recipients_total": {},
    "tms_handover_seconds_count": {},
    "tms_recipient_outcomes_total": {"outcome": "sent"},
}


def counted(scraped: Samples, account_class: str) -> dict[str, float]:
    """The counts of mails of that class."""
    labels = {"type": "email", "account_class": account_class}
    return {name: value(scraped, name, **labels, **further) for name, further in COUNTED.items()}


def difference(before: Samples, after: Samples, account_class: str) -> dict[str, float]:
    first, second = counted(before, account_class), counted(after, account_class)
    return {name: second[name] - first[name] for name in COUNTED}


def replies_of_transport(scraped: Samples) -> float:
    return value(scraped, "tms_transport_replies_total", type="email", transport="default", reply="accepted")


def test_a_mail_is_counted_from_its_acceptance_to_its_outcome(idle_installation: Alone) -> None:
    app, tenant = idle_installation.tenant.app, new_tenant(idle_installation.tenant.app)
    sends = SendsApi(tenant)
    before = scrape(app)
    sends.send(sends.email())
    drain(tenant.services)
    after = scrape(app)
    assert difference(before, after, "live") == dict.fromkeys(COUNTED, 1)
    assert counted(after, "test") == counted(before, "test")
    assert replies_of_transport(after) - replies_of_transport(before) == 1


def test_messages_of_test_accounts_are_counted_apart_and_by_no_transport(idle_installation: Alone) -> None:
    app, tenant = idle_installation.tenant.app, new_tenant(idle_installation.tenant.app)
    live = SendsApi(tenant)
    assert live.list_id
    test = test_account(tenant)
    before = scrape(app)
    SendsApi(test).send(live.email())
    drain(tenant.services)
    after = scrape(app)
    assert difference(before, after, "test") == dict.fromkeys(COUNTED, 1)
    assert counted(after, "live") == counted(before, "live")
    assert replies_of_transport(after) == replies_of_transport(before)
