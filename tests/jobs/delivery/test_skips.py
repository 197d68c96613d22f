"""Reasons for which a recipient is not sent to (docs/delivery.md#skipped-recipients)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import delete

from app.clock import this_second
from app.db.models import BlockedAddress, Contact, Unsubscriber
from app.sends.delivery.drain import drain
from app.services import Services
from tests.jobs.delivery.conftest import events
from tests.support.rows import Rows
from tests.unit.transports.mailserver import MailServer

ANN = "Ann@example.com"
KEY = "ann@example.com"

Case = Callable[[Rows, int], dict[str, Any]]


def unsubscribe(rows: Rows, list_id: int | None, address: str = KEY, kind: str = "email") -> None:
    rows.add(Unsubscriber, list_id=list_id, kind=kind, address=address, creation_time=this_second())


def block(rows: Rows, address: str = KEY, kind: str = "email") -> None:
    rows.add(BlockedAddress, kind=kind, address=address, reason="x", creation_time=this_second())


def invalid_id(rows: Rows, list_id: int) -> dict[str, Any]:
    return {"reason": "invalid_contact_id"}


def deleted(rows: Rows, list_id: int) -> dict[str, Any]:
    contact_id = rows.add_contact(list_id, ANN)
    with rows.services.database.write() as transaction:
        transaction.execute(delete(Contact).where(Contact.id == contact_id))
    return {"contact_id": contact_id, "email": ANN}


def in_another_list(rows: Rows, list_id: int) -> dict[str, Any]:
    return {"contact_id": rows.add_contact(rows.add_list(), ANN), "email": ANN}


def inactive(rows: Rows, list_id: int) -> dict[str, Any]:
    return {"contact_id": rows.add_contact(list_id, ANN, is_active=False), "email": ANN}


def inactive_and_without_address(rows: Rows, list_id: int) -> dict[str, Any]:
    return {"contact_id": rows.add_contact(list_id, None, is_active=False)}


def without_address(rows: Rows, list_id: int) -> dict[str, Any]:
    return {"contact_id": rows.add_contact(list_id, None, "61411111111")}


def address_blocked(rows: Rows, list_id: int) -> dict[str, Any]:
    block(rows)
    return {"contact_id": rows.add_contact(list_id, ANN), "email": ANN}


def blocked_without_contact(rows: Rows, list_id: int) -> dict[str, Any]:
    block(rows)
    return {"email": ANN}


def blocked_and_unsubscribed(rows: Rows, list_id: int) -> dict[str, Any]:
    block(rows)
    return {"contact_id": rows.add_contact(list_id, ANN, subscribed_email=False), "email": ANN}


def flag_is_off(rows: Rows, list_id: int) -> dict[str, Any]:
    return {"contact_id": rows.add_contact(list_id, ANN, subscribed_email=False), "email": ANN}


def unsubscribed_from_the_list(rows: Rows, list_id: int) -> dict[str, Any]:
    unsubscribe(rows, list_id)
    return {"email": ANN}


def unsubscribed_from_the_account(rows: Rows, list_id: int) -> dict[str, Any]:
    unsubscribe(rows, None)
    return {"email": ANN}


SKIPPED: list[tuple[Case, str]] = [
    (invalid_id, "invalid_contact_id"),
    (deleted, "contact_deleted"),
    (in_another_list, "contact_deleted"),
    (inactive, "contact_inactive"),
    (inactive_and_without_address, "contact_inactive"),
    (without_address, "address_missing"),
    (address_blocked, "blocked"),
    (blocked_without_contact, "blocked"),
    (blocked_and_unsubscribed, "blocked"),
    (flag_is_off, "unsubscribed"),
    (unsubscribed_from_the_list, "unsubscribed"),
    (unsubscribed_from_the_account, "unsubscribed"),
]


@pytest.mark.parametrize(("case", "reason"), SKIPPED, ids=[case.__name__ for case, _ in SKIPPED])
def test_a_skipped_recipient_fails_with_the_reason(
    rows: Rows, worker: Services, mail_server: MailServer, case: Case, reason: str
) -> None:
    """Nothing is sent; the group counts a failed contact; the event contains the reason."""
    rows.add_webhook()
    list_id = rows.add_list()
    (skipped,) = rows.add_send([case(rows, list_id)], list_id=list_id)
    drain(worker)
    recipient, group = rows.recipient(skipped), rows.group_of(skipped)
    assert mail_server.mails == []
    assert (recipient.state, recipient.reason, recipient.sent_time) == ("failed", reason, None)
    assert (group.failed_contacts, group.delivered, group.bounced) == (1, 0, 0)
    assert [(event["event"], event["fail_reason"]) for event in events(rows)] == [("failed", reason)]
    assert rows.steps(skipped) == [("failed", reason)]


def active(rows: Rows, list_id: int) -> dict[str, Any]:
    return {"contact_id": rows.add_contact(list_id, ANN), "email": ANN}


def attributes_of_contact(rows: Rows, list_id: int) -> dict[str, Any]:
    return {"contact_id": rows.add_contact(list_id, ANN)}


def only_mobile_unsubscribed(rows: Rows, list_id: int) -> dict[str, Any]:
    unsubscribe(rows, list_id, "61411111111", "mobile")
    return {"contact_id": rows.add_contact(list_id, ANN, "61411111111", subscribed_mobile=False), "email": ANN}


def unsubscribed_from_another_list(rows: Rows, list_id: int) -> dict[str, Any]:
    unsubscribe(rows, rows.add_list())
    return {"email": ANN}


def same_text_as_another_address_kind(rows: Rows, list_id: int) -> dict[str, Any]:
    block(rows, KEY, "mobile")
    unsubscribe(rows, None, KEY, "mobile")
    return {"email": ANN}


NOT_SKIPPED: list[Case] = [
    active,
    attributes_of_contact,
    only_mobile_unsubscribed,
    unsubscribed_from_another_list,
    same_text_as_another_address_kind,
]


@pytest.mark.parametrize("case", NOT_SKIPPED)
def test_other_recipients_are_sent_to(rows: Rows, worker: Services, mail_server: MailServer, case: Case) -> None:
    list_id = rows.add_list()
    (sent,) = rows.add_send([case(rows, list_id)], list_id=list_id)
    drain(worker)
    assert (rows.states([sent]), len(mail_server.mails)) == (["delivered"], 1)
    assert rows.recipient(sent).email == ANN


@pytest.mark.parametrize("case", [flag_is_off, unsubscribed_from_the_list, unsubscribed_from_the_account])
def test_include_unsubscribed_sends_to_unsubscribed_addresses(
    rows: Rows, worker: Services, mail_server: MailServer, case: Case
) -> None:
    list_id = rows.add_list()
    (sent,) = rows.add_send([case(rows, list_id)], list_id=list_id, include_unsubscribed=True)
    drain(worker)
    assert (rows.states([sent]), len(mail_server.mails)) == (["delivered"], 1)


def test_include_unsubscribed_does_not_unblock(rows: Rows, worker: Services, mail_server: MailServer) -> None:
    """`include_unsubscribed` concerns unsubscribed addresses only."""
    list_id = rows.add_list()
    (skipped,) = rows.add_send([address_blocked(rows, list_id)], list_id=list_id, include_unsubscribed=True)
    drain(worker)
    assert rows.recipient(skipped).reason == "blocked"


def test_entries_of_another_account_have_no_effect(
    rows: Rows, worker: Services, mail_server: MailServer, other_id: int
) -> None:
    """An entry of another account has no effect even when both accounts have recipients in one batch."""
    other = Rows(worker, other_id)
    block(other, "ann@example.com")
    unsubscribe(other, None, "bob@example.com")
    mine = rows.add_send(["ann@example.com", "bob@example.com"])
    theirs = other.add_send(["ann@example.com", "bob@example.com"])
    drain(worker)
    assert rows.states(mine) == ["delivered", "delivered"]
    assert [other.recipient(number).reason for number in theirs] == ["blocked", "unsubscribed"]


def test_an_sms_is_skipped_by_its_mobile(rows: Rows, worker: Services) -> None:
    """The flag, the entries and the blocked addresses of the mobile number count."""
    list_id = rows.add_list()
    block(rows, "61411111111", "mobile")
    unsubscribe(rows, list_id, "61422222222", "mobile")
    off = {"contact_id": rows.add_contact(list_id, None, "61433333333", subscribed_mobile=False)}
    fine = {"contact_id": rows.add_contact(list_id, ANN, "61444444444", subscribed_email=False)}
    ids = rows.add_send(["61411111111", "61422222222", off, fine], type="sms", list_id=list_id)
    drain(worker)
    assert [rows.recipient(number).reason for number in ids] == ["blocked", "unsubscribed", "unsubscribed", None]


def test_an_sms_without_a_list_is_skipped_by_account_wide_entries_alone(rows: Rows, worker: Services) -> None:
    unsubscribe(rows, rows.add_list(), "61411111111", "mobile")
    unsubscribe(rows, None, "61422222222", "mobile")
    ids = rows.add_send(["61411111111", "61422222222"], type="sms")
    drain(worker)
    assert rows.states(ids) == ["sent", "failed"]


def test_a_skipped_recipient_does_not_delay_the_others(rows: Rows, worker: Services, mail_server: MailServer) -> None:
    block(rows, "b@example.com")
    ids = rows.add_send(["a@example.com", "b@example.com", "c@example.com"])
    drain(worker)
    assert rows.states(ids) == ["delivered", "failed", "delivered"]
    group = rows.group_of(ids[0])
    assert (group.delivered, group.failed_contacts) == (2, 1)
