"""The history begins a range of ids each month, and a past month can be dropped
(docs/retention.md#dropping-a-month)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import ExceptionContext, delete, event, func, select, text
from sqlalchemy.orm import Session

from app.clock import now
from app.db import history_ranges
from app.db.bulk import insert_rows
from app.db.counters import GROUP_COUNTS, count
from app.db.history_ranges import RANGES_AHEAD, SPAN
from app.db.models import GroupCount, QueueEntry, Recipient, RecipientLabel, RecipientStep, Send
from app.errors import ServiceError
from app.maintenance import history, sweeps
from app.maintenance.history import drop_month, stored_months
from app.recipients.row import add_steps, step_row
from app.recipients.timeline import TimelineStep
from app.sends.delivery.claim import claim
from tests.cli.conftest import Cli
from tests.databases.running import Alone, alone
from tests.support.client import SENDS
from tests.support.databases import BACKENDS
from tests.support.races import meanwhile
from tests.support.servers import PATIENCE

JANUARY, FEBRUARY, MARCH = (datetime(2026, month, 10, tzinfo=UTC) for month in (1, 2, 3))


@pytest.fixture(scope="module")
def services_on_sqlite() -> Iterator[Alone]:
    with alone(None) as parts:
        yield parts


@pytest.fixture(scope="module")
def services_on_postgresql(postgres: str) -> Iterator[Alone]:
    with alone(postgres) as parts:
        yield parts


@pytest.fixture(params=BACKENDS)
def parts(request: pytest.FixtureRequest) -> Alone:
    return emptied(request.getfixturevalue(f"services_on_{request.param}"))


@pytest.fixture
def on_postgresql(services_on_postgresql: Alone) -> Alone:
    return emptied(services_on_postgresql)


def emptied(parts: Alone) -> Alone:
    """The services with an empty history."""
    with parts.services.database.write() as transaction:
        for model in (QueueEntry, RecipientStep, RecipientLabel, Recipient, Send, GroupCount):
            transaction.execute(delete(model))
    return parts


def add_settled(parts: Alone, moment: datetime) -> int:
    """A recipient of that time with a step."""
    recipient_id = parts.add_recipient(creation_time=moment, state="delivered", sent_time=moment)
    with parts.services.database.write() as transaction:
        add_steps(transaction, [step_row(parts.tenant.id, recipient_id, TimelineStep.SENT, None, moment)])
    return recipient_id


def add_months(parts: Alone) -> list[int]:
    """Recipients of January, of February and of now, the months as maintenance has begun them."""
    ids = []
    for moment in (JANUARY, FEBRUARY, now()):
        ids.append(add_settled(parts, moment))
        history.prepare(parts.services.database)
    return ids


def ids_of(parts: Alone, column: Any) -> list[int]:
    with parts.services.database.read() as session:
        return list(session.scalars(select(column).order_by(column)))


def months(parts: Alone) -> list[str]:
    with parts.services.database.read() as session:
        return [str(stored) for stored in stored_months(session)]


def range_starts(parts: Alone) -> list[int]:
    """The first ids of the ranges, from the range of new ids on."""
    with parts.services.database.read() as session:
        current = history_ranges.range_of_new_ids(session)
        assert current is not None
        return [id_range.first for id_range in history_ranges.id_ranges(session) if id_range.first >= current.first]


def this_month() -> str:
    return now().strftime("%Y-%m")


def test_each_month_has_a_range_of_its_own(parts: Alone) -> None:
    add_months(parts)
    assert months(parts) == ["2026-01", "2026-02", this_month()]


def test_a_month_begins_at_the_start_of_the_next_range(on_postgresql: Alone) -> None:
    first = range_starts(on_postgresql)[0]
    assert add_months(on_postgresql)[1:] == [first + SPAN, first + 2 * SPAN]


def test_maintenance_makes_ranges_ahead_and_changes_nothing_within_a_month(on_postgresql: Alone) -> None:
    last = add_months(on_postgresql)[-1]
    for _ in range(2):
        sweeps.clean(on_postgresql.services)
        assert range_starts(on_postgresql) == [last + number * SPAN for number in range(RANGES_AHEAD + 1)]
    assert add_settled(on_postgresql, now()) == last + 1


def test_two_processes_may_make_the_same_range(on_postgresql: Alone) -> None:
    """Maintenance runs on several hosts: the one that comes second waits, and finds the range made."""
    database, before = on_postgresql.services.database, range_starts(on_postgresql)
    number = before[-1] // SPAN
    with database.write() as transaction:
        for table in history_ranges.RANGE_KEYS:
            transaction.execute(text(f"DROP TABLE {table}_r{number}"))
    make = partial(history_ranges.make_ranges_ahead, database)
    with ExitStack() as after, database.write() as transaction:
        history_ranges._make(transaction, number)
        after.enter_context(meanwhile(on_postgresql.services, make))
    assert range_starts(on_postgresql) == before


def test_a_range_without_recipients_waits_for_its_month(on_postgresql: Alone) -> None:
    first = range_starts(on_postgresql)[0]
    add_settled(on_postgresql, JANUARY)
    for _ in range(3):
        history.prepare(on_postgresql.services.database)
    assert add_settled(on_postgresql, now()) == first + SPAN


def test_a_range_that_an_analyze_has_called_empty_begins_as_unknown(on_postgresql: Alone) -> None:
    add_settled(on_postgresql, JANUARY)
    with on_postgresql.services.database.write() as transaction:
        transaction.execute(text("ANALYZE"))
    history.prepare(on_postgresql.services.database)
    number = range_starts(on_postgresql)[0] // SPAN
    statement = f"SELECT reltuples FROM pg_class WHERE relname IN ('recipients_r{number}', 'recipient_steps_r{number}')"
    with on_postgresql.services.database.read() as session:
        assert list(session.scalars(text(statement))) == [-1, -1]


def test_recipients_are_accepted_and_settled_in_a_new_range(parts: Alone) -> None:
    add_months(parts)
    recipient_id = parts.add_recipient()
    with parts.services.database.write() as transaction:
        assert [months.id for months in claim(transaction, "w", size=10, after=0)] == [recipient_id]


def test_months_without_maintenance_stay_together(on_postgresql: Alone) -> None:
    for moment in (JANUARY, FEBRUARY, MARCH):
        add_settled(on_postgresql, moment)
    history.prepare(on_postgresql.services.database)
    add_settled(on_postgresql, now())
    assert months(on_postgresql) == ["2026-01 to 2026-03", this_month()]
    with pytest.raises(ServiceError) as refused:
        drop_month(on_postgresql.services, "2026-02")
    assert "2026-02 is stored together with 2026-01 to 2026-03" in refused.value.errors[0].developer_message
    month_range = Cli(on_postgresql.tenant.app).json("history", "show", "2026-02")
    assert (month_range["first_month"], month_range["last_month"], month_range["recipients"]) == (
        "2026-01",
        "2026-03",
        3,
    )
    drop_month(on_postgresql.services, "2026-03")
    assert months(on_postgresql) == [this_month()]


def test_a_dropped_month_leaves_the_other_months_and_the_counts(parts: Alone) -> None:
    ids = add_months(parts)
    with parts.services.database.write() as transaction:
        count(transaction, GROUP_COUNTS, parts.tenant.id, (1,), delivered=3)
    assert drop_month(parts.services, "2026-01").last == "2026-01"
    assert months(parts) == ["2026-02", this_month()]
    assert ids_of(parts, Recipient.id) == ids_of(parts, RecipientStep.recipient_id) == ids[1:]
    with parts.services.database.read() as session:
        assert session.scalar(select(func.sum(GroupCount.delivered))) == 3


def test_the_sends_of_a_dropped_month_are_cleaned(parts: Alone) -> None:
    add_months(parts)
    sends = ids_of(parts, Send.id)
    sweeps.clean(parts.services)
    assert ids_of(parts, Send.id) == sends
    drop_month(parts.services, "2026-01")
    sweeps.clean(parts.services)
    assert ids_of(parts, Send.id) == sends[1:]


def test_the_labels_of_a_dropped_month_are_cleaned(parts: Alone) -> None:
    """On PostgreSQL they are in no range, and no foreign key deletes them."""
    recipients = add_months(parts)
    with parts.services.database.write() as transaction:
        shared = {"account_id": parts.tenant.id, "creation_time": now()}
        rows = [{"recipient_id": each, "label": label} for each in recipients for label in ("tag:a", "tag:b")]
        insert_rows(transaction, RecipientLabel, rows, shared)
    drop_month(parts.services, "2026-01")
    sweeps.clean(parts.services)
    assert ids_of(parts, RecipientLabel.recipient_id) == [each for each in recipients[1:] for _ in range(2)]


def test_a_dropped_recipient_is_unknown_to_the_api(parts: Alone) -> None:
    gone, stays = str(uuid4()), str(uuid4())
    parts.add_recipient(uuid=gone, creation_time=JANUARY, state="delivered")
    history.prepare(parts.services.database)
    parts.add_recipient(uuid=stays, creation_time=now(), state="delivered")
    assert [parts.tenant.api.get(f"{SENDS}/{uuid}").status_code for uuid in (gone, stays)] == [200, 200]
    drop_month(parts.services, "2026-01")
    assert [parts.tenant.api.get(f"{SENDS}/{uuid}").status_code for uuid in (gone, stays)] == [404, 200]


def test_a_month_with_unsettled_recipients_is_not_dropped(parts: Alone) -> None:
    ids = [add_settled(parts, JANUARY), parts.add_recipient(creation_time=JANUARY)]
    history.prepare(parts.services.database)
    ids.append(add_settled(parts, now()))
    with pytest.raises(ServiceError) as refused:
        drop_month(parts.services, "2026-01")
    assert "2026-01 cannot be dropped: some of its recipients are not settled" in str(refused.value.errors)
    assert ids_of(parts, Recipient.id) == ids


def test_a_month_that_is_not_stored_is_refused(parts: Alone) -> None:
    add_months(parts)
    cli = Cli(parts.tenant.app)
    for month in ("2026-13", "january", "2026-1"):
        assert cli.refused("history", "drop-month", month) == f"{month!r} is not a month of the form 2026-03"
    for command in ("drop-month", "show"):
        assert cli.refused("history", command, "1999-01") == "month: nothing is stored of 1999-01"


def test_the_current_month_is_refused(parts: Alone) -> None:
    ids = add_months(parts)
    asked = Cli(parts.tenant.app).refused("history", "drop-month", this_month())
    assert asked == f"month: {this_month()} is not over yet"
    assert ids_of(parts, Recipient.id) == ids


def test_a_past_month_can_be_dropped_though_nothing_was_sent_since(parts: Alone) -> None:
    add_settled(parts, JANUARY)
    drop_month(parts.services, "2026-01")
    assert months(parts) == []
    add_settled(parts, now())
    assert months(parts) == [this_month()]


def test_recipients_that_are_accepted_while_a_month_is_dropped_stay(
    services_on_sqlite: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite deletes in chunks; PostgreSQL drops the month at once."""
    parts = emptied(services_on_sqlite)
    monkeypatch.setattr(history_ranges, "CHUNK", 1)
    old = [add_settled(parts, JANUARY) for _ in range(3)]
    new: list[int] = []
    is_looking = threading.Lock()

    def accept(*_: Any) -> None:
        """Accepts a message once the first chunk is committed."""
        if not new and is_looking.acquire(blocking=False):
            with parts.services.database.read() as session:
                has_begun = len(session.scalars(select(Recipient.id)).all()) < len(old)
            if has_begun:
                new.append(add_settled(parts, now()))
            is_looking.release()

    listening = parts.services.database.engine, "checkin", accept
    event.listen(*listening)
    try:
        drop_month(parts.services, "2026-01")
    finally:
        event.remove(*listening)
    assert ids_of(parts, Recipient.id) == new
    assert ids_of(parts, RecipientStep.recipient_id) == new


