"""Per-domain back-off: mail of an account to a domain that defers it pauses (docs/retries.md#domain-back-off)."""

from __future__ import annotations

import math
from contextlib import ExitStack
from datetime import datetime, timedelta

import pytest
from sqlalchemy import select, update

from app.clock import now
from app.db.models import DomainBackoff
from app.sends.delivery.claim import claim
from app.sends.delivery.drain import drain
from app.sends.delivery.postponed import defer_backed_off
from app.sends.outcomes import domain_deferrals
from app.sends.outcomes.domain_deferrals import FAILURE_THRESHOLD, FIRST_LOOK, BackoffKey, is_domain_deferral
from app.services import Services
from app.transports.base import DeliveryResult, Untaken
from tests.jobs.delivery.conftest import Changed
from tests.support.races import meanwhile
from tests.support.rows import Rows
from tests.support.servers import free_port
from tests.support.statements import StatementCounter
from tests.unit.transports.mailserver import MailServer

SLOW_DOWN = "451 4.7.1 too much mail from you"
BUSY = "451 4.3.2 this mailbox is busy"


def backoffs(rows: Rows) -> dict[str, tuple[int, int]]:
    """Domain -> number of failures and minutes of the back-off: the power of two of which at least half is left."""
    with rows.services.database.read() as session:
        rows_found = session.scalars(select(DomainBackoff)).all()
    left = {row.domain: (row.until_time - now()).total_seconds() / 60 for row in rows_found}
    return {row.domain: (row.failures, _power_of_two(left[row.domain])) for row in rows_found}


def _power_of_two(least: float) -> int:
    return 2 ** math.ceil(math.log2(least)) if least > 0 else 0


def end_of_backoff(rows: Rows) -> datetime:
    with rows.services.database.read() as session:
        return session.scalars(select(DomainBackoff.until_time)).one()


def end_backoff(rows: Rows) -> None:
    with rows.services.database.write() as transaction:
        transaction.execute(update(DomainBackoff).values(until_time=now() - timedelta(seconds=1)))


@pytest.fixture
def deferred(rows: Rows, worker: Services, mail_server: MailServer) -> list[int]:
    """Recipients at a domain whose back-off has just begun."""
    mail_server.reply(".", *[SLOW_DOWN] * FAILURE_THRESHOLD)
    ids = rows.add_send([f"{number}@slow.example" for number in range(FAILURE_THRESHOLD)])
    drain(worker)
    return ids


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (DeliveryResult.deferred(SLOW_DOWN, "4.7.1"), True),
        (DeliveryResult.deferred("421 4.4.2 bad connection", "4.4.2"), True),
        (DeliveryResult.deferred(BUSY, "4.3.2"), False),
        (DeliveryResult.deferred("450 greylisted", "4.0.0"), False),
        (DeliveryResult.deferred("no connection to relay:25: refused", "4.4.1"), False),
        (DeliveryResult.deferred("535 5.7.8 wrong credentials", "4.7.8"), False),
        (DeliveryResult.deferred("454 4.7.0 authentication failure", "4.7.0", untaken=Untaken.TRANSPORT), False),
        (DeliveryResult.deferred("454 4.7.0 TLS not available", "4.7.0", untaken=Untaken.TRANSPORT), False),
        (DeliveryResult.deferred("421 4.7.0 too many connections", "4.7.0", untaken=Untaken.TRANSPORT), False),
        (DeliveryResult.deferred("450 4.7.1 rate limit exceeded", "4.7.1", untaken=Untaken.MESSAGE), False),
        (DeliveryResult.refused("550 5.7.1 no", "5.7.1"), False),
        (None, False),
    ],
)
def test_deferrals_with_a_network_or_policy_status_start_a_back_off(
    result: DeliveryResult | None, expected: bool
) -> None:
    assert is_domain_deferral(result) is expected


def test_other_recipients_of_the_domain_wait_without_an_attempt(
    rows: Rows, worker: Services, mail_server: MailServer, deferred: list[int]
) -> None:
    assert backoffs(rows) == {"slow.example": (FAILURE_THRESHOLD, 2)}
    contact = rows.add_contact(list_id := rows.add_list(), "Named@Slow.example")
    (next_one,) = rows.add_send(["next@SLOW.example"])
    (named,) = rows.add_send([{"contact_id": contact}], list_id=list_id)
    (elsewhere,) = rows.add_send(["ann@quick.example"])
    drain(worker)
    assert rows.states([next_one, named, elsewhere]) == ["queued", "queued", "delivered"]
    for waiting in (next_one, named):
        recipient = rows.recipient(waiting)
        assert (recipient.attempts, recipient.worker, rows.steps(waiting)) == (0, None, [])
        assert recipient.due_time == end_of_backoff(rows)
    assert [mail.recipients for mail in mail_server.mails] == [["ann@quick.example"]]


