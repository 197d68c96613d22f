"""Events and triggers are rows written in the transaction of the change (docs/contacts.md#events-and-triggers)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from sqlalchemy import select

from app.automations.definition import fire_triggers
from app.db.bulk import insert_rows
from app.db.models import Event, TriggerFiring
from app.events import batches, outbox
from app.events.outbox import record, record_many
from app.events.webhooks import delete_webhook, find_webhook
from app.services import Services
from tests.jobs.conftest import AddHook
from tests.support.servers import PATIENCE
from tests.support.statements import StatementCounter

FIRST_URL, SECOND_URL = "http://127.0.0.1:9/one", "http://127.0.0.1:9/two"


def verbs(counted: StatementCounter) -> list[str]:
    """The kinds of the statements, without the begin that SQLite needs."""
    keywords = [statement.split()[0] for statement in counted.statements]
    return [verb for verb in keywords if verb != "BEGIN"]


def stored(services: Services, webhook_id: int) -> list[Any]:
    """The payloads queued for a webhook, in order."""
    with services.database.read() as session:
        texts = session.scalars(select(Event.payload).where(Event.webhook_id == webhook_id).order_by(Event.id))
        return [orjson.loads(text) for text in texts]


def test_every_webhook_of_the_account_gets_every_event_in_order(
    services: Services, account_id: int, other_id: int, add_hook: AddHook, count_statements: Callable[[], Any]
) -> None:
    hooks = [add_hook(FIRST_URL), add_hook(SECOND_URL)]
    foreign = add_hook(FIRST_URL, account_id=other_id)
    payloads: list[dict[str, Any]] = [{"n": number, "text": 'ü"\n'} for number in range(50)]
    with services.database.write() as transaction, count_statements() as counted:
        record(transaction, account_id, payloads)
    assert verbs(counted) == ["SELECT", "INSERT"]
    assert [stored(services, hook.id) for hook in hooks] == [payloads, payloads]
    assert stored(services, foreign.id) == []


def test_events_of_several_accounts_take_one_select_and_one_insert(
    services: Services, account_id: int, other_id: int, add_hook: AddHook, count_statements: Callable[[], Any]
) -> None:
    own_hook, foreign = add_hook(FIRST_URL), add_hook(FIRST_URL, account_id=other_id)
    with services.database.write() as transaction, count_statements() as counted:
        record_many(transaction, {account_id: [{"n": 1}, {"n": 2}], other_id: [{"n": 3}]})
    assert verbs(counted) == ["SELECT", "INSERT"]
    assert stored(services, own_hook.id) == [{"n": 1}, {"n": 2}]
    assert stored(services, foreign.id) == [{"n": 3}]


def test_an_account_without_webhooks_writes_nothing(
    services: Services, account_id: int, count_statements: Callable[[], Any]
) -> None:
    with services.database.write() as transaction, count_statements() as counted:
        record(transaction, account_id, [{"n": 1}])
    assert verbs(counted) == ["SELECT"]


def test_no_events_take_no_statement(services: Services, account_id: int, count_statements: Callable[[], Any]) -> None:
    with services.database.write() as transaction, count_statements() as counted:
        record_many(transaction, {account_id: []})
    assert verbs(counted) == []


def test_a_change_that_fails_leaves_no_event_and_no_trigger(
    services: Services, account_id: int, add_hook: AddHook
) -> None:
    hook = add_hook(FIRST_URL)

    def change() -> None:
        with services.database.write() as transaction:
            record(transaction, account_id, [{"n": 1}])
            fire_triggers(transaction, account_id, "created", [(1, 2)])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        change()
    assert stored(services, hook.id) == []
    assert fired(services, account_id) == []


def test_events_go_only_to_webhooks_that_existed_at_the_time_of_the_change(
    services: Services, account_id: int, add_hook: AddHook
) -> None:
    early = add_hook(FIRST_URL)
    early.happen(1)
    late = add_hook(SECOND_URL)
    early.happen(2)
    assert stored(services, early.id) == [{"n": 1}, {"n": 2}]
    assert stored(services, late.id) == [{"n": 2}]


def test_deleting_a_webhook_does_not_fail_a_change_that_writes_its_events(
    services: Services, account_id: int, add_hook: AddHook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worst moment for the deletion is between the select of webhooks and the insert of their events. On PostgreSQL
    it need not wait for the change."""
    hook = add_hook(FIRST_URL)

    def delete() -> None:
        with services.database.write() as transaction:
            delete_webhook(transaction, find_webhook(transaction, account_id, FIRST_URL))

    def insert_late(*arguments: Any) -> None:
        thread.start()
        if services.database.is_postgresql:
            thread.join(PATIENCE)
            assert hook.row is None
        insert_rows(*arguments)

    thread = threading.Thread(target=delete)
    monkeypatch.setattr(outbox, "insert_rows", insert_late)
    with services.database.write() as transaction:
        record(transaction, account_id, [{"n": 1}])
    thread.join(PATIENCE)
    assert (hook.row, hook.waiting, batches.claim(services)) == (None, 0, None)


def test_an_open_transaction_does_not_hide_the_webhook_from_dispatch(
    services: Services, account_id: int, add_hook: AddHook
) -> None:
    if not services.database.is_postgresql:
        return  # one writer at a time: this cannot happen
    hook = add_hook(FIRST_URL)
    hook.happen(1)
    with services.database.write() as transaction:
        record(transaction, account_id, [{"n": 2}])
        batch = batches.claim(services)
    assert batch is not None
    assert batch.payloads == ['{"n":1}']


def fired(services: Services, account_id: int) -> list[tuple[str, int, int]]:
    """Action, list and contact of the account's triggers, in order."""
    with services.database.read() as session:
        columns = select(TriggerFiring.action, TriggerFiring.list_id, TriggerFiring.contact_id)
        statement = columns.where(TriggerFiring.account_id == account_id).order_by(TriggerFiring.id)
        return [(action, list_id, contact_id) for action, list_id, contact_id in session.execute(statement)]


def test_triggers_are_written_once_per_contact_in_one_statement(
    services: Services, account_id: int, count_statements: Callable[[], Any]
) -> None:
    with services.database.write() as transaction, count_statements() as counted:
        fire_triggers(transaction, account_id, "created", [(1, 10), (1, 11), (2, 12)])
        fire_triggers(transaction, account_id, "updated", [(1, 10)])
        fire_triggers(transaction, account_id, "updated", [])
    assert verbs(counted) == ["INSERT", "INSERT"]
    assert fired(services, account_id) == [
        ("created", 1, 10),
        ("created", 1, 11),
        ("created", 2, 12),
        ("updated", 1, 10),
    ]