def test_a_claim_does_not_wait_behind_a_drop_that_waits_for_a_reader(on_postgresql: Alone) -> None:
    """A report that reads the history as long as it likes keeps the month from being dropped, and nobody else."""
    services = on_postgresql.services
    add_months(on_postgresql)
    due = on_postgresql.add_recipient()
    has_tried, dropped = threading.Event(), threading.Event()

    def drop() -> None:
        drop_month(services, "2026-01")
        dropped.set()

    def note_attempt(_context: ExceptionContext) -> None:
        has_tried.set()

    event.listen(services.database.engine, "handle_error", note_attempt)
    thread = threading.Thread(target=drop)
    with services.database.write() as reader:
        reader.execute(text("SELECT count(*) FROM recipients"))
        thread.start()
        assert has_tried.wait(PATIENCE)
        with services.database.write() as transaction:
            assert [recipient.id for recipient in claim(transaction, "w", size=10, after=0)] == [due]
        assert not dropped.is_set()
    thread.join(PATIENCE)
    event.remove(services.database.engine, "handle_error", note_attempt)
    assert dropped.is_set()
    assert months(on_postgresql) == ["2026-02", this_month()]


def test_a_range_that_is_dropped_while_the_ranges_are_read_is_left_out(on_postgresql: Alone) -> None:
    """The transaction still sees its row, but PostgreSQL no longer knows its bounds."""
    add_months(on_postgresql)
    database = on_postgresql.services.database
    with Session(database.engine.execution_options(isolation_level="REPEATABLE READ")) as earlier:
        earlier.execute(text("SELECT"))
        dropped = drop_month(on_postgresql.services, "2026-01").ids
        with database.read() as session:
            later_ranges = history_ranges.id_ranges(session)
        assert dropped.number not in [id_range.number for id_range in later_ranges]
        assert history_ranges.id_ranges(earlier) == later_ranges


