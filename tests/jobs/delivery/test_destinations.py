"""A domain that puts off what an account sends there is given time as a whole (docs/delivery.md)."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from sqlalchemy import select, update

from app.clock import now
from app.db.models import DestinationPause
from app.sends.delivery.claim import claim
from app.sends.delivery.domain_backoff import FAILURE_THRESHOLD, PROBE_TIMEOUT, defer_backed_off, is_domain_deferral
from app.sends.delivery.drain import drain
from app.services import Services
from app.transports.base import DeliveryResult
from tests.jobs.delivery.conftest import Changed
from tests.support.rows import Rows
from tests.support.statements import StatementCounter
from tests.unit.transports.mailserver import MailServer, free_port

SLOW_DOWN = "451 4.7.1 too much mail from you"
BUSY = "451 4.3.2 this mailbox is busy"


def pauses(rows: Rows) -> dict[str, tuple[int, int]]:
    """Domain -> failures, and the minutes that are left of its rest."""
    with rows.services.database.read() as session:
        found = session.scalars(select(DestinationPause)).all()
    return {one.domain: (one.failures, round((one.until_time - now()).total_seconds() / 60)) for one in found}


def end_of_rest(rows: Rows) -> datetime:
    with rows.services.database.read() as session:
        return session.scalars(select(DestinationPause.until_time)).one()


def end_rest(rows: Rows) -> None:
    with rows.services.database.write() as transaction:
        transaction.execute(update(DestinationPause).values(until_time=now() - timedelta(seconds=1)))


@pytest.fixture
def refused(rows: Rows, worker: Services, mail_server: MailServer) -> list[int]:
    """Recipients of a domain that has just begun to rest."""
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
        (DeliveryResult.refused("550 5.7.1 no", "5.7.1"), False),
        (None, False),
    ],
)
def test_what_concerns_a_whole_domain(result: DeliveryResult | None, expected: bool) -> None:
    assert is_domain_deferral(result) is expected


def test_others_of_the_domain_wait_without_a_try(
    rows: Rows, worker: Services, mail_server: MailServer, refused: list[int]
) -> None:
    assert pauses(rows) == {"slow.example": (FAILURE_THRESHOLD, 2)}
    contact = rows.add_contact(list_id := rows.add_list(), "Named@Slow.example")
    (next_one,) = rows.add_send(["next@SLOW.example"])
    (named,) = rows.add_send([{"contact_id": contact}], list_id=list_id)
    (elsewhere,) = rows.add_send(["ann@quick.example"])
    drain(worker)
    assert rows.states([next_one, named, elsewhere]) == ["queued", "queued", "delivered"]
    for waiting in (next_one, named):
        recipient = rows.recipient(waiting)
        assert (recipient.attempts, recipient.worker, rows.steps(waiting)) == (0, None, [])
        assert recipient.due_time == end_of_rest(rows)
    assert [mail.recipients for mail in mail_server.mails] == [["ann@quick.example"]]


def test_what_a_server_says_of_one_sender_holds_back_nobody_else(
    rows: Rows, other_id: int, worker: Services, mail_server: MailServer, refused: list[int]
) -> None:
    """Neither another account, from the same domain even, nor another domain of the same account."""
    (own,) = rows.add_send(["ann@slow.example"])
    (from_elsewhere,) = rows.add_send(["ann@slow.example"], from_address="hello@second.example")
    others = Rows(worker, other_id)
    (theirs,) = others.add_send(["ann@slow.example"])
    drain(worker)
    assert rows.states([own, from_elsewhere, theirs]) == ["queued", "delivered", "delivered"]
    assert pauses(rows) == {"slow.example": (FAILURE_THRESHOLD, 2)}, "their deliveries do not end the rest"


def test_two_senders_that_are_put_off_rest_apart(
    rows: Rows, other_id: int, worker: Services, mail_server: MailServer, refused: list[int]
) -> None:
    """Deferrals of different senders are not added up, and each has a probe of its own."""
    mail_server.reply(".", SLOW_DOWN)
    Rows(worker, other_id).add_send(["ann@slow.example"])
    drain(worker)
    with worker.database.read() as session:
        found = session.execute(select(DestinationPause.account_id, DestinationPause.failures)).all()
    assert sorted(map(tuple, found)) == sorted([(rows.account_id, FAILURE_THRESHOLD), (other_id, 1)])


def test_looking_for_rests_takes_two_selects_at_most_where_nothing_rests(rows: Rows, worker: Services) -> None:
    contact = rows.add_contact(list_id := rows.add_list(), "named@quick.example")
    rows.add_send(
        [{"contact_id": contact}, *(f"{number}@quick{number}.example" for number in range(20))], list_id=list_id
    )
    with worker.database.write() as transaction:
        claimed = claim(transaction, "worker", size=50, after=0)
        with StatementCounter(worker.database.engine) as counted:
            assert defer_backed_off(transaction, "worker", claimed) == claimed
    assert (len(claimed), counted.count) == (21, 2)


def test_when_the_rest_ends_one_probes(
    rows: Rows, worker: Services, mail_server: MailServer, refused: list[int]
) -> None:
    end_rest(rows)
    mail_server.reply(".", SLOW_DOWN)
    rows.make_due(refused)
    drain(worker)
    after = now()
    assert sorted(rows.recipient(one).attempts for one in refused) == [1, 1, 2]
    assert pauses(rows) == {"slow.example": (FAILURE_THRESHOLD + 1, 4)}, "it rests for twice as long"
    waiting = [one for one in refused if rows.recipient(one).attempts == 1]
    assert all(rows.recipient(one).due_time <= after + timedelta(seconds=PROBE_TIMEOUT) for one in waiting)


def test_a_delivery_ends_it(rows: Rows, worker: Services, mail_server: MailServer, refused: list[int]) -> None:
    end_rest(rows)
    rows.make_due(refused)
    drain(worker)
    assert pauses(rows) == {}
    rows.make_due([one for one in refused if rows.recipient(one).state == "queued"])
    drain(worker)
    assert rows.states(refused) == ["delivered"] * FAILURE_THRESHOLD


def test_a_delivery_in_between_is_a_new_start(rows: Rows, worker: Services, mail_server: MailServer) -> None:
    for _ in range(FAILURE_THRESHOLD - 1):
        mail_server.reply(".", SLOW_DOWN)
        rows.add_send(["ann@slow.example"])
        drain(worker)
    assert pauses(rows) == {"slow.example": (FAILURE_THRESHOLD - 1, 0)}
    rows.add_send(["bob@slow.example"])
    drain(worker)
    assert pauses(rows) == {}


def test_trouble_of_one_recipient_or_of_our_relay_pauses_nobody(
    rows: Rows, worker: Services, make_worker: Changed, mail_server: MailServer
) -> None:
    mail_server.reply(".", *[BUSY] * 5)
    rows.add_send([f"{number}@slow.example" for number in range(5)])
    drain(worker)
    rows.add_send([f"{number}@slow.example" for number in range(5)])
    drain(make_worker(email_transport_url=f"smtp://127.0.0.1:{free_port()}"))
    assert pauses(rows) == {}
