"""Counters in slots: increments of concurrent transactions are added up, and these do not wait for each other
(docs/decisions/016-counters-in-slots.md)."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select, text

from app.clock import now
from app.db import counters
from app.db.counters import GROUP_COUNTS, count, count_in_group, hour_of
from app.db.database import Transaction
from app.db.models import Group, GroupCount, HourlyCount
from app.inbound.effect import Effect
from app.inbound.email.receive import receive_email
from app.services import Services
from app.tracking.tokens import return_path
from tests.support.mail_reports import delivery_failure
from tests.support.rows import FROM, Rows
from tests.support.statements import StatementCounter

MOMENT = datetime(2026, 1, 31, 10, 59, 59, 999_999, tzinfo=UTC)


@pytest.fixture
def rows(services: Services, account_id: int) -> Rows:
    """Rows of a new account."""
    return Rows(services, account_id)


def group_counts(rows: Rows, group_id: int) -> tuple[int, int, int]:
    """`sent`, `delivered` and `bounced` of a group."""
    with rows.services.database.read() as session:
        group = session.get_one(Group, group_id)
        return group.sent, group.delivered, group.bounced


def hours(rows: Rows) -> dict[tuple[int, datetime], tuple[int, int]]:
    """`delivered` and `bounced` of the account by group and hour."""
    summed = select(
        HourlyCount.group_id, HourlyCount.hour, func.sum(HourlyCount.delivered), func.sum(HourlyCount.bounced)
    ).where(HourlyCount.account_id == rows.account_id)
    with rows.services.database.read() as session:
        counts = session.execute(summed.group_by(HourlyCount.group_id, HourlyCount.hour))
        return {(group_id, hour): (int(delivered), int(bounced)) for group_id, hour, delivered, bounced in counts}


def test_what_a_transaction_counts_is_added_up(rows: Rows) -> None:
    first, other = rows.add_group(), rows.add_group()
    database = rows.services.database
    for _ in range(2):
        with database.write() as transaction:
            count_in_group(transaction, rows.account_id, first, MOMENT, delivered=1)
            count_in_group(transaction, rows.account_id, other, MOMENT, bounced=5)
            count_in_group(transaction, rows.account_id, first, MOMENT + timedelta(seconds=1), delivered=2, bounced=1)
            count_in_group(transaction, rows.account_id, other, MOMENT, bounced=-1)
    assert (group_counts(rows, first), group_counts(rows, other)) == ((0, 6, 2), (0, 0, 8))
    early, late = datetime(2026, 1, 31, 10, tzinfo=UTC), datetime(2026, 1, 31, 11, tzinfo=UTC)
    assert hours(rows) == {(first, early): (2, 0), (first, late): (4, 2), (other, early): (0, 8)}


def test_whatever_is_counted_takes_one_statement_at_the_end(rows: Rows) -> None:
    """On SQLite, which runs in the process, one for each kind."""
    groups, database = [rows.add_group() for _ in range(3)], rows.services.database
    with StatementCounter(database.engine) as counted:
        with database.write() as transaction:
            for number in range(100):
                moment = MOMENT + timedelta(hours=number % 2)
                count_in_group(transaction, rows.account_id, groups[number % 3], moment, delivered=1)
            transaction.execute(select(1))
            before = counted.count
        written = counted.statements[before:]
    assert len(written) == (1 if database.is_postgresql else 2)
    assert all("group_counts" in statement or "hourly_counts" in statement for statement in written)


def test_the_latest_time_counts(rows: Rows) -> None:
    group_id = rows.add_group()
    for hour in (1, 3, 2):
        with rows.services.database.write() as transaction:
            sent_time = datetime(2100, 1, 1, hour, tzinfo=UTC)
            count(transaction, GROUP_COUNTS, rows.account_id, (group_id,), sent=1, last_sent_time=sent_time)
            count(
                transaction, GROUP_COUNTS, rows.account_id, (group_id,), last_sent_time=sent_time - timedelta(hours=1)
            )
    with rows.services.database.write() as transaction:
        count(transaction, GROUP_COUNTS, rows.account_id, (group_id,), delivered=1)
    with rows.services.database.read() as session:
        group = session.get_one(Group, group_id)
        assert (group.sent, group.last_sent_time) == (3, datetime(2100, 1, 1, 3, tzinfo=UTC))


def test_what_is_rolled_back_counts_nothing(rows: Rows) -> None:
    group_id, database = rows.add_group(), rows.services.database
    with suppress(ZeroDivisionError), database.write() as transaction:
        count_in_group(transaction, rows.account_id, group_id, MOMENT, delivered=1)
        raise ZeroDivisionError
    with database.write() as transaction:
        count_in_group(transaction, rows.account_id, group_id, MOMENT, delivered=1)
        transaction.rollback()
        count_in_group(transaction, rows.account_id, group_id, MOMENT, bounced=1)
    assert group_counts(rows, group_id) == (0, 0, 1)


def test_an_increment_of_zero_writes_nothing(rows: Rows) -> None:
    group_id, database = rows.add_group(), rows.services.database
    with StatementCounter(database.engine) as counted, database.write() as transaction:
        count_in_group(transaction, rows.account_id, group_id, MOMENT, delivered=0)
        count_in_group(transaction, rows.account_id, group_id, MOMENT, bounced=1)
        count_in_group(transaction, rows.account_id, group_id, MOMENT, bounced=-1)
    assert counted.count == 0
    assert hours(rows) == {}


def slot_of(transaction: Transaction) -> int:
    """The slot that the transaction writes."""
    return int(transaction.scalar(text("SELECT pg_backend_pid()")) or 0) % counters.SLOTS


@pytest.mark.postgresql("SQLite has one writer")
def test_an_open_transaction_of_one_slot_does_not_hold_another_up(rows: Rows) -> None:
    """If there were a single row, the second transaction would wait until its statement times out."""
    database = rows.services.database
    group_id = rows.add_group()
    with ExitStack() as stack:
        by_slot: dict[int, Transaction] = {}
        while len(by_slot) < 2:
            transaction = stack.enter_context(database.write())
            by_slot.setdefault(slot_of(transaction), transaction)
        for transaction in by_slot.values():
            count_in_group(transaction, rows.account_id, group_id, MOMENT, delivered=1)
            transaction.write_last()
    assert group_counts(rows, group_id) == (0, 2, 0)
    with database.read() as session:
        slots = session.scalars(select(GroupCount.slot).where(GroupCount.group_id == group_id))
        assert set(slots) == set(by_slot)


def test_transactions_that_count_in_the_same_groups_do_not_deadlock(
    rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transactions may count in any order: rows are written in the order of their keys."""
    monkeypatch.setattr(counters, "SLOTS", 1)
    groups, database = [rows.add_group() for _ in range(20)], rows.services.database
    failed: list[Exception] = []

    def count_all(order: Iterable[int]) -> None:
        order = list(order)
        try:
            for _ in range(20):
                with database.write() as transaction:
                    for group_id in order:
                        count_in_group(transaction, rows.account_id, group_id, MOMENT, delivered=1)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=count_all, args=(order,)) for order in (groups, reversed(groups), groups)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert {group_counts(rows, group_id) for group_id in groups} == {(0, 60, 0)}


def test_a_late_bounce_is_taken_out_of_the_hour_of_the_delivery(rows: Rows) -> None:
    (ann,) = rows.add_send(["ann@example.com"])
    group_id, sent, before = rows.group_of(ann).id, now() - timedelta(hours=3), now()
    rows.change([ann], state="delivered", attempts=1, sent_time=sent.replace(microsecond=0))
    with rows.services.database.write() as transaction:
        count_in_group(transaction, rows.account_id, group_id, sent, delivered=1)
    report = delivery_failure(return_path(rows.services.settings, ann, FROM), "ann@example.com")
    assert receive_email(rows.services, report, (), patience=0).effect is Effect.RECORDED
    assert group_counts(rows, group_id) == (0, 0, 1)
    expected = [{(group_id, hour_of(sent)): (0, 0), (group_id, hour_of(end)): (0, 1)} for end in (before, now())]
    assert hours(rows) in expected


def test_an_hour_begins_at_its_first_minute() -> None:
    assert hour_of(MOMENT) == datetime(2026, 1, 31, 10, tzinfo=UTC)
