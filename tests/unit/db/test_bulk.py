"""Statements for many rows and values have the same effect on both databases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, select

from app.db.bulk import Conflict, draw_ids, insert_new_rows, insert_rows
from app.db.expressions import in_json
from app.db.models import Attachment, Contact, Send, SoftBounces, Unsubscriber
from tests.support.statements import StatementCounter
from tests.support.tenants import Tenant

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=30)
FIRST = datetime(1990, 1, 1, tzinfo=UTC)
MOMENTS = st.timedeltas(timedelta(0), timedelta(days=40_000)).map(lambda later: FIRST + later)
VALUES = st.dictionaries(TEXT, TEXT | st.integers(-(2**63), 2**63 - 1) | st.floats(-1e15, 1e15), max_size=3)
CONTACT = st.fixed_dictionaries(
    {
        "creation_time": MOMENTS,
        "last_modified_time": MOMENTS,
        "email": st.none() | TEXT,
        "double_opt_in_time": st.none() | MOMENTS,
        "is_active": st.booleans(),
        "values": VALUES,
    }
)

SEND: dict[str, Any] = {
    "request_id": "1",
    "creation_time": FIRST,
    "type": "email",
    "group_id": 1,
    "group_name": "a",
    "from_address": "b",
}


@pytest.fixture
def list_id(tenant: Tenant) -> int:
    return tenant.add_list()


def test_rows_are_read_as_they_were_written(tenant: Tenant, list_id: int) -> None:
    database = tenant.services.database

    @settings(max_examples=25)
    @given(st.lists(CONTACT, min_size=1, max_size=5))
    def check(written: list[dict[str, Any]]) -> None:
        with database.write() as transaction:
            transaction.execute(delete(Contact).where(Contact.list_id == list_id))
            ids = draw_ids(transaction, Contact, len(written))
            shared = {"account_id": tenant.id, "list_id": list_id}
            insert_rows(transaction, Contact, [{"id": i, **shared, **row} for i, row in zip(ids, written, strict=True)])
        with database.read() as session:
            stored = session.scalars(select(Contact).where(Contact.list_id == list_id).order_by(Contact.id)).all()
        assert [
            {name: getattr(row_written, name) for name in row} for row_written, row in zip(stored, written, strict=True)
        ] == written
        # A column without a value has the default of the model, or null.
        assert {
            (unsubscriber.mobile, unsubscriber.subscribed_email, unsubscriber.double_opt_in) for unsubscriber in stored
        } == {(None, True, False)}

    check()


def test_times_of_other_zones_are_stored_as_the_same_instant(tenant: Tenant, list_id: int) -> None:
    moment = datetime(2026, 1, 1, 3, 0, 0, 5, tzinfo=timezone(timedelta(hours=2)))
    row = {"account_id": tenant.id, "list_id": list_id, "creation_time": moment, "last_modified_time": moment}
    with tenant.services.database.write() as transaction:
        insert_rows(transaction, Contact, [row])
    with tenant.services.database.read() as session:
        stored = session.scalars(select(Contact.creation_time).where(Contact.list_id == list_id)).all()
    assert stored == [datetime(2026, 1, 1, 1, 0, 0, 5, tzinfo=UTC)]


def test_naive_times_are_refused(tenant: Tenant, list_id: int) -> None:
    moment = FIRST.replace(tzinfo=None)
    row = {"account_id": tenant.id, "list_id": list_id, "creation_time": moment, "last_modified_time": moment}
    with tenant.services.database.write() as transaction, pytest.raises((TypeError, ValueError)):
        insert_rows(transaction, Contact, [row])


def test_existing_rows_are_skipped(tenant: Tenant) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    shared = {"account_id": tenant.id, "list_id": None, "kind": "email", "creation_time": moment}
    with tenant.services.database.write() as transaction:
        insert_new_rows(transaction, Unsubscriber, [{**shared, "address": "a"}])
        insert_new_rows(transaction, Unsubscriber, [{**shared, "address": address} for address in ("a", "b", "b")])
        insert_new_rows(transaction, Unsubscriber, [])
        stored = transaction.scalars(select(Unsubscriber.address).where(Unsubscriber.account_id == tenant.id)).all()
    assert sorted(stored) == ["a", "b"]


def test_many_new_rows_are_one_statement_that_tells_which_were_written(tenant: Tenant) -> None:
    """However many values they have: more than a statement may have parameters."""
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    shared = {"account_id": tenant.id, "list_id": None, "kind": "email", "creation_time": moment}
    database, new_rows = tenant.services.database, [{"address": f"{number}"} for number in range(20_000)]
    with database.write() as transaction:
        insert_new_rows(transaction, Unsubscriber, new_rows[::2], shared)
        with StatementCounter(database.engine) as counter:
            written = insert_new_rows(transaction, Unsubscriber, new_rows, shared, returning=("address", "kind"))
        transaction.rollback()
    assert sorted(map(tuple, written)) == sorted((row["address"], "email") for row in new_rows[1::2])
    assert len(counter.sent) <= (1 if database.is_postgresql else 20)


def test_refused_rows_change_the_existing_ones_as_asked_for(tenant: Tenant) -> None:
    added = Conflict(("account_id", "kind", "address"), (("bounces", "soft_bounces.bounces + excluded.bounces"),))
    shared = {"account_id": tenant.id, "kind": "email"}
    with tenant.services.database.write() as transaction:
        for given in ({"a": 1}, {"a": 2, "b": 3}):
            rows = [{"address": address, "bounces": bounces} for address, bounces in given.items()]
            insert_new_rows(transaction, SoftBounces, rows, shared, conflict=added)
        query = select(SoftBounces.address, SoftBounces.bounces).where(SoftBounces.account_id == tenant.id)
        assert {row.address: row.bounces for row in transaction.execute(query)} == {"a": 3, "b": 3}


def test_bytes_are_stored_unchanged(tenant: Tenant) -> None:
    send_id = tenant.add(Send, **SEND)
    content = bytes(range(256))
    file = {"name": "a", "mime_type": "text/plain", "content_id": "content_1", "content": content}
    with tenant.services.database.write() as transaction:
        keys = {"account_id": tenant.id, "send_id": send_id, "recipient_id": None}
        insert_rows(transaction, Attachment, [{**keys, **file, "position": position} for position in (0, 1)])
        stored = transaction.scalars(select(Attachment.content).where(Attachment.send_id == send_id)).all()
    assert stored == [content, content]


def test_in_json_finds_exactly_the_listed_values(tenant: Tenant, list_id: int) -> None:
    database = tenant.services.database
    emails = ["ann@example.com", "o\"b\\'{},%s:x@example.com", "ü@example.com", ""]
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    shared = {"account_id": tenant.id, "list_id": list_id, "creation_time": moment, "last_modified_time": moment}
    with database.write() as transaction:
        ids = draw_ids(transaction, Contact, len(emails))
        rows = [{"id": i, **shared, "email": email} for i, email in zip(ids, emails, strict=True)]
        insert_rows(transaction, Contact, rows)
    mine = select(Contact.email).where(Contact.list_id == list_id).order_by(Contact.id)
    with database.read() as session:
        for count in range(len(emails) + 1):
            assert session.scalars(mine.where(in_json(Contact.email, emails[:count]))).all() == emails[:count]
            assert session.scalars(mine.where(in_json(Contact.id, ids[:count]))).all() == emails[:count]
        assert session.scalars(mine.where(~in_json(Contact.id, ids[:3]))).all() == emails[3:]
