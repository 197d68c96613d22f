"""Bulk actions: retrying all messages that match a query, in slices (docs/console-messages.md#bulk-actions)."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import event, select, update
from sqlalchemy.exc import OperationalError

from app.addresses import AccountAddress
from app.audit.actor import Actor, acting
from app.bulk_actions import run
from app.bulk_actions.ask import MAX_OPEN_ACTIONS, UNDO_PERIOD, ask, cancel
from app.bulk_actions.kinds import RELEASE, RETRY, UNBLOCK, Kind
from app.bulk_actions.preview import preview
from app.bulk_actions.query import MAX_QUERY_LENGTH
from app.bulk_actions.run import has_due, run_due
from app.clock import now, this_second
from app.contacts.blocked import PERMANENT_BOUNCE, Block, block_addresses
from app.contacts.suppress import block, unblock, unsubscribe
from app.db.database import Transaction
from app.db.models import Account, AuditEntry, BlockedAddress, BulkAction, RecipientStep, Send, SoftBounces
from app.errors import ServiceError
from app.infrastructure.redis_client import AUTOMATIONS, SENDS
from app.maintenance.audit_seals import seal_entries
from app.sends.outcomes.requeue import requeue
from jobs.schedule import tick
from tests.databases.running import Alone, alone
from tests.support.cases import each
from tests.support.databases import BACKENDS
from tests.support.killed import killed_at
from tests.support.rows import Rows
from tests.support.statements import StatementCounter
from tests.support.tenants import new_tenant

FAILED = [("state", "failed")]
ANN = Actor("command", "ann")


@pytest.fixture(params=BACKENDS)
def parts(request: pytest.FixtureRequest) -> Iterator[Alone]:
    with alone(request.getfixturevalue("postgres") if request.param == "postgresql" else None) as services:
        yield services


@pytest.fixture
def rows(parts: Alone) -> Rows:
    return Rows(parts.services, parts.tenant.id)


def failed(rows: Rows, number: int, state: str = "failed", reason: str | None = "expired", **content: Any) -> list[int]:
    """Recipients in a final state."""
    ids = rows.add_send([f"p{index}@example.com" for index in range(number)], **content)
    rows.change(ids, state=state, reason=reason, attempts=1)
    return ids


def asked(rows: Rows, pairs: Sequence[tuple[str, str]] = FAILED, *, kind: Kind = RETRY, due: bool = True) -> int:
    """A bulk action of the account; its time to undo it is over, unless it is not `due`."""
    with rows.services.database.read() as session:
        previewed = preview(session, kind, session.get_one(Account, rows.account_id), pairs)
    with acting(ANN), rows.services.database.write() as transaction:
        action = ask(transaction, transaction.get_one(Account, rows.account_id), previewed)
        if due:
            action.due_time = now()
        return action.id


def find_action(parts: Alone, action_id: int) -> BulkAction:
    with parts.services.database.read() as session:
        return session.get_one(BulkAction, action_id)


def finish(parts: Alone) -> None:
    """Runs until nothing is due."""
    while run_due(parts.services, time_slice=60):
        pass


def acts(parts: Alone) -> list[tuple[str, str, str, dict[str, int]]]:
    with parts.services.database.read() as session:
        entries = session.scalars(select(AuditEntry).where(AuditEntry.object == "bulk_action").order_by(AuditEntry.id))
        return [(entry.action, str(entry.object_name), entry.actor, entry.counts) for entry in entries]


def test_all_that_matches_is_queued_again_after_the_time_to_undo_it(parts: Alone, rows: Rows) -> None:
    group_ids = failed(rows, 3)
    group_id = rows.recipient(group_ids[0]).group_id
    others, delivered = failed(rows, 2), failed(rows, 2, "delivered", None, group_id=group_id)
    before = now()
    action_id = asked(rows, [*FAILED, ("group_id", str(group_id))], due=False)
    action = find_action(parts, action_id)
    assert (action.state, action.messages, action.done) == ("waiting", 3, 0)
    assert before + UNDO_PERIOD <= action.due_time <= now() + UNDO_PERIOD
    seal_entries(parts.services)  # which workers of that queue do, too
    tick(parts.services, [])
    assert (run_due(parts.services), parts.waiting(AUTOMATIONS)) == (0, 0)
    with parts.services.database.write() as transaction:
        transaction.execute(update(BulkAction).values(due_time=now()))
    tick(parts.services, [])
    assert parts.waiting(AUTOMATIONS) == 1
    finish(parts)
    action = find_action(parts, action_id)
    assert (action.state, action.done, action.left_out) == ("done", 3, {})
    assert rows.states([*group_ids, *others, *delivered]) == ["queued"] * 3 + ["failed"] * 2 + ["delivered"] * 2
    assert rows.steps(group_ids[0]) == [("requeued", "was failed: expired")]
    assert parts.waiting(SENDS) == 1
    name = f"retry state=failed&group_id={group_id}"
    assert acts(parts) == [
        ("bulk_action.asked", name, "ann", {"recipients": 3}),
        ("bulk_action.ended", name, "service", {"retried": 3, "left_out": 0}),
    ]
    tick(parts.services, [])
    with parts.services.database.read() as session:
        assert not has_due(session)


def test_what_is_retried_is_as_a_single_retry_leaves_it(parts: Alone, rows: Rows) -> None:
    """Counts of the group, state, reason, attempts, priority and queue entry."""
    ids = [*failed(rows, 2, "bounced", "550 no", priority="high"), *failed(rows, 2)]
    unsure = rows.add_send(["a@example.com", "b@example.com"])
    rows.change(unsure, state="uncertain", due_time=now() + timedelta(hours=1))
    alone_, together = [ids[0], ids[2], unsure[0]], [ids[1], ids[3], unsure[1]]
    for recipient_id in alone_:
        with parts.services.database.write() as transaction:
            requeue(transaction, rows.recipient(recipient_id).uuid)
    asked(rows, [("state:in", "bounced,failed,uncertain")])
    finish(parts)
    ignored = {"id", "uuid", "email", "due_time"}
    for first, second in zip(alone_, together, strict=True):
        left, right = (vars(rows.recipient(recipient_id)) for recipient_id in (first, second))
        assert {name: value for name, value in left.items() if name not in ignored} == {
            name: value for name, value in right.items() if name not in ignored
        }
        assert rows.steps(first) == rows.steps(second)
        counted = rows.group_of(first)
        assert (counted.bounced, counted.failed_contacts) in ((-2, 0), (0, -2), (0, 0))


def test_what_cannot_be_retried_is_left_out_and_counted_by_reason(parts: Alone, rows: Rows) -> None:
    fine, blocked, no_contact, forgotten, purged, secret = (failed(rows, 1)[0] for _ in range(6))
    rows.change([blocked], email="Dead@example.com")
    parts.tenant.add(
        BlockedAddress, kind="email", address="dead@example.com", reason="bounced", creation_time=this_second()
    )
    rows.change([no_contact], reason="contact_deleted")
    parts.tenant.add(RecipientStep, recipient_id=forgotten, time=now(), step="forgotten")
    with parts.services.database.write() as transaction:
        send_update = update(Send).where(Send.id == rows.recipient(purged).send_id)
        transaction.execute(send_update.values(content_purged_time=now()))
    rows.change([secret], values={"code": None, "name": "null"})
    rows.change([fine], values={"name": "null"})
    with parts.services.database.read() as session:
        previewed = preview(session, RETRY, session.get_one(Account, rows.account_id), FAILED)
    assert previewed.left_out == {
        **{blocked: "blocked", no_contact: "no_contact", forgotten: "forgotten"},
        **{purged: "content_purged", secret: "secret_values_gone"},
    }
    reasons = ("blocked", "no_contact", "forgotten", "content_purged", "secret_values_gone")
    assert (previewed.messages, previewed.done, previewed.looked_at.left_out) == (6, 1, dict.fromkeys(reasons, 1))
    action_id = asked(rows)
    finish(parts)
    action = find_action(parts, action_id)
    assert (action.state, action.done, action.left_out) == ("done", 1, dict.fromkeys(reasons, 1))
    assert rows.states([fine, blocked]) == ["queued", "failed"]


def test_a_preview_counts_all_that_would_be_left_out_as_the_run_does(
    parts: Alone, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Part by part; what it has no time for is said, and an action without anything to do is refused."""
    monkeypatch.setattr("app.bulk_actions.preview.PART_SIZE", 10)
    blocked, secret = failed(rows, 7), failed(rows, 5)
    rows.change(blocked, email="dead@example.com")
    rows.change(secret, values={"code": None})
    parts.services.database.transact(
        lambda transaction: block(transaction, rows.account_id, "email", "dead@example.com", "by hand")
    )

    def counted_by_preview() -> tuple[int, int, int, dict[str, int]]:
        with parts.services.database.read() as session:
            previewed = preview(session, RETRY, session.get_one(Account, rows.account_id), FAILED)
        return previewed.messages, previewed.done, previewed.not_looked_at, dict(previewed.looked_at.left_out)

    assert counted_by_preview() == (12, 0, 0, {"blocked": 7, "secret_values_gone": 5})
    with pytest.raises(ServiceError) as refused:
        asked(rows)
    assert refused.value.errors[0].developer_message == "No matching message can be retried."
    failed(rows, 13)
    assert counted_by_preview() == (25, 13, 0, {"blocked": 7, "secret_values_gone": 5})
    action = find_action(parts, asked(rows))
    finish(parts)
    action = find_action(parts, action.id)
    assert (action.messages, action.done, action.left_out) == (25, 13, {"blocked": 7, "secret_values_gone": 5})
    monkeypatch.setattr("app.bulk_actions.preview.INSPECTION_SECONDS", -1.0)
    assert counted_by_preview() == (12, 2, 2, {"blocked": 7, "secret_values_gone": 3})


