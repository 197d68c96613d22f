"""Positions in the tables of events: what a claim may pass, and what rotation may empty
(docs/decisions/018-events-in-rotating-tables.md)."""

from __future__ import annotations

import random
import re
import threading
from datetime import timedelta

import orjson
import pytest
from sqlalchemy import delete, func, select, text, update

from app.clock import now
from app.db.commit_order import LOW_BITS, id_near
from app.db.models import Event, EventRotation
from app.events import batches
from app.events.batch_contents import OLDEST_EVENTS
from app.events.batches import Batch
from app.events.endpoint import PostResult
from app.events.outbox import record
from app.events.redeliver import replay
from app.events.rotation import MAX_LAG, rotate_events
from app.events.webhooks import find_webhook
from app.services import Services
from tests.jobs.conftest import AddHook, Hook, new_account
from tests.support.servers import PATIENCE

PERIOD = timedelta(days=7)
"""RETAIN_EVENTS."""
URL, OTHER_URL = "http://127.0.0.1:1/in", "http://127.0.0.1:1/other"


def accepted(services: Services) -> list[int]:
    """Claims a batch and marks it accepted; returns the numbers of its events."""
    return took(services, batches.claim(services))


def took(services: Services, batch: Batch | None) -> list[int]:
    """Marks a batch accepted; returns the numbers of its events."""
    if batch is None:
        return []
    batches.record_delivered(services, batch, PostResult(200, "", now()))
    return [orjson.loads(payload)["n"] for payload in batch.payloads]


def failed(services: Services) -> Batch:
    """Claims a batch whose request fails."""
    batch = batches.claim(services)
    assert batch is not None
    batches.record_failed(services, batch, PostResult(500, "", now()))
    return batch


def kept(services: Services) -> list[int]:
    """The numbers of all events in the tables, in order."""
    with services.database.read() as session:
        payloads = session.scalars(select(Event.payload).order_by(Event.id))
        return [orjson.loads(payload)["n"] for payload in payloads]


@pytest.fixture
def empty(services: Services, account_id: int) -> None:
    """A database without events of other tests, which has just been rotated."""
    with services.database.write() as transaction:
        transaction.execute(delete(Event))
        transaction.execute(update(EventRotation).values(since_time=now()))


def let_pass(services: Services, age: timedelta) -> None:
    """Makes the last rotation that much older."""
    with services.database.write() as transaction:
        transaction.scalars(select(EventRotation)).one().since_time -= age


def rotate(services: Services, age: timedelta = PERIOD) -> bool:
    """Rotates if the last rotation is that old; returns whether the other table is written to now."""
    let_pass(services, age)
    slot = written_slot(services)
    rotate_events(services)
    return written_slot(services) != slot


def written_slot(services: Services) -> int:
    """The number of the table of events that is written to."""
    with services.database.read() as session:
        return session.scalars(select(EventRotation.slot)).one()


# ------------------------------------------------------------------------------------------------ order of commits


def test_an_event_that_is_committed_late_is_not_passed(services: Services, account_id: int, add_hook: AddHook) -> None:
    if not services.database.is_postgresql:
        return  # one writer at a time: this cannot happen
    hook = add_hook(URL)
    with services.database.write() as transaction:
        record(transaction, account_id, [{"n": 1}])
        hook.happen(2)
        assert batches.claim(services) is None
        record(transaction, account_id, [{"n": 3}])
    hook.set()
    assert accepted(services) == [1, 2, 3]
    assert hook.waiting == 0


def test_what_a_rollback_leaves_out_is_waited_for_no_longer(
    services: Services, account_id: int, add_hook: AddHook
) -> None:
    if not services.database.is_postgresql:
        return
    hook = add_hook(URL)
    with services.database.write() as transaction:
        record(transaction, account_id, [{"n": 1}])
        hook.happen(2)
        assert batches.claim(services) is None
        transaction.rollback()
    hook.set()
    assert accepted(services) == [2]


def test_a_batch_ends_before_an_open_transaction_and_keeps_its_events_after_it(
    services: Services, account_id: int, add_hook: AddHook
) -> None:
    if not services.database.is_postgresql:
        return
    hook = add_hook(URL)
    hook.happen(1)
    with services.database.write() as transaction:
        record(transaction, account_id, [{"n": 2}])
        hook.happen(3)
        first = failed(services)
    hook.set()
    repeated = batches.claim(services)
    assert repeated is not None
    assert (repeated.batch_id, repeated.payloads) == (first.batch_id, ['{"n":1}'])
    assert took(services, repeated) == [1]
    assert accepted(services) == [2, 3]


def test_an_open_transaction_holds_up_no_other_account(
    services: Services, account_id: int, other_id: int, add_hook: AddHook
) -> None:
    """No other account waits even if the webhook that must wait has been due for longest."""
    if not services.database.is_postgresql:
        return
    waiting, other = add_hook(URL), add_hook(OTHER_URL, account_id=other_id)
    with services.database.write() as transaction:
        record(transaction, account_id, [{"n": 1}])
        waiting.happen(2)
        other.happen(3)
        waiting.set(due_time=now() - timedelta(hours=1))
        assert accepted(services) == [3]
        assert accepted(services) == []


