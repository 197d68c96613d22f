"""Blocking an address updates the contacts that have it (docs/contacts.md#blocked-addresses)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select, text

from app.addresses import AccountAddress
from app.clock import this_second
from app.contacts.blocked import Block, block_addresses, unblock_addresses
from app.contacts.suppress import block, unblock
from app.db.bulk import draw_ids, insert_rows
from app.db.counters import CONTACT_COUNTS, count
from app.db.models import BlockedAddress, Contact, table_of
from app.sends.delivery.drain import drain
from app.sends.outcomes.requeue import requeue_all
from app.services import Services
from tests.jobs.delivery.conftest import events
from tests.support.relay_replies import BLOCKS, PERMANENT, TEMPORARY, relay_replies
from tests.support.rows import Rows
from tests.support.servers import wait_until
from tests.support.statements import StatementCounter
from tests.unit.transports.mailserver import MailServer

LONG_AGO = this_second() - timedelta(days=1)
GONE = "550 5.1.1 no such user"


def add_contacts(rows: Rows, email: str | None, count: int = 1, mobile: str | None = None) -> list[int]:
    """Contacts with the address, each in a list of its own, last changed long ago."""
    return [rows.add_contact(rows.add_list(), email, mobile, last_modified_time=LONG_AGO) for _ in range(count)]


def times(rows: Rows, ids: list[int]) -> list[datetime]:
    with rows.services.database.read() as session:
        return list(session.scalars(select(Contact.last_modified_time).where(Contact.id.in_(ids)).order_by(Contact.id)))


def blocked(rows: Rows) -> list[str]:
    statement = select(BlockedAddress.address).where(BlockedAddress.account_id == rows.account_id)
    with rows.services.database.read() as session:
        return sorted(session.scalars(statement))


def event_ids(rows: Rows) -> list[tuple[str, str, Any]]:
    return [(event["object"], event["event"], event["id"]) for event in events(rows)]


def test_a_refused_mail_changes_every_contact_with_the_address(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    """Contacts of all lists are updated, with events after the one of the bounce; other contacts stay unchanged."""
    rows.add_webhook()
    mail_server.reply(".", GONE)
    blocked_contacts, other = add_contacts(rows, "Ann@example.com", 2), add_contacts(rows, "bob@example.com")
    (ann,) = rows.add_send(["ann@example.com"])
    before = this_second()
    drain(worker)
    assert event_ids(rows) == [
        ("recipient", "bounced", ann),
        *(("contact", "updated", contact_id) for contact_id in blocked_contacts),
    ]
    assert all(before <= moment <= this_second() for moment in times(rows, blocked_contacts))
    assert times(rows, other) == [LONG_AGO]


def test_contacts_of_another_account_with_the_address_are_not_changed(
    rows: Rows, worker: Services, mail_server: MailServer, other_id: int
) -> None:
    theirs = Rows(rows.services, other_id)
    theirs.add_webhook()
    contacts = add_contacts(theirs, "ann@example.com")
    mail_server.reply(".", GONE)
    rows.add_send(["ann@example.com"])
    drain(worker)
    assert (event_ids(theirs), times(theirs, contacts)) == ([], [LONG_AGO])


@pytest.mark.parametrize(("kind", "address"), [("email", "Ann@Example.com"), ("mobile", "61411111111")])
def test_blocking_again_changes_nothing_and_unblocking_updates_the_contacts(
    rows: Rows, kind: Any, address: str
) -> None:
    rows.add_webhook()
    columns: dict[str, str | None] = {"email": None, "mobile": None, kind: address}
    (contact,) = [rows.add_contact(rows.add_list(), **columns, last_modified_time=LONG_AGO)]
    database = rows.services.database
    for _ in range(2):
        database.transact(lambda transaction: block(transaction, rows.account_id, kind, address, "by hand"))
    assert event_ids(rows) == [("contact", "updated", contact)]
    for _ in range(2):
        database.transact(lambda transaction: unblock(transaction, rows.account_id, kind, address))
    assert event_ids(rows) == [("contact", "updated", contact)] * 2
    assert times(rows, [contact]) > [LONG_AGO]


def test_blocking_many_addresses_takes_as_many_statements_as_one(
    rows: Rows, other_id: int, count_statements: Callable[[], StatementCounter]
) -> None:
    costs = []
    for number in (1, 40):
        addresses = [
            AccountAddress(account, "email", f"{number}-{place}@example.com")
            for place in range(number)
            for account in (rows.account_id, other_id)
        ]
        for blocked_address in addresses:
            add_contacts(Rows(rows.services, blocked_address.account_id), blocked_address.key)
        with count_statements() as counted:
            with rows.services.database.write() as transaction:
                touched = block_addresses(transaction, dict.fromkeys(addresses, Block("by hand")))
            assert sorted(map(len, touched.values())) == [number, number]
            with rows.services.database.write() as transaction:
                assert unblock_addresses(transaction, addresses)[0] == 2 * number
        costs.append(counted.count)
    assert costs[0] == costs[1]


def test_contacts_are_looked_up_by_an_index_of_the_address(rows: Rows) -> None:
    """On both databases, however many contacts there are."""
    database = rows.services.database
    lists = rows.add_list()
    rows.add_contact(lists, "0@example.com", "61400000000")
    # So many that the contacts of other tests, many of them without an address, do not decide what SQLite expects.
    with database.write() as transaction:
        first = transaction.scalars(select(Contact).where(Contact.account_id == rows.account_id)).one()
        columns = {column.name: getattr(first, column.key) for column in table_of(Contact).columns}
        addresses = [f"{number}@example.com" for number in range(1, 2000)]
        copies = [
            {**columns, "id": new_id, "email": email, "email_key": email, "identifier": email, "mobile": None}
            for new_id, email in zip(draw_ids(transaction, Contact, len(addresses)), addresses, strict=True)
        ]
        insert_rows(transaction, Contact, copies)
        count(transaction, CONTACT_COUNTS, rows.account_id, (lists,), contacts=len(copies))
    with database.write() as transaction:
        transaction.execute(text("ANALYZE contacts"))
        if database.is_postgresql:
            transaction.execute(text("SET LOCAL enable_seqscan = off"))
        verb = "EXPLAIN" if database.is_postgresql else "EXPLAIN QUERY PLAN"
        pairs = f"(({rows.account_id}, '1@example.com'), ({rows.account_id}, '2@example.com'))"
        values = pairs if database.is_postgresql else f"(VALUES {pairs[1:-1]})"
        statement = f"{verb} SELECT id FROM contacts WHERE (account_id, email_key) IN {values}"
        plan = " ".join(str(column) for row in transaction.execute(text(statement)) for column in row)
    assert "ix_contacts_account_email" in plan, plan


def test_a_refusal_that_speaks_of_no_mailbox_blocks_nobody_and_can_be_sent_again(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    """A relay that lacks a setting refuses every recipient, at whatever command. Each message is a permanent bounce
    while those of one or two domains are refused; once the relay is repaired all of them are sent again together."""
    rows.add_webhook()
    refusals = {
        "a@a.example": "554 5.7.1 Relay access denied",
        "b@a.example": "554 5.7.26 unauthenticated email is not accepted",
        "c@c.example": "554 transaction failed",
        "d@c.example": "550 5.0.0 user unknown",
    }
    for address, reply in refusals.items():
        mail_server.reply(address, reply)
    ids = rows.add_send([*refusals, "e@c.example"])
    mail_server.reply(".", "550 5.3.0 no")
    drain(worker)
    assert rows.states(ids) == ["bounced"] * 5
    assert {event["is_temporary_bounce"] for event in events(rows)} == {False}
    assert blocked(rows) == []
    requeued = rows.services.database.transact(lambda transaction: requeue_all(transaction, ids))
    assert (sorted(requeued.ids), requeued.refused) == (sorted(ids), {})
    drain(worker)
    assert rows.states(ids) == ["delivered"] * 5


def test_the_answers_of_relays_block_as_the_table_of_replies_says(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    """Each reply of the table, as the answer to the recipient of one send. One that defers blocks nobody. Those
    that refuse are of two domains: where a relay refuses more, messages wait."""
    replies = {
        f"ann{number}@d{number if relay_reply.meaning == TEMPORARY else number % 2}.example": relay_reply
        for number, relay_reply in enumerate(relay_replies())
        if relay_reply.has_code
    }
    for address, reply in replies.items():
        # Twice: behind a 421 the message is sent again over a new connection.
        mail_server.reply(address, *[f"{reply.code} {reply.text[4:]}"] * 2)
    addresses = list(replies)
    sends = [rows.add_send(addresses[start : start + 100]) for start in range(0, len(addresses), 100)]
    ids = dict(zip(addresses, [recipient_id for send in sends for recipient_id in send], strict=True))
    states = {BLOCKS: "bounced", PERMANENT: "bounced", TEMPORARY: "queued"}
    expected = {address: states[reply.meaning] for address, reply in replies.items()}

    def are_reached() -> bool:
        drain(worker)  # a busy machine may end it before it has come to all
        return {address: rows.recipient(recipient_id).state for address, recipient_id in ids.items()} == expected

    wait_until(are_reached, "each message has the state of its reply")
    assert blocked(rows) == sorted(address for address, reply in replies.items() if reply.meaning == BLOCKS)


def test_a_refusal_of_the_sender_blocks_nobody(rows: Rows, worker: Services, mail_server: MailServer) -> None:
    """The server did not know the recipient yet, whatever its code and its words say."""
    mail_server.reply("MAIL", GONE, "550 user unknown")
    ids = rows.add_send(["ann@example.com", "bob@example.com"])
    drain(worker)
    assert rows.states(ids) == ["bounced"] * 2
    assert blocked(rows) == []