def test_an_account_acts_upon_its_own_messages_alone(parts: Alone, rows: Rows) -> None:
    other = Rows(parts.services, new_tenant(parts.tenant.app).id)
    own_ids, others = failed(rows, 2), failed(other, 2)
    action_id = asked(rows)
    with pytest.raises(ServiceError), parts.services.database.write() as transaction:
        cancel(transaction, other.account_id, action_id)
    finish(parts)
    assert (rows.states(own_ids), other.states(others)) == (["queued"] * 2, ["failed"] * 2)


def test_messages_that_were_accepted_later_are_left_alone(parts: Alone, rows: Rows) -> None:
    before = failed(rows, 2)
    asked(rows)
    after = failed(rows, 2)
    finish(parts)
    assert (rows.states(before), rows.states(after)) == (["queued"] * 2, ["failed"] * 2)


def test_messages_that_match_no_longer_are_left_alone(parts: Alone, rows: Rows) -> None:
    """Whether they changed before their slice, or between its search and its locks."""
    ids = failed(rows, 3)
    action_id = asked(rows)
    rows.change(ids[:1], state="delivered", reason=None)
    with parts.services.database.read() as session:
        found_slice = run._slice(session, session.get_one(BulkAction, action_id), 10)
    assert list(found_slice.ids) == ids[1:]
    rows.change(ids[1:2], state="bounced", reason="550 no")
    with parts.services.database.write() as transaction:
        assert run._act(transaction, parts.services, found_slice)
    assert rows.states(ids) == ["delivered", "bounced", "queued"]
    action = find_action(parts, action_id)
    assert (action.state, action.done, action.left_out) == ("done", 1, {"state": 1})