def test_concurrent_writers_lose_nothing_double_nothing_and_keep_their_order(
    services: Services, account_id: int, add_hook: AddHook
) -> None:
    hook = add_hook(URL)
    written: list[int] = []
    writers = [threading.Thread(target=write_events, args=(services, hook, writer, written)) for writer in range(4)]
    for writer in writers:
        writer.start()
    arrived: list[int] = []
    while any(writer.is_alive() for writer in writers):
        hook.set()
        arrived += accepted(services)
    hook.set()
    arrived += accepted(services)
    assert sorted(arrived) == sorted(written)
    for writer_number in range(4):
        own_numbers = [number for number in arrived if number // 1000 == writer_number]
        assert own_numbers == sorted(own_numbers)


def write_events(services: Services, hook: Hook, writer: int, written: list[int]) -> None:
    """Some transactions with events; one in five is rolled back."""
    draw = random.Random(writer)
    for first in range(writer * 1000, writer * 1000 + 100, 4):
        numbers = range(first, first + draw.randint(1, 3))
        with services.database.write() as transaction:
            for number in numbers:
                record(transaction, hook.account_id, [{"n": number}])
            if draw.random() < 0.2:
                transaction.rollback()
            else:
                written += numbers


@pytest.mark.parametrize("known_id", [0, 5, 2**31 - 1, 2**31, 2**40 + 3, 2**62])
def test_an_id_is_found_again_by_its_low_bits(known_id: int) -> None:
    for id_ in (known_id - 3, known_id, known_id + 3, known_id + 2**29):
        assert id_near(known_id, id_ & LOW_BITS) == id_


def test_a_plan_for_all_webhooks_does_not_sort_a_backlog(services: Services, account_id: int, empty: None) -> None:
    """PostgreSQL plans the statement once, without knowing how many events of a webhook wait."""
    if not services.database.is_postgresql:
        return
    with services.database.write() as transaction:
        transaction.execute(text(SCATTERED), {"account_id": account_id})
        transaction.execute(text("ANALYZE events"))
        sql = re.sub(
            r"%\((\w+)\)s", lambda match: {"webhook_id": "$1", "position": "$2", "most": "$3"}[match[1]], OLDEST
        )
        plan = transaction.connection().exec_driver_sql(f"EXPLAIN (GENERIC_PLAN) {sql}").scalars().all()
        transaction.rollback()
    assert len([line for line in plan if "Index Scan using ix_events_webhook" in line]) == 2, plan
    assert not any("Sort  " in line for line in plan), plan


OLDEST = OLDEST_EVENTS._compiled[0]
SCATTERED = (
    "INSERT INTO events (slot, account_id, webhook_id, payload) "
    "SELECT number % 2, :account_id, 9000 + number * 7919 % 10, repeat('x', 300) FROM generate_series(1, 30000) number"
)


# ------------------------------------------------------------------------------------------------ replay


def test_delivery_deletes_nothing_and_a_replay_moves_the_position_back(
    services: Services, account_id: int, add_hook: AddHook, empty: None
) -> None:
    hook, other = add_hook(URL), add_hook(OTHER_URL)
    hook.happen(1, 2, 3)
    assert accepted(services) == accepted(services) == [1, 2, 3]
    assert kept(services) == [1, 2, 3, 1, 2, 3]
    hook.happen(4)
    with services.database.write() as transaction:
        assert replay(transaction, find_webhook(transaction, account_id, URL), 2) == 2
    assert (hook.waiting, other.waiting) == (3, 1)
    other.set(due_time=now() + timedelta(hours=1))
    assert accepted(services) == [2, 3, 4]


def test_a_replay_reaches_back_as_far_as_events_are_kept(
    services: Services, account_id: int, add_hook: AddHook, empty: None
) -> None:
    hook = add_hook(URL)
    hook.happen(1)
    assert accepted(services) == [1]
    for webhook_url, moved in ((URL, 1), (URL, 0)):
        with services.database.write() as transaction:
            assert replay(transaction, find_webhook(transaction, account_id, webhook_url), 1000) == moved
    assert accepted(services) == [1]


def test_a_replay_while_a_request_is_in_flight_sends_its_events_again(
    services: Services, account_id: int, add_hook: AddHook, empty: None
) -> None:
    hook = add_hook(URL)
    hook.happen(1)
    assert accepted(services) == [1]
    hook.happen(2)
    batch = batches.claim(services)
    with services.database.write() as transaction:
        replay(transaction, find_webhook(transaction, account_id, URL), 1)
    assert took(services, batch) == [2]
    assert accepted(services) == [1, 2]


# ------------------------------------------------------------------------------------------------ rotation


def test_a_table_is_written_to_for_the_retention_and_its_events_are_kept_for_as_long_again(
    services: Services, add_hook: AddHook, empty: None
) -> None:
    hook = add_hook(URL)
    hook.happen(1)
    assert accepted(services) == [1]
    assert not rotate(services, PERIOD - timedelta(minutes=1))
    assert rotate(services)
    hook.happen(2)
    assert accepted(services) == [2]
    assert kept(services) == [1, 2]
    assert rotate(services)
    assert kept(services) == [2]
    assert rotate(services)
    assert kept(services) == []


def test_events_are_deleted_in_pieces_on_sqlite(
    services: Services, add_hook: AddHook, empty: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.commit_order.CHUNK", 2)
    hook = add_hook(URL)
    hook.happen(1, 2, 3, 4, 5)
    assert rotate(services)
    hook.happen(6)
    assert accepted(services) == [1, 2, 3, 4, 5, 6]
    assert rotate(services)
    assert kept(services) == [6]


def test_nothing_goes_while_a_webhook_has_not_passed_it(services: Services, add_hook: AddHook, empty: None) -> None:
    slow, quick = add_hook(URL), add_hook(OTHER_URL)
    slow.happen(1)
    assert rotate(services)
    slow.set(due_time=now() + timedelta(hours=1))
    assert accepted(services) == [1]
    assert not rotate(services, PERIOD + MAX_LAG - timedelta(minutes=1))
    slow.happen(2)
    slow.set()
    assert sorted([accepted(services), accepted(services)]) == [[1, 2], [2]]
    assert rotate(services)
    assert kept(services) == [2, 2]
    row = slow.row
    assert row is not None
    assert (row.dropped_events, slow.waiting, quick.waiting) == (0, 0, 0)


def test_what_a_webhook_has_not_passed_after_six_more_days_is_dropped_and_counted(
    services: Services, add_hook: AddHook, empty: None, caplog: pytest.LogCaptureFixture
) -> None:
    hook = add_hook(URL)
    hook.happen(1, 2)
    assert rotate(services)
    hook.happen(3)
    before = failed(services)
    assert rotate(services, PERIOD + MAX_LAG)
    row = hook.row
    assert row is not None
    assert (row.dropped_events, row.first_failed_time, hook.waiting) == (2, None, 1)
    assert f"webhook {hook.id}: dropped 2 events that have waited for too long" in caplog.messages
    hook.set()
    after = batches.claim(services)
    assert after is not None
    assert (after.payloads, len(before.payloads)) == (['{"n":3}'], 3)
    assert after.batch_id != before.batch_id


def test_an_event_that_a_slow_transaction_writes_to_the_older_table_is_not_lost(
    services: Services, account_id: int, add_hook: AddHook, empty: None
) -> None:
    if not services.database.is_postgresql:
        return
    hook = add_hook(URL)
    with services.database.write() as transaction:
        record(transaction, account_id, [{"n": 1}])
        assert rotate(services)
        assert not rotate(services), "it must wait for the transaction that has written to the table"
    assert not rotate(services, timedelta()), "the event waits"
    hook.set()
    assert accepted(services) == [1]
    assert rotate(services, timedelta())


def test_a_backup_that_reads_the_tables_puts_the_rotation_off(
    services: Services, add_hook: AddHook, empty: None
) -> None:
    if not services.database.is_postgresql:
        return
    add_hook(URL).happen(1)
    with services.database.write() as backup:
        assert backup.scalars(select(func.count()).select_from(Event)).one() == 1
        assert not rotate(services)
    assert rotate(services, timedelta())


def test_a_table_is_emptied_while_a_snapshot_is_held(services: Services, add_hook: AddHook, empty: None) -> None:
    """A long report of other tables keeps dead rows from the vacuum; a truncation leaves none."""
    if not services.database.is_postgresql:
        return
    hook = add_hook(URL)
    hook.happen(1)
    assert accepted(services) == [1]
    assert rotate(services)
    with services.database.write() as report:
        report.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
        report.execute(text("SELECT count(*) FROM accounts"))
        assert rotate(services)
        assert kept(services) == []


def test_two_cleaners_rotate_once(services: Services, add_hook: AddHook, empty: None) -> None:
    add_hook(URL).happen(1)
    let_pass(services, PERIOD)
    before = written_slot(services)
    both = [threading.Thread(target=rotate_events, args=(services,)) for _ in range(2)]
    for cleaner in both:
        cleaner.start()
    for cleaner in both:
        cleaner.join(PATIENCE)
    assert written_slot(services) == 1 - before
    assert kept(services) == [1]


def test_events_of_a_deleted_webhook_keep_nothing(
    services: Services, account_id: int, add_hook: AddHook, empty: None
) -> None:
    add_hook(URL, account_id=new_account(services)).happen(1)
    with services.database.write() as transaction:
        transaction.execute(text("DELETE FROM webhooks"))
    assert rotate(services)
    assert rotate(services)
    assert kept(services) == []
