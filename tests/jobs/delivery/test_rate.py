"""The rate limit of an sms sender, shared by all workers (docs/sms.md)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from app.clock import now, this_second
from app.db.models import SmsSender
from app.infrastructure.shared_rates import Bucket, reserve, reserve_in_redis
from app.sends.delivery.drain import drain
from app.services import Services
from tests.jobs.delivery.conftest import Changed
from tests.support.rows import Rows
from tests.support.tenants import new_mobile


def add_sender(rows: Rows, rate: float | None) -> str:
    number = new_mobile()
    rows.add(
        SmsSender, address=number, kind="number", list_id=None, messages_per_second=rate, creation_time=this_second()
    )
    return number


def send(rows: Rows, number: str, count: int) -> list[int]:
    return rows.add_send([new_mobile() for _ in range(count)], type="sms", from_address=number)


def test_the_messages_of_one_second_leave_at_once_and_the_rest_at_the_rate(rows: Rows, worker: Services) -> None:
    """Later send times are due times in the queue, in the order of acceptance, and cost no attempt."""
    ids = send(rows, add_sender(rows, 0.01), 4)
    free = send(rows, add_sender(rows, None), 4)
    before = now()
    drain(worker)
    after = now()
    assert rows.states(ids) == ["sent", "queued", "queued", "queued"]
    assert rows.states(free) == ["sent"] * 4
    waiting = [rows.recipient(recipient_id) for recipient_id in ids[1:]]
    assert [recipient.attempts for recipient in waiting] == [0, 0, 0]
    for turn, recipient in enumerate(waiting, 1):
        assert before <= recipient.due_time - timedelta(seconds=100 * turn) <= after
    assert waiting[1].due_time - waiting[0].due_time == timedelta(seconds=100)
    assert rows.steps(ids[1]) == []


def test_workers_share_the_rate_limit(rows: Rows, make_worker: Changed) -> None:
    """A second worker, and a second claim, see what the first has used; each moment is reserved once."""
    number = add_sender(rows, 0.01)
    ids = send(rows, number, 2)
    drain(make_worker())
    more = send(rows, number, 1)
    drain(make_worker())
    assert rows.states([*ids, *more]) == ["sent", "queued", "queued"]
    gap = rows.recipient(more[0]).due_time - rows.recipient(ids[1]).due_time
    assert timedelta(seconds=99) < gap < timedelta(seconds=101)


@pytest.mark.parametrize("rate", [0.5, 1.0, 4.0, 30.0])
def test_a_bucket_has_the_capacity_of_one_second_and_refills_at_the_rate(rate: float) -> None:
    bucket, first = reserve(Bucket(), rate, 100, clock=1000.0)
    assert first.allowed == max(1, round(rate))
    again, second = reserve(bucket, rate, 100, clock=1000.0)
    assert second.allowed == 0
    assert again.turn - bucket.turn == pytest.approx(100 / rate)
    _, later = reserve(bucket, rate, 100, clock=1000.0 + 2.001 / rate)
    assert later.allowed == min(2, first.allowed)


def test_workers_that_count_at_the_same_moment_count_each_message_once(services: Services) -> None:
    """Only one of 400 messages leaves at once. The other 399 get a later time."""
    key, step = f"tms:sender:test:{new_mobile()}", 1000.0
    began = now().timestamp()
    with ThreadPoolExecutor(4) as pool:
        counted = list(pool.map(lambda _: reserve_in_redis(services.redis, key, 1 / step, 10), range(40)))
    assert sorted(grant.allowed for grant in counted) == [0] * 39 + [1]
    assert round((float(services.redis.hget(key, "turn") or 0) - began) / step) == 399


def test_a_sender_with_a_high_rate_is_not_delayed(rows: Rows, worker: Services) -> None:
    ids = send(rows, add_sender(rows, 100), 50)
    drain(worker)
    assert set(rows.states(ids)) == {"sent"}