def test_claims_are_the_same_before_and_after_a_drop(parts: Alone) -> None:
    """A connection that has prepared the statement claims the same messages, too."""
    add_months(parts)
    due = [parts.add_recipient() for _ in range(10)]

    def claimed() -> list[int]:
        with parts.services.database.write() as transaction:
            return [recipient.id for recipient in claim(transaction, "w", size=1, after=0)]

    before = [claimed() for _ in range(8)]
    drop_month(parts.services, "2026-01")
    assert before + [claimed() for _ in range(3)] == [*([recipient_id] for recipient_id in due), []]


def test_a_drop_that_never_gets_its_locks_says_so(on_postgresql: Alone, monkeypatch: pytest.MonkeyPatch) -> None:
    add_months(on_postgresql)
    monkeypatch.setattr(history_ranges, "PATIENCE_SECONDS", 0.0)
    with on_postgresql.services.database.write() as reader:
        reader.execute(text("SELECT count(*) FROM recipients"))
        with pytest.raises(ServiceError) as refused:
            drop_month(on_postgresql.services, "2026-01")
    assert "2026-01 cannot be dropped now: others have used the tables" in str(refused.value.errors)


def test_the_command_shows_the_months(parts: Alone) -> None:
    add_months(parts)
    rows = Cli(parts.tenant.app).json("history", "list")
    assert [(row["first_month"], row["last_month"], row["recipients"]) for row in rows] == [
        ("2026-01", "2026-01", 1),
        ("2026-02", "2026-02", 1),
        (this_month(), this_month(), 1),
    ]


def test_the_command_drops_a_month_after_a_confirmation(parts: Alone) -> None:
    cli = Cli(parts.tenant.app)
    add_months(parts)
    refused = cli.run("history", "drop-month", "2026-01", input="n\n")
    assert (refused.exit_code, months(parts)[0]) == (1, "2026-01")
    assert "2026-01: about 1 recipients of all accounts." in refused.stderr
    assert cli.run("history", "drop-month", "2026-01", input="y\n").stdout == "dropped 2026-01\n"
    assert cli.json("history", "drop-month", "2026-02", "--yes")["last_month"] == "2026-02"
    assert months(parts) == [this_month()]
    assert [act for act in cli.acts("object=history") if act[1]] == [("history.dropped", "history drop-month")] * 2
    assert cli.refused("history", "drop-month", "2026-02") == "month: nothing is stored of 2026-02"