def test_a_back_off_of_one_sender_delays_no_other_sender(
    rows: Rows, other_id: int, worker: Services, mail_server: MailServer, deferred: list[int]
) -> None:
    """Another account with the same sending domain is not delayed, nor another sending domain of the same account."""
    (own_id,) = rows.add_send(["ann@slow.example"])
    (from_elsewhere,) = rows.add_send(["ann@slow.example"], from_address="hello@second.example")
    others = Rows(worker, other_id)
    (theirs,) = others.add_send(["ann@slow.example"])
    drain(worker)
    assert rows.states([own_id, from_elsewhere, theirs]) == ["queued", "delivered", "delivered"]
    assert backoffs(rows) == {"slow.example": (FAILURE_THRESHOLD, 2)}, "their deliveries do not end the back-off"


def test_two_deferred_senders_have_back_offs_of_their_own(
    rows: Rows, other_id: int, worker: Services, mail_server: MailServer, deferred: list[int]
) -> None:
    """Deferrals of different senders are not added up, and each back-off has its own probe."""
    mail_server.reply(".", SLOW_DOWN)
    Rows(worker, other_id).add_send(["ann@slow.example"])
    drain(worker)
    with worker.database.read() as session:
        counted = session.execute(select(DomainBackoff.account_id, DomainBackoff.failures)).all()
    assert sorted(map(tuple, counted)) == sorted([(rows.account_id, FAILURE_THRESHOLD), (other_id, 1)])


def test_workers_that_count_deferrals_at_the_same_time_lose_none(rows: Rows) -> None:
    database, key = rows.services.database, BackoffKey(rows.account_id, "acme.example", "slow.example")

    def count() -> None:
        with database.write() as transaction:
            domain_deferrals._count_failures(transaction, {key: 1})

    for expected in (2, 3):
        with ExitStack() as first:
            domain_deferrals._count_failures(first.enter_context(database.write()), {key: 1})
            with meanwhile(rows.services, count):
                first.close()
        assert backoffs(rows)["slow.example"][0] == expected
        end_backoff(rows)


def test_without_a_back_off_the_check_takes_at_most_two_selects(rows: Rows, worker: Services) -> None:
    contact = rows.add_contact(list_id := rows.add_list(), "named@quick.example")
    rows.add_send(
        [{"contact_id": contact}, *(f"{number}@quick{number}.example" for number in range(20))], list_id=list_id
    )
    with worker.database.write() as transaction:
        claimed = claim(transaction, "worker", size=50, after=0)
        with StatementCounter(worker.database.engine) as counted:
            assert defer_backed_off(transaction, "worker", claimed) == claimed
    assert (len(claimed), counted.count) == (21, 2)


def test_one_message_probes_after_the_back_off(
    rows: Rows, worker: Services, mail_server: MailServer, deferred: list[int]
) -> None:
    end_backoff(rows)
    mail_server.reply(".", SLOW_DOWN)
    rows.make_due(deferred)
    drain(worker)
    after = now()
    assert sorted(rows.recipient(recipient_id).attempts for recipient_id in deferred) == [1, 1, 2]
    assert backoffs(rows) == {"slow.example": (FAILURE_THRESHOLD + 1, 4)}, "the back-off doubles"
    waiting = [recipient_id for recipient_id in deferred if rows.recipient(recipient_id).attempts == 1]
    assert all(
        rows.recipient(recipient_id).due_time <= after + timedelta(seconds=FIRST_LOOK) for recipient_id in waiting
    )


def test_a_delivery_ends_the_back_off(
    rows: Rows, worker: Services, mail_server: MailServer, deferred: list[int]
) -> None:
    end_backoff(rows)
    rows.make_due(deferred)
    drain(worker)
    assert backoffs(rows) == {}
    rows.make_due([recipient_id for recipient_id in deferred if rows.recipient(recipient_id).state == "queued"])
    drain(worker)
    assert rows.states(deferred) == ["delivered"] * FAILURE_THRESHOLD


def test_a_delivery_between_deferrals_resets_their_count(rows: Rows, worker: Services, mail_server: MailServer) -> None:
    for _ in range(FAILURE_THRESHOLD - 1):
        mail_server.reply(".", SLOW_DOWN)
        rows.add_send(["ann@slow.example"])
        drain(worker)
    assert backoffs(rows) == {"slow.example": (FAILURE_THRESHOLD - 1, 0)}
    rows.add_send(["bob@slow.example"])
    drain(worker)
    assert backoffs(rows) == {}


def test_deferrals_of_one_recipient_or_of_our_relay_start_no_back_off(
    rows: Rows, worker: Services, make_worker: Changed, mail_server: MailServer
) -> None:
    mail_server.reply(".", *[BUSY] * 5)
    rows.add_send([f"{number}@slow.example" for number in range(5)])
    drain(worker)
    rows.add_send([f"{number}@slow.example" for number in range(5)])
    drain(make_worker(email_transport_url=f"smtp://127.0.0.1:{free_port()}"))
    assert backoffs(rows) == {}
