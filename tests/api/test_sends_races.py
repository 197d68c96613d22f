"""Concurrent sends: one contact per new address, one group per new name (docs/sending.md#recipients)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from app.db.models import Group
from app.settings import Settings
from tests.support.apps import app_with
from tests.support.contacts import contacts_path, find, firings
from tests.support.races import at_once
from tests.support.sends import AcceptedSend, SendsApi
from tests.support.tenants import FULL_FIELDS, new_email, new_mobile, unique

THREADS = 4
ROUNDS = 5


def send_at_once(sends: SendsApi, bodies: list[dict[str, Any]]) -> list[AcceptedSend]:
    """Starts the sends together; all must be accepted."""
    responses = at_once([partial(sends.post, body) for body in bodies])
    assert [response.status_code for response in responses] == [202] * len(bodies), [
        response.text for response in responses
    ]
    return [AcceptedSend(sends.tenant, response.get_json()) for response in responses]


Make = Callable[[SendsApi], tuple[int, Callable[[], dict[str, Any]]]]


def email(sends: SendsApi, **values: Any) -> tuple[int, Callable[[], dict[str, Any]]]:
    list_id = sends.tenant.add_list(fields=FULL_FIELDS, **values)
    return list_id, lambda: sends.email(list_id=list_id)


def sms(sends: SendsApi, **values: Any) -> tuple[int, Callable[[], dict[str, Any]]]:
    list_id = sends.tenant.add_list(fields=FULL_FIELDS, **values)
    return list_id, lambda: sends.sms(list_id=list_id)


@pytest.mark.parametrize(
    "make", [email, sms, partial(email, allow_duplicates=True), partial(sms, allow_duplicates=True)]
)
def test_a_new_address_becomes_one_contact(sends: SendsApi, make: Make) -> None:
    """Whether or not a unique index protects that kind of address in the list."""
    list_id, body = make(sends)
    for count in range(1, ROUNDS + 1):
        same = body()
        accepted = send_at_once(sends, [{**same, "group_name": unique("g")} for _ in range(THREADS)])
        assert len({send.recipient.contact_id for send in accepted}) == 1
        assert len(find(sends.tenant, list_id)) == len(firings(sends.tenant)) == count


@pytest.mark.parametrize("kind", ["email", "mobile"])
def test_concurrent_sends_to_the_same_new_addresses_in_another_order(sends: SendsApi, kind: str) -> None:
    list_id = sends.tenant.add_list(fields=FULL_FIELDS[1:] if kind == "mobile" else FULL_FIELDS)
    new, make = {"email": (new_email, sends.email), "mobile": (new_mobile, sends.sms)}[kind]
    for _ in range(ROUNDS):
        recipients = [{kind: new()} for _ in range(20)]
        orders = (recipients, recipients[::-1])
        first, second = send_at_once(sends, [make(list_id=list_id, recipients=order) for order in orders])
        forth = [row.contact_id for row in first.recipients]
        back = [row.contact_id for row in second.recipients]
        assert forth == back[::-1]
        assert None not in forth


def test_a_concurrent_send_and_create_of_the_same_address(sends: SendsApi) -> None:
    for count in range(1, ROUNDS + 1):
        address = new_email()
        create = partial(sends.tenant.api.post, contacts_path(sends.list_id), {"email": address})
        sent, created = at_once([partial(sends.post, sends.email(recipients=[{"email": address}])), create])
        assert sent.status_code == 202
        assert created.status_code in (201, 409)
        assert len(find(sends.tenant, sends.list_id)) == len(firings(sends.tenant)) == count


def test_a_new_group_is_created_once(sends: SendsApi) -> None:
    assert sends.list_id
    for count in range(1, ROUNDS + 1):
        name = unique("group")
        accepted = send_at_once(sends, [sends.email(group_name=name) for _ in range(THREADS)])
        assert {send.group.id for send in accepted} == {accepted[0].group.id}
        assert accepted[0].group.sent == THREADS
        assert len(sends.rows(Group)) == count


def test_an_existing_group_counts_every_send(sends: SendsApi) -> None:
    group = sends.send(sends.email()).group
    for turn in range(1, ROUNDS + 1):
        accepted = send_at_once(sends, [sends.email(group_name=group.name) for _ in range(THREADS)])
        assert accepted[0].group.sent == 1 + turn * THREADS


def test_the_limit_of_groups_holds_for_concurrent_sends(settings: Settings, sends: SendsApi) -> None:
    with app_with(settings, max_groups=2) as strict:
        there = SendsApi(replace(sends.tenant, app=strict))
        assert there.list_id
        responses = at_once([partial(there.post, there.email()) for _ in range(THREADS)])
        assert sorted(response.status_code for response in responses) == [202, 202, 422, 422]
        assert len(there.rows(Group)) == 2
