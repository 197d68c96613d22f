"""Priority: high goes first within the turn of its account, without starving normal (docs/waiting.md#priority)."""

from __future__ import annotations

from collections import Counter

from app.clock import now
from app.sends.delivery.claim import claim, release_claims
from app.sends.delivery.recipient import ClaimedRecipient
from app.sends.outcomes.requeue import requeue
from app.services import Services
from tests.jobs.conftest import new_account
from tests.jobs.delivery.test_fairness import addresses, take
from tests.support.rows import Rows


def ids(claimed: list[ClaimedRecipient]) -> list[int]:
    return [recipient.id for recipient in claimed]


def test_high_is_claimed_before_older_normal(rows: Rows, worker: Services) -> None:
    backlog = rows.add_send(addresses(10, "backlog"), due_in=-60)
    reset = rows.add_send(["reset@example.com"], priority="high")
    assert ids(take(worker, 4)) == [*reset, *backlog[:3]]


def test_a_quarter_of_a_turn_is_kept_for_normal(rows: Rows, worker: Services) -> None:
    """However much of high priority waits. A batch alternates them, because its last rows may be released."""
    high = rows.add_send(addresses(100, "high"), priority="high", due_in=-60)
    normal = rows.add_send(addresses(100, "normal"))
    claimed = ids(take(worker, 8))
    assert claimed == [*high[:3], normal[0], *high[3:6], normal[1]]
    assert Counter(recipient_id in normal for recipient_id in ids(take(worker, 40))) == {False: 30, True: 10}


def test_where_an_account_gives_one_at_a_time_every_fourth_is_normal(rows: Rows, worker: Services) -> None:
    """So a small batch, or one for many accounts, does not starve normal either."""
    high = rows.add_send(addresses(20, "high"), priority="high")
    normal = rows.add_send(addresses(20, "normal"))
    with worker.database.write() as transaction:
        turns = [claim(transaction, "w", size=1, after=0, number=number) for number in range(8)]
    assert [ids(turn) for turn in turns] == [
        [recipient_id] for recipient_id in [*high[:3], normal[0], *high[3:6], normal[1]]
    ]


def test_what_one_priority_does_not_need_the_other_gets(rows: Rows, worker: Services) -> None:
    high = rows.add_send(addresses(30, "high"), priority="high")
    normal = rows.add_send(addresses(2, "normal"))
    assert sorted(ids(take(worker, 20))) == sorted([*high[:18], *normal])
    assert ids(take(worker, 20)) == high[18:]
    for number in range(4):
        more = rows.add_send(["more@example.com"], priority="high")
        with worker.database.write() as transaction:
            assert ids(claim(transaction, "w", size=1, after=0, number=number)) == more


def test_it_counts_within_the_account_only(rows: Rows, worker: Services) -> None:
    """No account gets more of a batch by giving everything high priority."""
    other = Rows(worker, new_account(worker))
    rows.add_send(addresses(50, "high"), priority="high")
    theirs = other.add_send(addresses(50, "normal"))
    claimed = take(worker, 40)
    assert Counter(recipient.account_id for recipient in claimed) == {rows.account_id: 20, other.account_id: 20}
    assert [recipient.id for recipient in claimed if recipient.account_id == other.account_id] == theirs[:20]


def test_what_is_not_due_yet_holds_up_nothing(rows: Rows, worker: Services) -> None:
    rows.add_send(addresses(5, "later"), priority="high", due_in=60)
    normal = rows.add_send(addresses(5, "normal"))
    assert ids(take(worker, 4)) == normal[:4]


def test_it_stays_when_a_row_goes_back_and_when_an_operator_retries(rows: Rows, worker: Services) -> None:
    (urgent,) = rows.add_send(["urgent@example.com"], priority="high")
    take(worker, 1)
    with worker.database.write() as transaction:
        release_claims(transaction, "w", [urgent])
    assert rows.recipient(urgent).priority == "high"
    rows.change([urgent], state="failed", reason="rejected", attempts=1)
    with worker.database.write() as transaction:
        requeue(transaction, rows.recipient(urgent).uuid)
    recipient = rows.recipient(urgent)
    assert (recipient.state, recipient.priority, recipient.attempts) == ("queued", "high", 1)
    assert recipient.due_time <= now()
