"""`test-account delete` and `accounts delete`: all of the account goes, and nothing else (docs/testing.md#deleting)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, update

from app.clock import now
from app.contacts.suppress import block, unsubscribe
from app.db import write_turns
from app.db.models import (
    Account,
    ApiKey,
    Base,
    CapturedMessage,
    Contact,
    Event,
    QueueEntry,
    Recipient,
    RecipientStep,
    Webhook,
    WebhookAttempt,
)
from app.maintenance.account_deletion import delete_account, delete_test_account, rows_to_delete
from app.sends.delivery.drain import drain
from app.sends.outcomes.attempt_result import AttemptResult
from app.sends.outcomes.transitions import RetryRules
from app.sends.outcomes.write import write_outcomes
from app.transports.base import DeliveryResult
from tests.support.client import Client, check_error
from tests.support.contacts import add_webhook
from tests.support.sends import SendsApi, rows_of
from tests.support.servers import PATIENCE, wait_until
from tests.support.tenants import Tenant, new_email, unique
from tests.support.testing import refreshed

OUTLIVING = {"audit_entries"}
"""What stays when an account is deleted (docs/audit.md#append-only)."""

Rows = dict[str, list[tuple[Any, ...]]]


@pytest.fixture
def sends(tenant: Tenant) -> SendsApi:
    """The live account."""
    return SendsApi(tenant)


@pytest.fixture
def test(sends: SendsApi) -> Tenant:
    """The test account of the live account."""
    assert sends.list_id
    assert sends.number
    sends.tenant.add_message()
    return refreshed(sends.tenant)


test.__test__ = False  # type: ignore[attr-defined]


def rows(tenant: Tenant) -> Rows:
    """All rows that are the account's, by table."""
    rows_by_table = {}
    with tenant.services.database.read() as session:
        for table in Base.metadata.sorted_tables:
            if "account_id" in table.columns and table.name not in OUTLIVING:
                statement = select(table).where(table.c.account_id == tenant.id)
                rows_by_table[table.name] = sorted(map(tuple, session.execute(statement)), key=repr)
    return {name: table_rows for name, table_rows in rows_by_table.items() if table_rows}


def account(tenant: Tenant) -> Account:
    with tenant.services.database.read() as session:
        return session.get_one(Account, tenant.id)


def is_there(tenant: Tenant) -> bool:
    with tenant.services.database.read() as session:
        return session.get(Account, tenant.id) is not None


def delete(test: Tenant, advance: Callable[[int], None] = lambda _: None) -> dict[str, int]:
    return dict(delete_test_account(test.services.database, account(test), advance))


def fill(sends: SendsApi, tenant: Tenant) -> None:
    """Sends, with an attachment and to an unsubscribed address, in an account with a webhook and contacts."""
    add_webhook(tenant)
    (webhook,) = rows_of(tenant, Webhook)
    gone = new_email()
    tenant.new_contact(sends.list_id, email=gone)
    with tenant.services.database.write() as transaction:
        unsubscribe(transaction, tenant.id, "email", gone, None)
        block(transaction, tenant.id, "email", new_email(), "hard_bounce")
    recipients = [{"email": new_email()}, {"email": gone}]
    attachments = [{"type": "text/plain", "name": "a.txt", "content": "YQ=="}]
    body = sends.email(recipients=recipients, attachments=attachments, body_html='<a href="https://x.example/">x</a>')
    SendsApi(tenant).post(body, headers={"Idempotency-Key": unique("key")})
    tenant.add(
        WebhookAttempt,
        webhook_id=webhook.id,
        **{"batch_id": "b", "time": now(), "events": 1, "outcome": "failed", "milliseconds": 5},
    )


def test_everything_of_the_tests_goes_and_nothing_of_the_account(sends: SendsApi, test: Tenant) -> None:
    for account in (sends.tenant, test):
        fill(sends, account)
    drain(test.services)
    live, made = rows(sends.tenant), rows(test)
    assert live.keys() - made.keys() == set()
    assert {"recipients", "recipient_steps", "events", "captured_messages", "attachments", "send_links"} <= made.keys()
    with test.services.database.read() as session:
        total = rows_to_delete(session, test.id)
    advanced: list[int] = []
    deleted = delete(test, advanced.append)
    assert rows(test) == {}
    assert not is_there(test)
    assert rows(sends.tenant) == live
    steps = select(func.count()).where(RecipientStep.recipient_id.in_([row[0] for row in made["recipients"]]))
    with test.services.database.read() as session:
        assert session.scalar(steps) == 0
    expected = ("recipients", "sends", "groups", "contacts", "captured_messages", "events", "webhooks")
    counted = {noun: len(made["transactional_groups" if noun == "groups" else noun]) for noun in expected}
    assert {noun: deleted[noun] for noun in expected} == counted
    assert deleted["keys"] == 1
    assert sum(advanced) == total


def test_a_key_stops_working_and_the_next_one_begins_anew(sends: SendsApi, test: Tenant) -> None:
    SendsApi(test).send(sends.email())
    delete(test)
    check_error(Client(test.app, test.tokens["standard"]).get("/v1/lists"), 401, "api_key_invalid")
    again = refreshed(sends.tenant)
    assert again.id != test.id
    SendsApi(again).send(sends.email())
    drain(again.services)
    assert len(rows_of(again, CapturedMessage)) == 1


@pytest.mark.parametrize("state", ["queued", "scheduled"])
def test_what_waits_is_not_captured_any_more(sends: SendsApi, test: Tenant, state: str) -> None:
    """It is due when its account is gone."""
    uuids = SendsApi(test).send(sends.email()).uuids
    with test.services.database.write() as transaction:
        transaction.execute(update(QueueEntry).where(QueueEntry.account_id == test.id).values(state=state))
    live = sends.send(sends.email())
    delete(test)
    drain(test.services)
    assert live.recipient.state == "delivered"
    with test.services.database.read() as session:
        assert session.scalar(select(func.count()).where(CapturedMessage.uuid.in_(uuids))) == 0
        assert session.scalar(select(func.count()).where(QueueEntry.account_id == test.id)) == 0


class StopHere(Exception):
    """Stops a deletion between its steps, as Ctrl-C does."""


def test_an_interrupted_deletion_is_gone_on_with(
    sends: SendsApi, test: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In transactions of two rows, however many there are."""
    for name in ("FIRST_ROWS", "MIN_ROWS", "MAX_ROWS"):
        monkeypatch.setattr(write_turns, name, 2)
    monkeypatch.setattr(write_turns, "PAUSE_SECONDS", 0)
    body = sends.email(recipients=[{"email": new_email()} for _ in range(7)])
    SendsApi(test).send(body)
    drain(test.services)
    live = rows(sends.tenant)

    def stop(_: int) -> None:
        if len(rows_of(test, Recipient)) < 4:
            raise StopHere

    with pytest.raises(StopHere):
        delete(test, stop)
    assert [len(rows_of(test, model)) for model in (ApiKey, Recipient, CapturedMessage, Contact)] == [0, 3, 7, 7]
    advanced: list[int] = []
    deleted = delete(test, advanced.append)
    assert (deleted["recipients"], deleted["captured_messages"], max(advanced)) == (3, 7, 2)
    assert rows(test) == {}
    assert not is_there(test)
    assert rows(sends.tenant) == live


def test_a_message_that_is_being_sent_is_waited_for(sends: SendsApi, test: Tenant) -> None:
    add_webhook(test)
    (first, second) = SendsApi(test).send(sends.email(recipients=[{"email": new_email()} for _ in range(2)])).recipients
    with test.services.database.write() as transaction:
        sending = update(QueueEntry).where(QueueEntry.recipient_id == first.id)
        transaction.execute(sending.values(state="sending", worker="w", lease_time=now() + timedelta(seconds=90)))
    thread = threading.Thread(target=delete, args=[test])
    thread.start()
    wait_until(
        lambda: [row.recipient_id for row in rows_by_account(test, QueueEntry)] == [first.id], "the queue is emptied"
    )
    assert rows_of(test, ApiKey) == []
    assert {row.id for row in rows_of(test, Recipient)} == {first.id, second.id}
    with test.services.database.write() as transaction:  # as its worker would, which has written the outcome
        transaction.delete(transaction.get_one(QueueEntry, first.id))
    thread.join(PATIENCE)
    assert not is_there(test)


def rows_by_account(tenant: Tenant, model: Any) -> list[Any]:
    with tenant.services.database.read() as session:
        return list(session.scalars(select(model).where(model.account_id == tenant.id)))


def test_a_message_whose_worker_has_died_is_not_waited_for(sends: SendsApi, test: Tenant) -> None:
    accepted = SendsApi(test).send(sends.email(recipients=[{"email": new_email()} for _ in range(2)]))
    ended, uncertain = accepted.recipients
    with test.services.database.write() as transaction:
        entries = {row.recipient_id: row for row in transaction.scalars(select(QueueEntry))}
        entries[ended.id].state, entries[ended.id].worker = "sending", "gone"
        entries[ended.id].lease_time = now() - timedelta(seconds=1)
        entries[uncertain.id].state = "uncertain"
    delete(test)
    assert rows(test) == {}
    assert not is_there(test)


def test_a_worker_that_claims_messages_meanwhile_writes_nothing(sends: SendsApi, test: Tenant) -> None:
    """The messages belong to a request that was accepted while the keys were deleted."""
    (recipient,) = SendsApi(test).send(sends.email()).recipients
    add_webhook(test)
    test.new_contact(sends.list_id, email=new_email())
    late: list[int] = []

    def claim_late(_: int) -> None:
        if not late and not rows_by_account(test, QueueEntry):
            late.append(recipient.id)
            with test.services.database.write() as transaction:
                transaction.add(claimed_entry(recipient))

    delete(test, claim_late)
    assert late == [recipient.id]
    assert rows(test) == {}
    result = AttemptResult(recipient.id, 1, recipient.email, now(), DeliveryResult.accepted("captured"))
    with test.services.database.write() as transaction:
        assert write_outcomes(transaction, "late", [result], RetryRules.of(test.services.settings)) == []
    assert rows(test) == {}


def claimed_entry(recipient: Any) -> QueueEntry:
    moment = now()
    columns: dict[str, Any] = {"state": "sending", "worker": "late", "lease_time": moment + timedelta(seconds=90)}
    columns |= {"priority": "normal", "due_time": moment, "ready_time": moment, "attempts": 1}
    return QueueEntry(recipient_id=recipient.id, account_id=recipient.account_id, **columns)


def test_a_live_account_is_refused(sends: SendsApi) -> None:
    sends.send(sends.email())
    before = rows(sends.tenant)
    with pytest.raises(ValueError, match="is not a test account"):
        delete(sends.tenant)
    assert rows(sends.tenant) == before


def test_events_are_deleted_with_their_webhook_only(sends: SendsApi, test: Tenant) -> None:
    add_webhook(test)
    add_webhook(sends.tenant)
    (webhook,) = rows_of(sends.tenant, Webhook)
    sends.tenant.new_contact(sends.list_id, email=new_email())
    test.new_contact(sends.list_id, email=new_email())
    delete(test)
    assert [row.webhook_id for row in rows_of(sends.tenant, Event)] == [webhook.id]


def test_a_live_account_goes_with_its_test_account_also_after_an_interruption(
    sends: SendsApi, test: Tenant, other_tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In transactions of two rows, however many there are. Nobody can use the account from the first one on."""
    for name in ("FIRST_ROWS", "MIN_ROWS", "MAX_ROWS"):
        monkeypatch.setattr(write_turns, name, 2)
    monkeypatch.setattr(write_turns, "PAUSE_SECONDS", 0)
    others = SendsApi(other_tenant)
    for api, tenant in ((sends, sends.tenant), (sends, test), (others, other_tenant)):
        fill(api, tenant)
    drain(test.services)
    live, theirs, advanced = sends.tenant, rows(other_tenant), list[int]()

    def stop(count: int) -> None:
        advanced.append(count)
        if len(rows_of(live, Recipient)) < 2:
            raise StopHere

    with pytest.raises(StopHere):
        delete_account(live.services.database, account(live), stop)
    assert not is_there(test)
    assert len(rows_of(live, Recipient)) < 2 < len(rows(live))
    check_error(live.api.get("/v1/"), 401, "api_key_invalid")
    delete_account(live.services.database, account(live), advanced.append)
    assert max(advanced) == 2
    assert (rows(live), rows(test), is_there(live)) == ({}, {}, False)
    assert rows(other_tenant) == theirs


def test_what_comes_into_the_queue_of_an_account_that_is_deleted_is_not_sent(sends: SendsApi) -> None:
    """Such as by an automation, whose step was under way."""
    add_webhook(sends.tenant)
    (recipient,) = sends.send(sends.email()).recipients
    states: list[str] = []

    def queue_late(_: int) -> None:
        if not states:
            with sends.tenant.services.database.write() as transaction:
                entry = claimed_entry(recipient)
                entry.state, entry.worker, entry.lease_time, entry.attempts = "queued", None, None, 0
                transaction.add(entry)
            drain(sends.tenant.services)
            states.extend(row.state for row in rows_by_account(sends.tenant, QueueEntry))

    delete_account(sends.tenant.services.database, account(sends.tenant), queue_late)
    assert states == ["paused"]
    assert (rows(sends.tenant), is_there(sends.tenant)) == ({}, False)
