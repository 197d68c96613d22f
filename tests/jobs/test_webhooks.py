"""Dispatch of events to real receivers, over both databases (docs/webhooks.md)."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import jwt
import pytest
from sqlalchemy import TextClause, select, text, update

from app.clock import now
from app.db.models import Webhook, WebhookSecret
from app.demo.receiver import verify
from app.events import batches
from app.events.batches import dispatcher_folder
from app.events.dispatch import MAX_IN_FLIGHT, WebhookClient, WebhookDispatcher, dispatch_due, has_due
from app.events.endpoint import PostResult
from app.events.outbox import record
from app.events.webhooks import delete_webhook, find_webhook, remove_secret, rotate_secret
from app.infrastructure.liveness import registered_name
from app.secret_keys import encrypt
from app.services import Services
from tests.jobs.conftest import SECRET, AddHook, Hook, changed, new_account
from tests.support.servers import PATIENCE, wait_until
from tests.support.statements import StatementCounter
from tests.support.threads import without_memory
from tests.support.webhook_receiver import Receiver, Reply


@pytest.fixture
def dispatcher() -> Iterator[WebhookDispatcher]:
    """A dispatcher that no other test uses."""
    with closing(WebhookClient()) as client:
        yield WebhookDispatcher(client)


def due(services: Services) -> bool:
    with services.database.read() as session:
        return has_due(session, services.settings)


def numbers(receiver: Receiver) -> list[list[int]]:
    """The numbers of the events of each request."""
    return [[event["n"] for event in hit.events] for hit in receiver.hits]


def batch_id(receiver: Receiver, index: int) -> str:
    """The `jti` of a request."""
    hit = receiver.hits[index]
    claims = verify(hit.body, hit.headers["Service-Signature"], {"k1": SECRET})
    assert claims is not None
    return str(claims["jti"])


# ------------------------------------------------------------------------------------------------ what is sent


def test_a_delivered_batch_is_signed_and_its_events_are_deleted(
    services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher
) -> None:
    with Receiver(204) as receiver:
        hook = add_hook(receiver.url)
        assert not due(services)
        hook.happen(1, 2, 3)
        assert due(services)
        dispatcher.run(services)
    (hit,) = receiver.hits
    assert hit.body == b'{"events":[{"n":1},{"n":2},{"n":3}]}'
    assert hit.headers["Content-Type"] == "application/json"
    claims = verify(hit.body, hit.headers["Service-Signature"], {"k1": SECRET})
    assert claims is not None
    assert (claims["iss"], claims["sub"]) == (services.settings.public_url, str(hook.id))
    assert hook.waiting == 0
    assert not due(services)


def test_every_delivery_attempt_is_logged_with_its_outcome(
    services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher
) -> None:
    with Receiver(Reply(503, body=b"later"), 200) as receiver:
        hook = add_hook(receiver.url)
        hook.happen(1, 2)
        dispatcher.run(services)
        after = now()
        hook.set(due_time=now())
        dispatcher.run(services)
    first, second = hook.attempts
    assert (first.status, first.outcome, first.detail, first.events) == (503, "failed", "later", 2)
    assert (second.status, second.outcome, second.detail, second.events) == (200, "delivered", None, 2)
    assert first.batch_id == second.batch_id == batch_id(receiver, 0) == batch_id(receiver, 1)
    assert first.time <= receiver.hits[0].time < second.time <= receiver.hits[1].time
    assert first.time <= first.time + timedelta(milliseconds=first.milliseconds) <= after + timedelta(milliseconds=1)


@pytest.mark.parametrize("thread", ["watchdog", "webhook"])
def test_a_batch_for_whose_thread_no_memory_is_left_is_sent_soon(
    services: Services,
    add_hook: AddHook,
    dispatcher: WebhookDispatcher,
    monkeypatch: pytest.MonkeyPatch,
    thread: str,
) -> None:
    """No lease has to end for it."""
    start = threading.Thread.start
    with Receiver(204) as receiver:
        hook = add_hook(receiver.url)
        hook.happen(1)
        with monkeypatch.context() as patch, suppress(RuntimeError):
            patch.setattr(
                threading.Thread,
                "start",
                lambda new_thread: without_memory(new_thread) if new_thread.name == thread else start(new_thread),
            )
            dispatcher.run(services)
        assert receiver.hits == []
        hook.set(due_time=now())
        dispatcher.run(services)
    assert numbers(receiver) == [[1]]
    assert hook.waiting == 0


def test_the_process_wide_dispatcher_delivers(services: Services, add_hook: AddHook) -> None:
    with Receiver() as receiver:
        add_hook(receiver.url).happen(1)
        dispatch_due(services)
    assert numbers(receiver) == [[1]]


def test_events_leave_in_order_at_most_1000_per_batch(
    services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher
) -> None:
    with Receiver() as receiver:
        hook = add_hook(receiver.url)
        hook.happen(*range(2500))
        dispatcher.run(services)
    assert numbers(receiver) == [list(range(1000)), list(range(1000, 2000)), list(range(2000, 2500))]
    assert len({batch_id(receiver, index) for index in range(3)}) == 3


def test_batches_start_no_closer_than_the_spacing(
    services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher
) -> None:
    spaced = changed(services, webhook_spacing=0.3)
    with Receiver() as receiver:
        hook = add_hook(receiver.url)
        hook.happen(*range(2500))

        def all_delivered() -> bool:
            dispatcher.run(spaced)
            return hook.waiting == 0

        wait_until(all_delivered, "all is delivered")
    assert len(receiver.hits) == 3
    times = [attempt.time for attempt in hook.attempts]
    assert [later - earlier >= timedelta(seconds=0.3) for earlier, later in pairwise(times)] == [True, True]


def test_a_new_event_waits_for_the_spacing(
    services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher
) -> None:
    with Receiver() as receiver:
        hook = add_hook(receiver.url)
        hook.happen(1)
        dispatcher.run(changed(services, webhook_spacing=60.0))
        hook.happen(2)
        dispatcher.run(services)
        assert numbers(receiver) == [[1]]
        assert not due(services)
        row = hook.row
        assert row is not None
        assert row.due_time == hook.attempts[0].time + timedelta(seconds=60)
        hook.set(due_time=now())
        dispatcher.run(services)
    assert numbers(receiver) == [[1], [2]]


def test_the_spacing_counts_from_the_start_of_the_request(services: Services, add_hook: AddHook) -> None:
    """A slow connection must not bring the next request closer."""
    hook = add_hook("http://127.0.0.1:1/in")
    hook.happen(1)
    batch = batches.claim(services)
    assert batch is not None
    began = now() + timedelta(seconds=4)
    batches.record_delivered(changed(services, webhook_spacing=10.0), batch, PostResult(200, "", began, began))
    row = hook.row
    assert row is not None
    assert row.due_time == began + timedelta(seconds=10)


def test_a_due_time_of_a_clock_that_was_ahead_stops_no_webhook(
    services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher
) -> None:
    with Receiver() as receiver:
        hook = add_hook(receiver.url)
        hook.happen(1)
        hook.set(due_time=now() + timedelta(hours=1))
        assert not due(services), "the longest delay"
        hook.set(due_time=now() + timedelta(hours=3))
        assert not due(changed(services, webhook_spacing=4 * 3600.0))
        assert due(services)
        dispatcher.run(services)
    assert numbers(receiver) == [[1]]


def test_all_secrets_sign_until_they_are_removed(
    services: Services, account_id: int, add_hook: AddHook, dispatcher: WebhookDispatcher
) -> None:
    with Receiver() as receiver:
        hook = add_hook(receiver.url)
        with services.database.write() as transaction:
            webhook = find_webhook(transaction, account_id, receiver.url)
            key_id, secret = rotate_secret(transaction, services.settings, webhook)
        hook.happen(1)
        dispatcher.run(services)
        with services.database.write() as transaction:
            remove_secret(transaction, find_webhook(transaction, account_id, receiver.url), "k1")
        hook.happen(2)
        dispatcher.run(services)
    both, last = (hit.headers["Service-Signature"] for hit in receiver.hits)
    assert key_id == "k2"
    assert [jwt.get_unverified_header(token)["kid"] for token in both.split(",")] == ["k1", "k2"]
    assert [jwt.get_unverified_header(token)["kid"] for token in last.split(",")] == ["k2"]
    for hit in receiver.hits:
        assert verify(hit.body, hit.headers["Service-Signature"], {"k2": secret})


# ------------------------------------------------------------------------------------------------ failures


@pytest.mark.parametrize("status", [301, 302, 400, 404, 429, 500, 503])
def test_any_status_but_2xx_and_410_is_a_failure(
    services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher, status: int
) -> None:
    with Receiver(status) as receiver:
        hook = add_hook(receiver.url)
        hook.happen(1)
        dispatcher.run(services)
    assert hook.waiting == 1
    row = hook.row
    assert row is not None
    assert (row.failures, row.lease_time) == (1, None)
    assert [(attempt.status, attempt.outcome) for attempt in hook.attempts] == [(status, "failed")]


def test_no_answer_and_no_connection_are_failures(services: Services, add_hook: AddHook) -> None:
    gate = threading.Event()
    with Receiver(Reply(gate=gate)) as receiver:
        silent, absent = add_hook(receiver.url), add_hook("http://127.0.0.1:1/in")
        silent.happen(1)
        with closing(WebhookClient(read_timeout=0.5)) as client:
            WebhookDispatcher(client).run(services)
        gate.set()
    assert [(attempt.status, attempt.detail) for attempt in silent.attempts] == [(None, "no answer in 0.5 s")]
    (attempt,) = absent.attempts
    assert attempt.status is None
    assert "Connection refused" in str(attempt.detail)


def test_a_failed_batch_is_repeated_unchanged_and_later_events_wait_behind_it(
    services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher
) -> None:
    with Receiver(500, 500, 200) as receiver:
        hook = add_hook(receiver.url)
        hook.happen(1, 2)
        dispatcher.run(services)
        hook.happen(3)
        for _ in range(2):
            hook.set(due_time=now())
            dispatcher.run(services)
    assert numbers(receiver) == [[1, 2], [1, 2], [1, 2], [3]]
    assert len({hit.body for hit in receiver.hits[:3]}) == 1
    assert batch_id(receiver, 0) == batch_id(receiver, 1) == batch_id(receiver, 2) != batch_id(receiver, 3)


def test_the_delay_doubles_with_every_failure_and_a_success_resets_it(
    services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher
) -> None:
    with Receiver(500, 500, 500, 200) as receiver:
        hook = add_hook(receiver.url)
        hook.happen(1)
        for seconds in (10, 20, 40):
            hook.set(due_time=(before := now()))
            dispatcher.run(services)
            row = hook.row
            assert row is not None
            assert before + timedelta(seconds=seconds) <= row.due_time <= now() + timedelta(seconds=1.2 * seconds)
        hook.set(due_time=now())
        dispatcher.run(services)
    row = hook.row
    assert row is not None
    assert (row.failures, row.batch_id) == (0, None)
    assert row.due_time <= now()


def test_delays_stay_between_ten_seconds_and_an_hour_with_jitter() -> None:
    for failures, least in ((1, 10), (2, 20), (3, 40), (8, 1280), (9, 2560), (10, 3600), (1000, 3600)):
        drawn = [batches.retry_delay(failures) for _ in range(50)]
        assert all(least <= delay <= min(least * 1.2, 3600) for delay in drawn)
        assert len(set(drawn)) > 1 or least == 3600


def test_a_retry_is_never_sooner_than_the_spacing(
    services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher
) -> None:
    with Receiver(500) as receiver:
        hook = add_hook(receiver.url)
        hook.happen(1)
        dispatcher.run(changed(services, webhook_spacing=300.0))
    row = hook.row
    assert row is not None
    assert row.due_time == hook.attempts[0].time + timedelta(seconds=300)


def test_410_deletes_the_webhook_at_once(services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher) -> None:
    with Receiver(410) as receiver:
        hook = add_hook(receiver.url)
        hook.happen(*range(1500))
        dispatcher.run(services)
    assert len(receiver.hits) == 1
    assert (hook.row, hook.waiting) == (None, 0)


def age_failures(hook: Hook, seconds: float) -> None:
    """Moves the first failed attempt of the batch into the past."""
    with hook.services.database.write() as transaction:
        failed = update(Webhook).where(Webhook.id == hook.id, Webhook.first_failed_time.is_not(None))
        transaction.execute(failed.values(first_failed_time=now() - timedelta(seconds=seconds)))


def test_events_are_dropped_a_day_after_their_first_failed_attempt(
    services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher, caplog: pytest.LogCaptureFixture
) -> None:
    with Receiver(500, 200) as receiver:
        hook = add_hook(receiver.url)
        hook.happen(1, 2)
        dispatcher.run(services)
        hook.happen(3)
        age_failures(hook, services.settings.webhook_expiry + 1)
        hook.set(due_time=now())
        dispatcher.run(services)
    assert numbers(receiver) == [[1, 2], [3]]
    assert batch_id(receiver, 0) != batch_id(receiver, 1)
    row = hook.row
    assert row is not None
    assert (row.dropped_events, row.failures, hook.waiting) == (2, 0, 0)
    assert f"webhook {hook.id}: dropped 2 events that failed for too long" in caplog.messages


def test_events_are_retried_until_that_day_is_over(
    services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher
) -> None:
    with Receiver(500, 200) as receiver:
        hook = add_hook(receiver.url)
        hook.happen(1)
        dispatcher.run(services)
        age_failures(hook, services.settings.webhook_expiry - 60)
        hook.set(due_time=now())
        dispatcher.run(services)
    assert numbers(receiver) == [[1], [1]]
    row = hook.row
    assert row is not None
    assert row.dropped_events == 0


def test_a_second_failure_does_not_extend_the_life_of_an_event(
    services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher
) -> None:
    with Receiver(500) as receiver:
        hook = add_hook(receiver.url)
        hook.happen(1)
        dispatcher.run(services)
        age_failures(hook, services.settings.webhook_expiry - 60)
        hook.set(due_time=now())
        dispatcher.run(services)
        age = timedelta(seconds=services.settings.webhook_expiry - 61)
        row = hook.row
        assert row is not None
        assert row.first_failed_time is not None
        assert row.first_failed_time < now() - age


def test_dropping_the_last_events_leaves_nothing_queued(
    services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher
) -> None:
    with Receiver(500) as receiver:
        hook = add_hook(receiver.url)
        hook.happen(1)
        dispatcher.run(services)
        age_failures(hook, services.settings.webhook_expiry + 1)
        hook.set(due_time=now())
        dispatcher.run(services)
    assert (len(receiver.hits), hook.waiting, due(services)) == (1, 0, False)


def test_a_lost_secret_key_is_a_failure_with_its_reason_in_the_log(
    services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher
) -> None:
    with Receiver() as receiver:
        hook = add_hook(receiver.url)
        hook.happen(1)
        dispatcher.run(changed(services, secret_key="another key of 32 characters or more"))
    assert receiver.hits == []
    assert [attempt.detail for attempt in hook.attempts] == ["a stored secret was encrypted under another SECRET_KEY"]
    assert hook.waiting == 1


def test_a_secret_that_cannot_sign_is_a_failure_with_its_reason_in_the_log(
    services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher
) -> None:
    """Such a secret may be from an earlier release, which accepted it."""
    with Receiver() as receiver:
        hook = add_hook(receiver.url)
        with services.database.write() as transaction:
            secret = encrypt(services.settings.secret_key, f"ssh-rsa {SECRET}")
            transaction.execute(update(WebhookSecret).where(WebhookSecret.webhook_id == hook.id).values(secret=secret))
        hook.happen(1)
        dispatcher.run(services)
    assert receiver.hits == []
    assert [attempt.detail for attempt in hook.attempts] == ["a secret of the webhook cannot sign requests: replace it"]
    row = hook.row
    assert row is not None
    assert (row.failures, row.lease_time, hook.waiting) == (1, None, 1)


# ------------------------------------------------------------------------------------------------ several at once


def test_a_slow_receiver_delays_no_other_webhook(
    services: Services, add_hook: AddHook, other_id: int, dispatcher: WebhookDispatcher
) -> None:
    gate = threading.Event()
    with Receiver(Reply(gate=gate), 200) as slow, Receiver() as quick:
        slow_hook, quick_hook = add_hook(slow.url), add_hook(quick.url, account_id=other_id)
        slow_hook.happen(1)
        thread = threading.Thread(target=dispatcher.run, args=(services,))
        thread.start()
        wait_until(lambda: slow.hits, "the slow receiver has its request")
        quick_hook.happen(2)
        wait_until(lambda: quick.hits, "the quick receiver has its request")
        assert slow_hook.waiting == 1
        gate.set()
        thread.join(PATIENCE)
    assert (numbers(slow), numbers(quick)) == ([[1]], [[2]])


def test_so_many_requests_of_a_process_are_in_flight_and_no_more(
    services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher
) -> None:
    gate = threading.Event()
    with Receiver(Reply(gate=gate)) as receiver:
        for _ in range(MAX_IN_FLIGHT + 3):
            add_hook(receiver.url, account_id=new_account(services)).happen(1)
        thread = threading.Thread(target=dispatcher.run, args=(services,))
        thread.start()
        wait_until(lambda: len(receiver.hits) == MAX_IN_FLIGHT, "all threads are busy")
        assert due(services)
        assert len(receiver.hits) == MAX_IN_FLIGHT
        gate.set()
        thread.join(PATIENCE)
    assert len(receiver.hits) == MAX_IN_FLIGHT + 3


def test_an_account_with_many_slow_webhooks_delays_no_other_account(
    services: Services, account_id: int, other_id: int, add_hook: AddHook, dispatcher: WebhookDispatcher
) -> None:
    """It has a third of the requests, and another such account a third of those that are left."""
    gate, thirds = threading.Event(), (8, 6)
    with Receiver(Reply(gate=gate)) as slow, Receiver(Reply(gate=gate)) as also_slow, Receiver() as quick:
        for receiver, slow_account in ((slow, account_id), (also_slow, other_id)):
            for number in range(MAX_IN_FLIGHT):
                add_hook(f"{receiver.url}/{number}", account_id=slow_account)
        with services.database.write() as transaction:
            record(transaction, account_id, [{"n": 1}])
        thread = threading.Thread(target=dispatcher.run, args=(services,))
        thread.start()
        wait_until(lambda: len(slow.hits) == thirds[0], "the account has its share")
        with services.database.write() as transaction:
            record(transaction, other_id, [{"n": 2}])
        wait_until(lambda: len(also_slow.hits) == thirds[1], "the other account has its share")
        add_hook(quick.url, account_id=new_account(services)).happen(3)
        wait_until(lambda: quick.hits, "a third account gets its event")
        assert (len(slow.hits), len(also_slow.hits)) == thirds
        gate.set()
        thread.join(PATIENCE)
    assert (len(slow.hits), len(also_slow.hits), numbers(quick)) == (MAX_IN_FLIGHT, MAX_IN_FLIGHT, [[3]])


def test_two_processes_deliver_every_event_once(services: Services, account_id: int, add_hook: AddHook) -> None:
    with Receiver() as receiver:
        for _ in range(12):
            hook = add_hook(receiver.url, account_id=new_account(services))
            hook.happen(*range(hook.id * 10_000, hook.id * 10_000 + 1500))
        with closing(WebhookClient()) as first, closing(WebhookClient()) as second:
            threads = [
                threading.Thread(target=WebhookDispatcher(client).run, args=(services,)) for client in (first, second)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE)
    sent = [event["n"] for event in receiver.events]
    assert len(sent) == len(set(sent)) == 12 * 1500
    assert not due(services)


def test_one_request_at_a_time_is_in_flight_per_webhook(services: Services, add_hook: AddHook) -> None:
    hook = add_hook("http://127.0.0.1:1/in")
    hook.happen(1)
    assert batches.claim(services) is not None
    hook.happen(2)
    hook.set(due_time=now())
    assert not due(services)
    assert batches.claim(services) is None


def test_the_webhook_that_has_been_due_for_longest_comes_first(services: Services, add_hook: AddHook) -> None:
    hooks = [add_hook(f"http://127.0.0.1:1/{number}") for number in range(3)]
    hooks[0].happen(1)
    for hook, age in zip(hooks, (10, 30, 20), strict=True):
        hook.set(due_time=now() - timedelta(seconds=age))
    claimed = [batches.claim(services) for _ in range(3)]
    assert [batch.webhook_id for batch in claimed if batch] == [hooks[1].id, hooks[2].id, hooks[0].id]


# ---------------------------------------------------------------------------------------- dead workers and stops


def test_a_batch_of_a_dead_worker_is_sent_again_with_its_id(
    services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher
) -> None:
    with Receiver() as receiver:
        hook = add_hook(receiver.url)
        hook.happen(1, 2)
        lost = batches.claim(services)
        assert lost is not None
        hook.happen(3)
        dispatcher.run(services)
        assert receiver.hits == []
        hook.set(lease_time=now())
        dispatcher.run(services)
    assert numbers(receiver) == [[1, 2], [3]]
    assert batch_id(receiver, 0) == lost.batch_id
    assert hook.waiting == 0


def test_the_webhooks_of_a_killed_process_are_leased_at_once(
    services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher
) -> None:
    folder = dispatcher_folder(services.settings)
    with Receiver() as receiver, another_process_in(folder) as (name, kill):
        hook = add_hook(receiver.url)
        hook.happen(1)
        batch = batches.claim(services)
        assert batch is not None
        hook.set(worker=f"{name}:theirs", due_time=now())
        dispatcher.run(services)
        assert receiver.hits == []
        kill()
        dispatcher.run(services)
    assert numbers(receiver) == [[1]]
    assert batch_id(receiver, 0) == batch.batch_id
    assert [path.stem for path in folder.glob("*.alive")] == [registered_name(folder)]


@contextmanager
def another_process_in(folder: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """The name under which another process is registered as alive, and a function that kills it."""
    program = "import sys, pathlib; from app.infrastructure.liveness import registered_name; "
    program += "print(registered_name(pathlib.Path(sys.argv[1])), flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", program, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None

        def kill() -> None:
            process.kill()
            process.wait()

        try:
            yield process.stdout.readline().strip(), kill
        finally:
            kill()


def test_a_worker_without_the_lease_changes_nothing(services: Services, add_hook: AddHook) -> None:
    hook = add_hook("http://127.0.0.1:1/in")
    hook.happen(1)
    late = batches.claim(services)
    hook.set(lease_time=now())
    current = batches.claim(services)
    assert late is not None
    assert current is not None
    result = PostResult(None, "timeout", now())
    batches.record_failed(services, late, result)
    batches.record_delivered(services, late, result)
    batches.delete_gone(services, late)
    batches.release(services, late)
    row = hook.row
    assert row is not None
    assert (row.worker, row.failures, row.batch_id, hook.waiting) == (current.lease_token, 0, late.batch_id, 1)
    assert hook.attempts == []


def test_a_webhook_may_be_deleted_while_its_request_is_in_flight(
    services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher
) -> None:
    gate = threading.Event()
    with Receiver(Reply(gate=gate)) as receiver:
        hook = add_hook(receiver.url)
        hook.happen(1)
        thread = threading.Thread(target=dispatcher.run, args=(services,))
        thread.start()
        wait_until(lambda: receiver.hits, "the request is there")
        with services.database.write() as transaction:
            delete_webhook(transaction, find_webhook(transaction, hook.account_id, receiver.url))
        gate.set()
        thread.join(PATIENCE)
    assert (hook.row, hook.waiting, len(receiver.hits)) == (None, 0, 1)


def test_a_stop_ends_a_slow_request_and_releases_the_webhook(
    services: Services, add_hook: AddHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.events.dispatch.GRACE_SECONDS", 0.1)
    monkeypatch.setattr("app.events.dispatch.STOP_SECONDS", PATIENCE)
    gate = threading.Event()
    stopping = changed(services)
    patient = WebhookClient(read_timeout=10 * PATIENCE)
    with closing(patient) as client, Receiver(Reply(gate=gate), 200) as receiver:
        hook = add_hook(receiver.url)
        hook.happen(1)
        thread = threading.Thread(target=WebhookDispatcher(client).run, args=(stopping,))
        thread.start()
        wait_until(lambda: receiver.hits, "the request is there")
        stopping.stopping.set()
        thread.join(PATIENCE)
        assert not thread.is_alive()
        row = hook.row
        assert row is not None
        assert (row.lease_time, row.worker, row.failures, hook.attempts) == (None, None, 0, [])
        WebhookDispatcher(client).run(services)
        gate.set()
    assert numbers(receiver) == [[1], [1]]
    assert batch_id(receiver, 0) == batch_id(receiver, 1)


def test_a_stop_lets_a_fast_request_end(
    services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.events.dispatch.GRACE_SECONDS", PATIENCE)
    monkeypatch.setattr("app.events.dispatch.STOP_SECONDS", PATIENCE)
    gate = threading.Event()
    stopping = changed(services)
    with Receiver(Reply(gate=gate)) as receiver:
        hook = add_hook(receiver.url)
        hook.happen(1)
        thread = threading.Thread(target=dispatcher.run, args=(stopping,))
        thread.start()
        wait_until(lambda: receiver.hits, "the request is there")
        stopping.stopping.set()
        gate.set()
        thread.join(PATIENCE)
    assert [attempt.outcome for attempt in hook.attempts] == ["delivered"]
    assert hook.waiting == 0


def test_nothing_new_starts_after_the_request_to_stop(
    services: Services, add_hook: AddHook, dispatcher: WebhookDispatcher
) -> None:
    stopping = changed(services)
    stopping.stopping.set()
    with Receiver() as receiver:
        hook = add_hook(receiver.url)
        hook.happen(1)
        dispatcher.run(stopping)
    assert (receiver.hits, hook.waiting) == ([], 1)


def test_an_outcome_that_cannot_be_recorded_is_logged_and_the_batch_repeated(
    services: Services,
    add_hook: AddHook,
    dispatcher: WebhookDispatcher,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk full")

    with Receiver() as receiver:
        hook = add_hook(receiver.url)
        hook.happen(1)
        with monkeypatch.context() as patched:
            patched.setattr(batches, "record_delivered", fail)
            dispatcher.run(services)
        assert f"webhook {hook.id}: the result of a request could not be recorded" in caplog.messages
        hook.set(lease_time=now())
        dispatcher.run(services)
    assert numbers(receiver) == [[1], [1]]
    assert batch_id(receiver, 0) == batch_id(receiver, 1)
    assert hook.waiting == 0


# ------------------------------------------------------------------------------------------------ cost


def test_the_statements_of_a_batch_do_not_grow_with_its_events(
    services: Services,
    add_hook: AddHook,
    dispatcher: WebhookDispatcher,
    count_statements: Callable[..., StatementCounter],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.events.dispatch.POLL_SECONDS", PATIENCE)
    counts = []
    with Receiver() as receiver:
        hook = add_hook(receiver.url)
        for number in (1, 1000):
            hook.happen(*range(number))
            with count_statements(all_threads=True) as counted:
                dispatcher.run(services)
            counts.append(counted.count)
    assert counts[0] == counts[1]


@pytest.mark.both("each has its own plan")
def test_the_sweep_for_due_webhooks_does_not_read_the_backlog(
    services: Services, add_hook: AddHook, other_id: int
) -> None:
    """Where one webhook has nearly all events, PostgreSQL must not expect those of others near the start of the
    table."""
    for number in range(20):
        add_hook(f"http://127.0.0.1:1/{number}")
    add_hook("http://127.0.0.1:1/in", account_id=other_id).happen(*range(30_000))
    with services.database.write() as transaction:
        transaction.execute(text("ANALYZE"))
        if services.database.is_postgresql:
            plan = [str(row[0]) for row in transaction.execute(explained("EXPLAIN", services))]
        else:
            plan = [str(row[3]) for row in transaction.execute(explained("EXPLAIN QUERY PLAN", services))]
    assert any("ix_events_webhook" in line for line in plan), plan
    assert not any("pk_events" in line or "Seq Scan on events" in line or "SCAN events" in line for line in plan), plan


def explained(verb: str, services: Services) -> TextClause:
    """The statement of `has_due` with EXPLAIN."""
    statement = select(Webhook.id).where(batches._is_due(now(), services.settings)).limit(1)
    compiled = statement.compile(services.database.engine, compile_kwargs={"literal_binds": True})
    return text(f"{verb} {compiled}".replace(":", r"\:"))
