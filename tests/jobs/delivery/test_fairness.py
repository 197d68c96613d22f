"""Claims: which rows, in which order, at which cost (docs/waiting.md#fairness)."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

import pytest
from sqlalchemy import delete, event, select, text

from app.clock import now
from app.db.due import DueAccounts
from app.db.history_ranges import RANGES_AHEAD
from app.db.models import QueueEntry, Recipient
from app.db.queue import SEND_QUEUE
from app.recipients.states import FailReason
from app.sends.delivery.claim import claim, has_due, release_claims, renew_leases
from app.sends.delivery.drain import drain
from app.sends.delivery.limits import within_budget
from app.sends.delivery.load import load
from app.sends.delivery.recipient import ClaimedRecipient
from app.sends.delivery.sender_worker import INITIAL_BATCH_SIZE, AdaptiveBatchSize, sender_worker_of
from app.sends.outcomes.attempt_result import AttemptResult
from app.sends.outcomes.recovery import ExpiredLeases
from app.sends.outcomes.transitions import RetryRules
from app.sends.outcomes.write import write_outcomes
from app.services import Services
from app.transports.base import DeliveryResult
from tests.jobs.conftest import new_account
from tests.jobs.delivery.conftest import Changed, StartDrain
from tests.support.rows import Rows
from tests.support.servers import PATIENCE, wait_until
from tests.support.statements import StatementCounter
from tests.unit.transports.mailserver import MailServer


def addresses(count: int, prefix: str = "r") -> list[str]:
    return [f"{prefix}{number}@example.com" for number in range(count)]


def take(services: Services, size: int, after: int = 0, worker: str = "w") -> list[ClaimedRecipient]:
    with services.database.write() as transaction:
        return claim(transaction, worker, size=size, after=after)


@pytest.fixture
def accounts(worker: Services) -> list[Rows]:
    """Three accounts, in the order of their ids."""
    return [Rows(worker, new_account(worker)) for _ in range(3)]


def test_every_batch_contains_rows_of_all_accounts(accounts: list[Rows], worker: Services) -> None:
    """A backlog of one account leaves room for the others in every batch."""
    big, small, third = accounts
    backlog = big.add_send(addresses(300))
    reset = small.add_send(["ann@example.com"])
    few = third.add_send(addresses(5))
    claimed = take(worker, 90)
    assert [recipient.id for recipient in claimed[:6]] == [backlog[0], reset[0], few[0], backlog[1], few[1], backlog[2]]
    assert Counter(recipient.account_id for recipient in claimed) == {
        big.account_id: 30,
        small.account_id: 1,
        third.account_id: 5,
    }


def test_the_oldest_rows_of_an_account_are_claimed_first(rows: Rows, worker: Services) -> None:
    """Rows are claimed by due time, then in the order of acceptance."""
    late = rows.add_send(addresses(3), due_in=-10)
    later = rows.add_send(addresses(3), due_in=-5)
    latest = rows.add_send(addresses(3), due_in=-20)
    assert [recipient.id for recipient in take(worker, 7)] == [*latest, *late, later[0]]


def test_a_single_account_fills_a_batch(rows: Rows, worker: Services) -> None:
    """Fairness costs nothing while no other account has due rows."""
    rows.add_send(addresses(150))
    assert len(take(worker, 100)) == 100


def test_claims_go_round_robin_over_accounts(accounts: list[Rows], worker: Services) -> None:
    """If there are more accounts than rows in a batch, the next batch continues where the last one ended."""
    for account in accounts:
        account.add_send(addresses(5))
    first, second, third = (account.account_id for account in accounts)
    assert {recipient.account_id for recipient in take(worker, 2, after=0)} == {first, second}
    assert {recipient.account_id for recipient in take(worker, 2, after=second)} == {third, first}
    assert {recipient.account_id for recipient in take(worker, 2, after=first)} == {second, third}


def test_an_account_that_had_nothing_due_goes_before_its_turn(worker: Services) -> None:
    """The account goes first if a round over all accounts takes several claims. The others keep their turns."""
    crowd = [Rows(worker, new_account(worker)) for _ in range(8)]
    for account_rows in crowd:
        account_rows.add_send(addresses(10))
    latecomer = Rows(worker, new_account(worker))
    due, order = DueAccounts(SEND_QUEUE), []
    for turn in range(4):
        if turn in (1, 3):
            latecomer.add_send(["reset@example.com"])
        with worker.database.write() as transaction:
            claimed = claim(transaction, "w", size=4, after=due.last_account, due=due)
        order.append([recipient.account_id for recipient in claimed])
    ids = [account_rows.account_id for account_rows in crowd]
    assert (set(order[0]), set(order[1][1:]), set(order[2])) == (set(ids[:4]), set(ids[4:7]), {ids[7], *ids[:3]})
    assert (order[1][0], order[3][0]) == (latecomer.account_id, latecomer.account_id)


def test_a_password_reset_does_not_wait_for_a_backlog(
    accounts: list[Rows], make_worker: Changed, mail_server: MailServer, start_drain: StartDrain
) -> None:
    """Measured in messages, not in seconds: few messages of the backlog leave between its acceptance and its
    delivery."""
    big, small, _ = accounts
    big.add_send(addresses(400, "backlog"))
    worker = make_worker(send_connections=2)
    with mail_server.hold_answers(after=20):
        draining = start_drain(worker)
        wait_until(lambda: len(mail_server.mails) == 20, "the backlog is going out")
        (reset,) = small.add_send(["reset@example.com"])
        before = len(mail_server.mails)
    wait_until(lambda: small.states([reset]) == ["delivered"], "the reset is delivered")
    order = [mail.recipients[0] for mail in mail_server.mails]
    worker.stopping.set()
    draining.join(PATIENCE)
    assert order.index("reset@example.com") - before <= INITIAL_BATCH_SIZE + 10


@pytest.mark.usefixtures("hasty_rows")
def test_claimed_rows_that_find_no_connection_are_requeued(
    rows: Rows, make_worker: Changed, mail_server: MailServer, start_drain: StartDrain
) -> None:
    """Rows find no connection when a relay is slow. Later batches are smaller."""
    worker = make_worker(send_connections=1)
    ids = rows.add_send(addresses(50))
    with mail_server.hold_answers(after=1):
        draining = start_drain(worker)
        wait_until(lambda: sender_worker_of(worker).batch_size.size < 50, "batches are smaller")
        worker.stopping.set()
        wait_until(lambda: "queued" in rows.states(ids), "the rest is requeued")
    draining.join(PATIENCE)
    assert set(rows.states(ids)) == {"queued", "delivered"}
    assert {rows.recipient(number).attempts for number in ids} == {0, 1}


def test_the_batch_size_adapts() -> None:
    """The batch size halves while rows wait too long, down to one. It doubles after each full batch without such
    rows."""
    batch_size = AdaptiveBatchSize()
    sizes = []
    for _ in range(9):
        batch_size.shrink()
        sizes.append(batch_size.size)
        batch_size.record_claim(batch_size.size)
    assert sizes == [50, 25, 12, 6, 3, 1, 1, 1, 1]
    sizes = []
    for _ in range(10):
        batch_size.record_claim(batch_size.size)
        sizes.append(batch_size.size)
    assert sizes == [2, 4, 8, 16, 32, 64, 128, 256, 400, 400]
    batch_size.shrink()
    batch_size.record_claim(200)
    batch_size.record_claim(20)
    assert batch_size.size == 200


def test_two_workers_never_claim_the_same_row(rows: Rows, worker: Services) -> None:
    """Several workers claim at once, and every row goes to one of them."""
    rows.add_send(addresses(200))
    taken: list[list[ClaimedRecipient]] = [[], [], []]

    def claim_all(number: int) -> None:
        while claimed := take(worker, 7, worker=f"w{number}"):
            taken[number] += claimed

    threads = [threading.Thread(target=claim_all, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ids = [recipient.id for claimed in taken for recipient in claimed]
    assert len(ids) == len(set(ids))
    # A worker that finds every row locked by others stops early; the next sweep finds the rest.
    assert len(ids) + len(take(worker, 200)) == 200


def test_a_released_claim_is_undone(rows: Rows, worker: Services) -> None:
    """The row is due as before, and the attempt that was not made is not counted."""
    (ann,) = rows.add_send(["ann@example.com"])
    due_time = rows.recipient(ann).due_time
    take(worker, 1)
    assert rows.recipient(ann).attempts == 1
    with worker.database.write() as transaction:
        release_claims(transaction, "w", [ann])
    recipient = rows.recipient(ann)
    assert (recipient.state, recipient.attempts, recipient.due_time) == ("queued", 0, due_time)
    assert (recipient.worker, recipient.lease_time) == (None, None)


def test_only_the_owner_of_a_lease_releases_renews_and_writes_a_row(rows: Rows, worker: Services) -> None:
    """A worker that lost its lease changes nothing of the row."""
    (ann,) = rows.add_send(["ann@example.com"])
    take(worker, 1, worker="new")
    lease_time = rows.recipient(ann).lease_time
    attempt_result = AttemptResult(ann, 1, "ann@example.com", now(), DeliveryResult.accepted("250 ok"))
    with worker.database.write() as transaction:
        release_claims(transaction, "old", [ann])
        renew_leases(transaction, "old", [ann])
        assert write_outcomes(transaction, "old", [attempt_result], RetryRules(30, 60)) == []
    assert (rows.recipient(ann).state, rows.recipient(ann).lease_time) == ("sending", lease_time)


def test_a_result_of_an_earlier_attempt_is_ignored(rows: Rows, worker: Services) -> None:
    """The attempt number distinguishes a result in an old journal from one of a later attempt."""
    (ann,) = rows.add_send([{"email": "ann@example.com", "attempts": 1}])
    take(worker, 1)
    attempt_result = AttemptResult(ann, 1, "ann@example.com", now(), DeliveryResult.accepted("250 ok"))
    with worker.database.write() as transaction:
        assert write_outcomes(transaction, "w", [attempt_result], RetryRules(30, 60)) == []
    assert rows.states([ann]) == ["sending"]


def test_sweeps_find_due_rows_and_expired_leases(rows: Rows, worker: Services) -> None:
    """The two queries of the scheduler (jobs/schedule.py)."""

    def look() -> tuple[bool, bool]:
        with worker.database.read() as session:
            return has_due(session), bool(ExpiredLeases().workers(session))

    assert look() == (False, False)
    (ann,) = rows.add_send(["ann@example.com"], due_in=60)
    assert look() == (False, False)
    rows.make_due([ann])
    assert look() == (True, False)
    take(worker, 1)
    assert look() == (False, False)
    rows.change([ann], lease_time=now())
    assert look() == (False, True)


RESULTS = {
    "accepted": DeliveryResult.accepted("ok"),
    "refused": DeliveryResult.refused("no", "5.1.1"),
    "given up": DeliveryResult.deferred("later", "4.3.2"),
    "skipped": None,
}


@pytest.mark.parametrize("kind", ["email", "sms"])
@pytest.mark.parametrize("outcome", list(RESULTS))
def test_a_batch_costs_a_fixed_number_of_statements(rows: Rows, worker: Services, kind: str, outcome: str) -> None:
    """The number is the same for 2 and for 100 recipients (docs/development.md#fixed-number-of-statements). A single
    recipient needs two statements fewer, because its size is not checked."""
    rows.add_webhook()
    list_id = rows.add_list()
    for_one, for_two, for_many = (statements_of_a_batch(rows, list_id, kind, outcome, count) for count in (1, 2, 100))
    assert for_two == for_many
    assert for_one == [for_two[0], for_two[1] - 2, for_two[2]]


@pytest.mark.parametrize(
    ("needs", "selects"),
    [
        ((), 3),
        (("contact",), 4),
        (("files",), 4),
        (("links",), 4),
        (("secret",), 4),
        (("contact", "files", "links"), 6),
    ],
)
def test_data_that_no_message_of_a_batch_needs_is_not_loaded(
    rows: Rows, worker: Services, needs: Collection[str], selects: int
) -> None:
    """Every message needs its send, the suppressions, and the keys of its sending domain."""
    list_id = rows.add_list()
    contact_id = rows.add_contact(list_id, "a@example.com", None) if "contact" in needs else None
    files = [("a.txt", "text/plain", b"x")] if "files" in needs else []
    values = {"code": None if "secret" in needs else "1"}
    person = {"email": "a@example.com", "contact_id": contact_id, "values": values}
    rows.add_send([person], list_id=list_id, attachments=files, track_clicks="links" in needs)
    claimed = take(worker, 1)
    with worker.database.read() as session, StatementCounter(worker.database.engine) as counter:
        load(session, claimed, worker.settings)
    assert sum("SELECT" in statement for statement in counter.statements) == selects


@pytest.mark.both("each has its own plan")
def test_a_claim_reads_neither_the_whole_table_nor_all_due_rows(rows: Rows, worker: Services) -> None:
    """However many recipients there are."""
    rows.add_send(addresses(20_000))
    with worker.database.write() as transaction:
        transaction.execute(text("ANALYZE"))
    plan = plan_of_a_claim(worker)
    wrong = "Seq Scan on" if worker.database.is_postgresql else "SCAN"
    tables = tuple(f"{wrong} {name}" for name in ("send_queue", "recipients"))
    assert any("ix_send_queue_due" in line for line in plan), plan
    # Ranges made ahead have no rows to read.
    filled = [line for line in plan if not re.search("recipients_r[1-9]", line)]
    assert len(filled) >= len(plan) - 2 * RANGES_AHEAD, plan
    wrong_lines = [line for line in filled if line.strip().removeprefix("->  ").startswith(tables)]
    assert not [line for line in wrong_lines if "INDEX" not in line], plan


def test_an_entry_without_its_recipient_is_left_to_the_cleaning(rows: Rows, worker: Services) -> None:
    """A lease would make it ready anew each time it ends, and it would never be old enough to be deleted."""
    gone, stays = rows.add_send(addresses(2))
    with worker.database.write() as transaction:
        transaction.execute(delete(Recipient).where(Recipient.id == gone))
    assert [row.id for row in take(worker, 10)] == [stays]
    with worker.database.read() as session:
        left = select(QueueEntry.state, QueueEntry.attempts).where(QueueEntry.recipient_id == gone)
        assert session.execute(left).one() == ("queued", 0)


def plan_of_a_claim(services: Services) -> list[str]:
    """The execution plan of the database."""
    verb, column = ("EXPLAIN", 0) if services.database.is_postgresql else ("EXPLAIN QUERY PLAN", 3)
    engine = services.database.engine
    executed: list[tuple[str, Any]] = []

    def keep(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        executed.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", keep)
    try:
        take(services, 100)
    finally:
        event.remove(engine, "before_cursor_execute", keep)
    ((statement, parameters),) = [execution for execution in executed if "UPDATE send_queue" in execution[0]]
    with services.database.read() as session:
        explained = session.connection().exec_driver_sql(f"{verb} {statement}", parameters)
        return [str(row[column]) for row in explained]


def statements_of_a_batch(rows: Rows, list_id: int, kind: str, outcome: str, count: int) -> list[int]:
    """The statements that claim, load and write a batch whose recipients all have the same outcome."""
    people: list[dict[str, Any]] = []
    for number in range(count):
        email, mobile = f"{count}-{number}@example.com", f"614{count:03}{number:05}"
        contact_id = rows.add_contact(list_id, email, mobile)
        files = [("own.txt", "text/plain", b"own")]
        people.append({"email": email, "mobile": mobile, "contact_id": contact_id, "attachments": files})
    rows.add_send(people, type=kind, list_id=list_id, attachments=[("a.txt", "text/plain", b"x")])
    database, counts = rows.services.database, []

    def counting(work: Callable[[], Any]) -> Any:
        with StatementCounter(database.engine) as counter:
            result = work()
        counts.append(counter.count)
        return result

    claimed = counting(lambda: take(rows.services, 100))
    with database.read() as session:
        recipients = counting(lambda: load(session, within_budget(session, claimed), rows.services.settings))
    skip = FailReason.BLOCKED if outcome == "skipped" else None
    results = [
        AttemptResult(recipient.id, 1, recipient.address, now(), RESULTS[outcome], skip) for recipient in recipients
    ]
    with database.write() as transaction:
        made = counting(lambda: write_outcomes(transaction, "w", results, RetryRules(30, 0)))
    assert len(made) == count
    return counts


def test_a_batch_is_cut_at_the_memory_budget(rows: Rows, worker: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies and attachments of a batch are held in memory: rows beyond the budget are requeued; a single row may
    exceed it."""
    monkeypatch.setattr("app.sends.delivery.limits.MEMORY_BUDGET", 1000)
    big = ("big.bin", "application/octet-stream", b"x" * 600)
    shared = rows.add_send(addresses(3), attachments=[big], body_text="x", due_in=-20)
    own_ids = rows.add_send(
        [{"email": address, "attachments": [big]} for address in addresses(3)], body_text="x", due_in=-10
    )
    claimed = take(worker, 10)
    assert [recipient.id for recipient in claimed] == [*shared, *own_ids]
    with worker.database.read() as session:
        assert [recipient.id for recipient in within_budget(session, claimed)] == shared
        assert [recipient.id for recipient in within_budget(session, claimed[3:])] == own_ids[:1]
    with worker.database.write() as transaction:
        release_claims(transaction, "w", [recipient.id for recipient in claimed])
    drain(worker)
    assert set(rows.states([*shared, *own_ids])) == {"delivered"}