def test_ten_thousand_messages_take_a_fixed_number_of_statements_per_slice(
    parts: Alone, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.write_turns.FIRST_ROWS", 1000)
    monkeypatch.setattr("app.db.write_turns.MIN_ROWS", 1000)
    few, many = failed(rows, 1), failed(rows, 10_000)
    group_id = rows.recipient(few[0]).group_id
    asked(rows, [*FAILED, ("group_id", str(group_id))])
    with StatementCounter(parts.services.database.engine) as counted:
        assert run_due(parts.services, time_slice=0) == 1
    count_for_one = counted.count
    action_id = asked(rows)
    sliced: list[int] = []
    while not find_action(parts, action_id).end_time:
        with StatementCounter(parts.services.database.engine) as counted:
            run_due(parts.services, time_slice=0)
        sliced.append(counted.count)
    assert len(sliced) == 11
    assert max(sliced) <= count_for_one + 2, "the next action is looked for, too"
    assert set(rows.states([many[0], many[-1], few[0]])) == {"queued"}
    assert find_action(parts, action_id).done == 10_000


def test_a_process_that_dies_in_a_slice_has_done_nothing_of_it(
    parts: Alone, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next process goes on where the last slice has ended, and acts upon each message once."""
    monkeypatch.setattr("app.db.write_turns.FIRST_ROWS", 20)
    ids = failed(rows, 50)
    action_id = asked(rows)
    assert run_due(parts.services, time_slice=0) == 1
    action = find_action(parts, action_id)
    assert (action.state, action.done, action.last_id) == ("running", 20, ids[19])
    with parts.services.database.read() as session:
        found_slice = run._slice(session, action, 20)

    def dies(transaction: Transaction) -> None:
        assert run._act(transaction, parts.services, found_slice)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        parts.services.database.transact(dies)
    assert rows.states(ids) == ["queued"] * 20 + ["failed"] * 30
    finish(parts)
    assert rows.states(ids) == ["queued"] * 50
    assert {len(rows.steps(recipient_id)) for recipient_id in ids} == {1}
    assert (find_action(parts, action_id).done, find_action(parts, action_id).state) == (50, "done")


@each("kind", [RETRY, RELEASE])
def test_a_worker_killed_at_any_of_its_statements_leaves_nothing_half_done(
    parts: Alone, rows: Rows, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    for name in ("FIRST_ROWS", "MIN_ROWS", "MAX_ROWS"):
        monkeypatch.setattr(f"app.db.write_turns.{name}", 5)
    ids = failed(rows, 12)
    if kind is RELEASE:
        ids = rows.add_send([f"held{number}@example.com" for number in range(12)])
        rows.change(ids, state="held", held_state="queued")
    action_id = asked(rows, FAILED if kind is RETRY else [], kind=kind)
    kills, ended_before = 0, [act[0] for act in acts(parts)].count("bulk_action.ended")
    for number in range(1, 200):
        with killed_at(parts.services.database.engine, number):
            run_due(parts.services, time_slice=0)
        action = find_action(parts, action_id)
        assert rows.states(ids).count("queued") == action.done
        if action.end_time is not None:
            break
        kills += 1
    assert kills > 10
    ended = [act[0] for act in acts(parts)].count("bulk_action.ended") - ended_before
    assert (action.state, action.done, ended) == ("done", 12, 1)
    assert {len(rows.steps(recipient_id)) for recipient_id in ids} == {1}


def test_an_action_of_a_kind_that_a_process_does_not_know_waits_for_one_that_does(parts: Alone, rows: Rows) -> None:
    """Two releases may run side by side, and only the newer one knows the kind. The action keeps no other one
    waiting."""
    ids = failed(rows, 3)
    unknown, usual = asked(rows), asked(rows)
    with parts.services.database.write() as transaction:
        transaction.execute(update(BulkAction).where(BulkAction.id == unknown).values(action="fold"))
    finish(parts)
    assert (find_action(parts, unknown).state, find_action(parts, usual).state) == ("waiting", "done")
    assert rows.states(ids) == ["queued"] * 3


def test_two_processes_act_upon_each_message_once(parts: Alone, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.db.write_turns.FIRST_ROWS", 20)
    ids = failed(rows, 200)
    action_id = asked(rows)
    threads = [threading.Thread(target=run_due, args=(parts.services, 60)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    finish(parts)
    assert {len(rows.steps(recipient_id)) for recipient_id in ids} == {1}
    assert find_action(parts, action_id).done == 200


def test_a_slice_that_another_process_has_run_is_not_run_again(parts: Alone, rows: Rows) -> None:
    failed(rows, 3)
    action_id = asked(rows)
    with parts.services.database.read() as session:
        found_slice = run._slice(session, session.get_one(BulkAction, action_id), 1)
    for is_run in (True, False):
        with parts.services.database.write() as transaction:
            assert run._act(transaction, parts.services, found_slice) is is_run
    assert find_action(parts, action_id).done == 1


def test_what_is_cancelled_in_time_is_not_done(parts: Alone, rows: Rows) -> None:
    ids = failed(rows, 2)
    action_id = asked(rows)
    with acting(ANN), parts.services.database.write() as transaction:
        assert cancel(transaction, rows.account_id, action_id).state == "cancelled"
    assert run_due(parts.services) == 0
    assert rows.states(ids) == ["failed"] * 2
    assert [act[0] for act in acts(parts)] == ["bulk_action.asked", "bulk_action.cancelled"]
    with pytest.raises(ServiceError) as refused, parts.services.database.write() as transaction:
        cancel(transaction, rows.account_id, action_id)
    assert "has ended: it is cancelled" in refused.value.errors[0].developer_message


def test_what_is_cancelled_while_it_runs_leaves_the_rest(
    parts: Alone, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.write_turns.FIRST_ROWS", 20)
    ids = failed(rows, 50)
    action_id = asked(rows)
    run_due(parts.services, time_slice=0)
    with parts.services.database.write() as transaction:
        cancel(transaction, rows.account_id, action_id)
    finish(parts)
    assert rows.states(ids) == ["queued"] * 20 + ["failed"] * 30
    assert (find_action(parts, action_id).state, find_action(parts, action_id).done) == ("cancelled", 20)
    assert acts(parts)[-1][3] == {"retried": 20, "left_out": 0}


def test_accounts_take_turns(parts: Alone, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    """An action on many messages does not keep one on few waiting."""
    monkeypatch.setattr("app.db.write_turns.FIRST_ROWS", 20)
    monkeypatch.setattr("app.db.write_turns.MAX_ROWS", 20)
    other = Rows(parts.services, new_tenant(parts.tenant.app).id)
    failed(rows, 100)
    few = failed(other, 3)
    large, small = asked(rows), asked(other)
    for _ in range(2):
        run_due(parts.services, time_slice=0)
    assert other.states(few) == ["queued"] * 3
    assert (find_action(parts, small).state, find_action(parts, large).done) == ("done", 20)


def test_an_action_that_cannot_be_run_ends_as_failed(parts: Alone, rows: Rows) -> None:
    """An action that fails does not stop the others."""
    ids = failed(rows, 2)
    broken, fine = asked(rows), asked(rows)
    with parts.services.database.write() as transaction:
        transaction.execute(update(BulkAction).where(BulkAction.id == broken).values(query="colour=red"))
    finish(parts)
    assert (find_action(parts, broken).state, find_action(parts, fine).state) == ("failed", "done")
    assert rows.states(ids) == ["queued"] * 2


def test_an_action_whose_slice_takes_too_long_lets_others_go_first_and_is_not_lost(parts: Alone, rows: Rows) -> None:
    ids = failed(rows, 2)
    slow, fine = asked(rows), asked(rows)

    def cancel_statement(*_: Any) -> None:
        event.remove(parts.services.database.engine, "before_cursor_execute", cancel_first)
        raise OperationalError(None, None, psycopg.errors.QueryCanceled())

    def cancel_first(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "FROM recipients" in statement:
            cancel_statement()

    event.listen(parts.services.database.engine, "before_cursor_execute", cancel_first)
    before = now()
    with pytest.raises(OperationalError):
        run_due(parts.services)
    finish(parts)
    action = find_action(parts, slow)
    assert (action.end_time, find_action(parts, fine).state) == (None, "done")
    assert before + run.RETRY_DELAY <= action.due_time <= now() + run.RETRY_DELAY
    assert rows.states(ids) == ["queued"] * 2


@each(
    ("pairs", "said"),
    [
        ([("state", "delivered")], "No matching message can be retried."),
        ([*FAILED, ("group_id", "900000000")], "No matching message can be retried."),
        ([("colour", "red")], "colour is not a query parameter"),
        ([*FAILED, ("limit", "5")], "limit is not available here"),
        ([*FAILED, ("email", "ann@example.com")], "a bulk action cannot select a single address"),
        ([*FAILED, ("mobile:in", "61400000001")], "a bulk action cannot select a single address"),
        ([("uuid:in", "x" * MAX_QUERY_LENGTH)], "The query has more than 10,000 characters."),
    ],
)
def test_what_cannot_be_asked_for_says_why(parts: Alone, rows: Rows, pairs: list[tuple[str, str]], said: str) -> None:
    failed(rows, 1)
    with pytest.raises(ServiceError) as refused:
        asked(rows, pairs)
    assert said in refused.value.errors[0].developer_message


def test_a_bulk_action_has_a_maximum_of_messages(parts: Alone, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Kind, "most", 3)
    failed(rows, 4)
    with pytest.raises(ServiceError) as refused:
        asked(rows)
    assert "More than 3 messages match" in refused.value.errors[0].developer_message


def test_an_account_has_a_maximum_of_open_actions(parts: Alone, rows: Rows) -> None:
    failed(rows, 1)
    actions = [asked(rows, due=False) for _ in range(MAX_OPEN_ACTIONS)]
    with pytest.raises(ServiceError) as refused:
        asked(rows)
    assert "5 bulk actions of the account are waiting or running" in refused.value.errors[0].developer_message
    with parts.services.database.write() as transaction:
        cancel(transaction, rows.account_id, actions[0])
    asked(rows)


def test_a_query_of_a_test_account_names_lists_and_messages_by_the_ids_of_the_originals(
    parts: Alone, rows: Rows
) -> None:
    with parts.services.database.write() as transaction:
        transaction.execute(update(Account).where(Account.id == rows.account_id).values(test_of=rows.account_id))
    ids = failed(rows, 2, message_id=-7)
    asked(rows, [*FAILED, ("message_id", "7")])
    finish(parts)
    assert rows.states(ids) == ["queued"] * 2


RELAY_DENIED = "554 5.7.1 <{}>: Relay access denied (in reply to RCPT TO command, id {})"
DENIED = [("state", "blocked"), ("reason", PERMANENT_BOUNCE), ("reply", "relay access DENIED")]


def blocked_by(rows: Rows, reply: str, *addresses: str, account_id: int | None = None) -> None:
    """Addresses that bounces have blocked, each by its own form of the reply."""
    blocks = {
        AccountAddress.of(account_id or rows.account_id, "email", address): Block(
            PERMANENT_BOUNCE, reply.format(address, number)
        )
        for number, address in enumerate(addresses)
    }
    rows.services.database.transact(lambda transaction: block_addresses(transaction, blocks))


def still_blocked(rows: Rows) -> list[str]:
    with rows.services.database.read() as session:
        criteria = BlockedAddress.account_id == rows.account_id
        return sorted(session.scalars(select(BlockedAddress.address).where(criteria)))


def test_addresses_that_one_reply_has_blocked_are_unblocked_together(
    parts: Alone, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In slices, with an event for each of their contacts, their soft bounces reset, and an entry in the audit log. No
    others: blocked by another reply, by hand, for another account, or of people who have complained since."""
    monkeypatch.setattr("app.db.write_turns.FIRST_ROWS", 20)
    addresses, other_id = [f"p{number}@example.com" for number in range(45)], new_tenant(parts.tenant.app).id
    blocked_by(rows, RELAY_DENIED, *addresses)
    blocked_by(rows, "550 5.1.1 <{}>: user unknown", "gone@example.com")
    blocked_by(rows, RELAY_DENIED, "theirs@example.com", account_id=other_id)
    contact = rows.add_contact(rows.add_list(), addresses[0])
    database = rows.services.database
    account_id = rows.account_id
    database.transact(lambda transaction: block(transaction, account_id, "email", "hand@example.com", "by hand"))
    complained = addresses[7]
    database.transact(
        lambda transaction: unsubscribe(transaction, account_id, "email", complained, None, block_reason="complaint")
    )
    rows.add(SoftBounces, kind="email", address=addresses[1], bounces=3)
    rows.add_webhook()
    action_id = asked(rows, DENIED, kind=UNBLOCK)
    assert find_action(parts, action_id).messages == 44
    finish(parts)
    action = find_action(parts, action_id)
    assert (action.state, action.done, action.left_out) == ("done", 44, {})
    assert still_blocked(rows) == sorted([complained, "gone@example.com", "hand@example.com"])
    assert still_blocked(Rows(rows.services, other_id)) == ["theirs@example.com"]
    events = [json.loads(payload) for payload in rows.payloads()]
    assert [(event["object"], event["event"], event["id"]) for event in events] == [("contact", "updated", contact)]
    with rows.services.database.read() as session:
        assert session.scalars(select(SoftBounces).where(SoftBounces.account_id == rows.account_id)).all() == []
    name = "unblock state=blocked&reason=permanent%20bounce&reply=relay%20access%20DENIED"
    assert acts(parts) == [
        ("bulk_action.asked", name, "ann", {"suppressions": 44}),
        ("bulk_action.ended", name, "service", {"unblocked": 44, "left_out": 0}),
    ]


def test_an_address_that_is_blocked_again_after_it_was_asked_for_stays_blocked(parts: Alone, rows: Rows) -> None:
    """Somebody unblocked the address and sent to it after the action was asked for. The mail server's answer then
    blocked it again."""
    blocked_by(rows, RELAY_DENIED, "ann@example.com", "bob@example.com")
    action_id = asked(rows, DENIED, kind=UNBLOCK)
    account_id = rows.account_id
    rows.services.database.transact(lambda transaction: unblock(transaction, account_id, "email", "ann@example.com"))
    blocked_by(rows, RELAY_DENIED, "ann@example.com", "new@example.com")
    finish(parts)
    assert still_blocked(rows) == ["ann@example.com", "new@example.com"]
    assert find_action(parts, action_id).done == 1


@each(
    ("pairs", "expected"),
    [
        ([("reason", PERMANENT_BOUNCE)], {"a", "b"}),
        ([("reason", "by hand")], {"c"}),
        ([("reply", "5.7.1")], {"a"}),
        ([("reply", "100%_")], set()),
        ([("reply:in", "5.7.1,user unknown")], {"a", "b"}),
        ([("reply:ne", "5.7.1")], {"b", "c"}),
        ([("reply", "")], {"c"}),
        ([("state", "unsubscribed")], set()),
        ([("creation_time:in", "2020-01-01..2020-12-31")], set()),
        ([("creation_time:in", "2020-01-01..2100-01-01"), ("reason:ne", "by hand")], {"a", "b"}),
    ],
)
def test_addresses_to_unblock_are_chosen_by_reason_reply_and_time(
    parts: Alone, rows: Rows, pairs: list[tuple[str, str]], expected: set[str]
) -> None:
    blocked_by(rows, RELAY_DENIED, "a@example.com")
    blocked_by(rows, "550 5.1.1 user unknown", "b@example.com")
    account_id = rows.account_id
    rows.services.database.transact(lambda t: block(t, account_id, "email", "c@example.com", "by hand"))
    with parts.services.database.read() as session:
        previewed = preview(session, UNBLOCK, session.get_one(Account, rows.account_id), pairs)
    assert {row.address.partition("@")[0] for row in previewed.rows} == expected
    assert previewed.messages == len(expected)


@pytest.mark.parametrize("pair", [("email", "ann@example.com"), ("reply", "<ann@example.com>"), ("mobile", "614")])
def test_unblocking_many_is_not_about_one_address(parts: Alone, rows: Rows, pair: tuple[str, str]) -> None:
    """What is stored of a bulk action names nobody."""
    with pytest.raises(ServiceError) as refused:
        asked(rows, [pair], kind=UNBLOCK)
    assert refused.value.code == "parameter_not_available"
    assert "unblock it on its own" in refused.value.errors[0].developer_message


def test_unblocking_takes_as_many_statements_for_many_as_for_few(
    parts: Alone, rows: Rows, count_statements: Callable[[], StatementCounter]
) -> None:
    costs = []
    for number in (2, 80):
        blocked_by(rows, RELAY_DENIED, *(f"{number}-{index}@example.com" for index in range(number)))
        list_id = rows.add_list()
        for index in range(number):
            rows.add_contact(list_id, f"{number}-{index}@example.com")
        asked(rows, DENIED, kind=UNBLOCK)
        with count_statements() as counted:
            finish(parts)
        costs.append(counted.count)
    assert costs[0] == costs[1]
