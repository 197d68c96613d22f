"""`/v1/suppressions`: reading, adding and taking off the addresses that get no messages (docs/suppressions.md)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from app.clock import this_second
from app.contacts.blocked import COMPLAINT
from app.db.address_forms import PREFIX
from app.db.models import AuditEntry, BlockedAddress, SoftBounces, Unsubscriber
from tests.support.cases import each
from tests.support.client import Client, bad_query, check_error, conflict, invalid, items
from tests.support.contacts import contact, entries, firings, unsubscribe
from tests.support.rows import Rows
from tests.support.statements import StatementCounter
from tests.support.tenants import Tenant, unique

PATH = "/v1/suppressions"
ANN, BOB, MOBILE = "ann@example.com", "bob@example.com", "61411111111"
UUID = "0b7c6a35-3c7f-4e0b-9f6e-8a4b5f3f2a10"


def listed(api: Client, query: str = "") -> list[dict[str, Any]]:
    """The items that the query finds."""
    return items(api.get(f"{PATH}?{query}"), "suppressions")


def addresses(api: Client, query: str = "") -> list[str]:
    """Their addresses."""
    return [item["email"] or item["mobile"] for item in listed(api, query)]


def add(api: Client, **attributes: Any) -> dict[str, Any]:
    """Adds one suppression, which was not there."""
    answer = api.post(PATH, attributes)
    assert answer.status_code == 201, answer.text
    added: dict[str, Any] = answer.get_json()
    return added


def acts(tenant: Tenant) -> list[tuple[Any, ...]]:
    """Action, actor, route, changes and counts of the entries of the audit log about suppressions."""
    columns: tuple[Any, ...] = (AuditEntry.action, AuditEntry.actor_kind, AuditEntry.via)
    columns += (AuditEntry.changes, AuditEntry.counts)
    criteria = AuditEntry.account_id == tenant.id, AuditEntry.object == "suppression"
    with tenant.services.database.read() as session:
        return [tuple(row) for row in session.execute(select(*columns).where(*criteria).order_by(AuditEntry.id))]


# ---------------------------------------------------------------------------------------------- reading


@pytest.fixture
def rows(tenant: Tenant, customers: int) -> list[int]:
    """Five entries, from the oldest to the newest; those of one second are unsubscribed before they are blocked."""
    moment = this_second() - timedelta(days=1)
    mail = {"kind": "email", "address": ANN}
    return [
        tenant.add(Unsubscriber, **mail, list_id=None, creation_time=moment),
        tenant.add(Unsubscriber, **mail, list_id=customers, uuid=UUID, creation_time=moment + timedelta(hours=1)),
        tenant.add(BlockedAddress, **mail, reason=COMPLAINT, uuid=UUID, creation_time=moment + timedelta(hours=1)),
        tenant.add(Unsubscriber, kind="mobile", address=MOBILE, list_id=None, creation_time=this_second()),
        tenant.add(
            BlockedAddress,
            **{"kind": "email", "address": BOB, "reason": "permanent bounce", "creation_time": this_second()},
            reply="550 5.1.1 mx1.corp.internal: no such user",
        ),
    ]


@pytest.mark.usefixtures("rows")
def test_a_page_has_entries_of_both_states_with_links(api: Client, customers: int) -> None:
    bob, mobile, ann_blocked, ann_in_list, ann = listed(api)
    assert {**bob, "creation_time": None} == {
        "state": "blocked",
        "email": BOB,
        "mobile": None,
        "list_id": None,
        "reason": "permanent bounce",
        "reply": "550 5.1.1 [hidden]: no such user",
        "uuid": None,
        "creation_time": None,
        "_links": {"self": {"href": f"{PATH}?state=blocked&email=bob%40example.com"}},
    }
    assert (mobile["mobile"], mobile["email"], mobile["reason"]) == (MOBILE, None, None)
    assert mobile["_links"] == {"self": {"href": f"{PATH}?state=unsubscribed&mobile={MOBILE}&list_id="}}
    recipient = {"href": f"/v1/transactional-sends/{UUID}"}
    blocked = {"self": {"href": f"{PATH}?state=blocked&email=ann%40example.com"}, "recipient": recipient}
    assert (ann_blocked["reason"], ann_blocked["uuid"], ann_blocked["_links"]) == (COMPLAINT, UUID, blocked)
    assert ann_in_list["_links"] == {
        "self": {"href": f"{PATH}?state=unsubscribed&email=ann%40example.com&list_id={customers}"},
        "list": {"href": f"/v1/lists/{customers}"},
        "recipient": recipient,
    }
    assert ann["_links"] == {"self": {"href": f"{PATH}?state=unsubscribed&email=ann%40example.com&list_id="}}
    for item in (bob, mobile, ann_blocked, ann_in_list, ann):
        assert items(api.get(item["_links"]["self"]["href"]), "suppressions") == [item]


@pytest.mark.usefixtures("rows")
@each(
    ("query", "expected"),
    [
        ("state=blocked", [BOB, ANN]),
        ("state:ne=blocked", [MOBILE, ANN, ANN]),
        ("state=", []),
        ("email=ANN@example.com", [ANN, ANN, ANN]),
        (f"email:in={ANN},{BOB}", [BOB, ANN, ANN, ANN]),
        (f"email:ne={ANN}", [BOB, MOBILE]),
        ("email=", [MOBILE]),
        (f"mobile={MOBILE}", [MOBILE]),
        ("mobile=", [BOB, ANN, ANN, ANN]),
        ("list_id=", [BOB, MOBILE, ANN, ANN]),
        ("list_id=LIST", [ANN]),
        ("list_id:ne=LIST", [BOB, MOBILE, ANN, ANN]),
        ("list_id:in=LIST..LIST", [ANN]),
        ("list_id=9223372036854775808", []),
        ("reason=complaint", [ANN]),
        ("reason:in=complaint,permanent%20bounce", [BOB, ANN]),
        ("reason=", [MOBILE, ANN, ANN]),
        ("reason:ne=complaint", [BOB, MOBILE, ANN, ANN]),
        (f"uuid={UUID.upper()}", [ANN, ANN]),
        (f"uuid:in={UUID},{UUID}", [ANN, ANN]),
        ("uuid=", [BOB, MOBILE, ANN]),
        (f"uuid:ne={UUID}", [BOB, MOBILE, ANN]),
        (f"uuid={UUID}&state=blocked", [ANN]),
        ("creation_time:in=2100-01-01..", []),
        ("creation_time:in=..2100-01-01&state=blocked", [BOB, ANN]),
    ],
)
def test_filters(api: Client, customers: int, query: str, expected: list[str]) -> None:
    query = query.replace("LIST", str(customers))
    assert addresses(api, query) == expected
    counted = api.get(f"{PATH}?{query}&limit=0").get_json()
    assert (counted["size"], counted["_embedded"]) == (len(expected), {"suppressions": []})
    pages, href = [], f"{PATH}?{query}&limit=1"
    while href:
        page = api.get(href).get_json()
        pages += [item["email"] or item["mobile"] for item in page["_embedded"]["suppressions"]]
        href = page["_links"].get("next", {}).get("href")
    assert pages == expected


def test_pages_lead_on_and_back_across_both_tables(tenant: Tenant, api: Client) -> None:
    """Also where many entries are of one second."""
    moment, expected = this_second(), []
    for number, model in enumerate([Unsubscriber, BlockedAddress, BlockedAddress] * 8):
        address, time = f"p{number:02}@example.com", moment - timedelta(seconds=number // 9)
        others = {"reason": "x"} if model is BlockedAddress else {"list_id": None}
        row_id = tenant.add(model, kind="email", address=address, creation_time=time, **others)
        expected.append((time, model is BlockedAddress, row_id, address))
    order = [entry[-1] for entry in sorted(expected, reverse=True)]
    assert addresses(api) == order
    onward, href = [], f"{PATH}?limit=5"
    while href:
        page = api.get(href).get_json()
        onward.append([item["email"] for item in page["_embedded"]["suppressions"]])
        last, href = page, page["_links"].get("next", {}).get("href")
    assert [address for addresses_of_page in onward for address in addresses_of_page] == order
    back, href = [], last["_links"]["prev"]["href"]
    while href:
        page = api.get(href).get_json()
        back.append([item["email"] for item in page["_embedded"]["suppressions"]])
        href = page["_links"].get("prev", {}).get("href")
    assert back == onward[-2::-1]
    for offset in (0, 3, 11, 23):
        assert addresses(api, f"limit=5&offset={offset}") == order[offset : offset + 5]
    assert addresses(api, f"offset={2**40}") == addresses(api, f"offset={10**30}") == []
    beyond = api.get(f"{PATH}?limit=5&offset=90").get_json()
    assert (beyond["size"], "next" in beyond["_links"]) == (0, False)
    assert items(api.get(beyond["_links"]["prev"]["href"]), "suppressions")[-1]["email"] == order[-1]


@pytest.mark.usefixtures("rows")
def test_fields_and_zone(api: Client) -> None:
    (item,) = listed(api, "fields=uuid,list_id&state=blocked&reason=complaint")
    assert item.keys() == {"uuid", "list_id", "_links"}
    (item,) = listed(api, "fields=creation_time&reason=complaint&_tz=Australia/Brisbane")
    assert item["creation_time"].endswith("+1000")


def test_forgotten_people_do_not_appear(tenant: Tenant, api: Client) -> None:
    common = {"kind": "email", "address": f"{PREFIX}abc", "creation_time": this_second()}
    tenant.add(BlockedAddress, **common, reason=COMPLAINT)
    tenant.add(Unsubscriber, **common, list_id=None)
    assert (listed(api), api.get(f"{PATH}?limit=0").get_json()["size"]) == ([], 0)
    assert listed(api, f"email={PREFIX}abc") == []


@each(
    ("query", "code", "field"),
    [
        ("state=gone", "invalid_query_syntax", "state"),
        ("list_id=five", "invalid_query_syntax", "list_id"),
        ("uuid=1", "invalid_query_syntax", "uuid"),
        ("creation_time=soon", "invalid_query_syntax", "creation_time"),
        ("email:like=a", "invalid_operator", "email"),
        ("list_id:in=1,,2", "invalid_filter_list", "list_id"),
        ("reply=550", "parameter_not_supported", "reply"),
        ("id=1", "parameter_not_supported", "id"),
        ("confirm=complaint", "parameter_not_available", "confirm"),
        ("order_by=email", "invalid_order_by", "order_by"),
        ("fields=address", "invalid_query_syntax", "fields"),
        ("limit=1001", "invalid_limit", "limit"),
    ],
)
def test_wrong_queries(api: Client, query: str, code: str, field: str) -> None:
    bad_query(api.get(f"{PATH}?{query}"), code, field=field)


def test_a_page_takes_as_many_statements_for_many_as_for_one(
    tenant: Tenant, api: Client, count_statements: Callable[[], StatementCounter]
) -> None:
    def statements(query: str) -> int:
        with count_statements() as counter:
            assert api.get(f"{PATH}?{query}").status_code == 200
        return counter.count

    add(api, state="blocked", email=ANN)
    few = [statements(query) for query in ("", "limit=0", f"email:in={ANN},{BOB}")]
    row = {"kind": "email", "list_id": None, "creation_time": this_second()}
    tenant.add_all(Unsubscriber, [{**row, "address": f"p{number}@example.com"} for number in range(60)])
    assert [statements(query) for query in ("", "limit=0", f"email:in={ANN},{BOB}")] == few


# ---------------------------------------------------------------------------------------------- adding


def test_a_block_is_added_once(tenant: Tenant, api: Client, customers: int) -> None:
    """Its contacts change and webhooks hear of it, but automations do not."""
    contact_id = tenant.new_contact(customers, email="Ann@Example.com")["id"]
    hooks, before = Rows(tenant.services, tenant.id), firings(tenant)
    hooks.add_webhook()
    added = add(api, state="blocked", email="ANN@example.com", reason="left us")
    assert (added["state"], added["email"], added["reason"]) == ("blocked", ANN, "left us")
    assert listed(api) == [added]
    again = api.post(PATH, {"state": "blocked", "email": ANN, "reason": "another reason"})
    assert (again.status_code, again.get_json()) == (200, added)
    assert contact(tenant, customers, contact_id)["blocked"] == {"email": True, "mobile": False}
    assert len(hooks.payloads()) == 1
    assert firings(tenant) == before
    changes = [{"field": "state", "new": "blocked"}]
    assert acts(tenant) == [("suppression.added", "key", f"POST {PATH}", changes, {})]


def test_an_address_is_unsubscribed_from_a_list_or_the_account(tenant: Tenant, api: Client, customers: int) -> None:
    other = tenant.add_list()
    ids = {list_id: tenant.new_contact(list_id, email=ANN)["id"] for list_id in (customers, other)}

    def subscribed() -> list[bool]:
        return [contact(tenant, list_id, ids[list_id])["subscribed"]["email"] for list_id in ids]

    in_list = add(api, state="unsubscribed", email=ANN, list_id=customers)
    assert (in_list["list_id"], in_list["reason"], subscribed()) == (customers, None, [False, True])
    account_wide = add(api, state="unsubscribed", email=ANN, list_id=None)
    assert (account_wide["list_id"], subscribed()) == (None, [False, False])
    for attributes, stored in (({"list_id": customers}, in_list), ({}, account_wide)):
        again = api.post(PATH, {"state": "unsubscribed", "email": ANN, **attributes})
        assert (again.status_code, again.get_json()) == (200, stored)
    assert entries(tenant) == {("email", ANN, customers), ("email", ANN, None)}
    assert [act[0] for act in acts(tenant)] == ["suppression.added"] * 2


def test_a_block_without_a_reason_has_that_of_the_command_line(api: Client) -> None:
    assert add(api, state="blocked", mobile=MOBILE, email="", reason=None)["reason"] == "blocked by hand"


def test_a_complaint_that_is_known_from_elsewhere_outweighs_another_reason(tenant: Tenant, api: Client) -> None:
    add(api, state="blocked", email=ANN)
    assert add(api, state="blocked", email=ANN, reason=COMPLAINT)["reason"] == COMPLAINT
    again = api.post(PATH, {"state": "blocked", "email": ANN, "reason": "other"})
    assert (again.status_code, again.get_json()["reason"]) == (200, COMPLAINT)
    assert len(acts(tenant)) == 2


def test_many_are_added_at_once(tenant: Tenant, api: Client, customers: int) -> None:
    """What is there, or twice in the request, adds nothing."""
    ids = [tenant.new_contact(customers, email=email)["id"] for email in (ANN, BOB)]
    hooks = Rows(tenant.services, tenant.id)
    hooks.add_webhook()
    body = [
        {"state": "blocked", "email": ANN, "reason": "first"},
        {"state": "blocked", "email": ANN.upper(), "reason": "second"},
        {"state": "unsubscribed", "email": ANN, "list_id": customers},
        {"state": "unsubscribed", "email": BOB},
        {"state": "unsubscribed", "mobile": MOBILE},
    ]
    for _ in range(2):
        answer = api.post(PATH, {"suppressions": body})
        assert (answer.status_code, answer.data) == (204, b"")
    stored = {(item["state"], item["email"] or item["mobile"], item["list_id"], item["reason"]) for item in listed(api)}
    assert stored == {
        ("blocked", ANN, None, "first"),
        ("unsubscribed", ANN, customers, None),
        ("unsubscribed", BOB, None, None),
        ("unsubscribed", MOBILE, None, None),
    }
    assert [contact(tenant, customers, id_)["subscribed"]["email"] for id_ in ids] == [False, False]
    assert len(hooks.payloads()) == 2
    assert acts(tenant) == [("suppression.added", "key", f"POST {PATH}", [], {"suppressions": 4})]


def test_many_take_as_many_statements_as_few(
    tenant: Tenant, api: Client, count_statements: Callable[[], StatementCounter]
) -> None:
    lists = [tenant.add_list() for _ in range(30)]

    def statements(numbers: range) -> int:
        body: list[dict[str, Any]] = [{"state": "blocked", "email": f"b{number}@example.com"} for number in numbers]
        body += [{"state": "unsubscribed", "email": f"u{number}@example.com"} for number in numbers]
        body += [
            {"state": "unsubscribed", "mobile": f"614{number:08}", "list_id": lists[number % 30]} for number in numbers
        ]
        with count_statements() as counter:
            assert api.post(PATH, {"suppressions": body}).status_code == 204
        return counter.count

    assert statements(range(1, 3)) == statements(range(3, 300))


def test_the_first_answer_is_given_again_for_an_idempotency_key(tenant: Tenant, api: Client) -> None:
    headers = {"Idempotency-Key": unique("key")}
    body = {"state": "blocked", "email": ANN}
    first, second = (api.post(PATH, body, headers=headers) for _ in range(2))
    assert [first.status_code, second.status_code] == [201, 201]
    assert (first.get_json(), second.headers["Idempotent-Replayed"]) == (second.get_json(), "true")
    conflict(api.post(PATH, {**body, "email": BOB}, headers=headers))
    assert len(acts(tenant)) == 1


WRONG_BODIES: list[tuple[dict[str, Any], str, str, str]] = [
    ({}, "required", "state", ""),
    ({"state": "gone", "email": ANN}, "invalid_string", "state", "state must be one of: unsubscribed, blocked."),
    ({"state": 1, "email": ANN}, "invalid_string", "state", "state must be one of: unsubscribed, blocked."),
    ({"state": None, "email": ANN}, "invalid_string", "state", ""),
    ({"state": "blocked"}, "required", "email", "An address is required: email or mobile."),
    (
        {"state": "blocked", "email": "", "mobile": None},
        "required",
        "email",
        "An address is required: email or mobile.",
    ),
    (
        {"state": "blocked", "email": ANN, "mobile": MOBILE},
        *("unexpected_field", "mobile", "A suppression has one address: email or mobile."),
    ),
    ({"state": "blocked", "email": "ann"}, "invalid_email_address", "email", ""),
    ({"state": "blocked", "email": 5}, "invalid_string", "email", ""),
    ({"state": "blocked", "mobile": "0411111111"}, "invalid_mobile_address", "mobile", ""),
    (
        {"state": "blocked", "email": ANN, "list_id": 1},
        *("unexpected_field", "list_id", "A block applies to all lists. Leave list_id out."),
    ),
    (
        {"state": "unsubscribed", "email": ANN, "reason": "x"},
        *("unexpected_field", "reason", "Only a block has a reason. Leave reason out."),
    ),
    ({"state": "blocked", "email": ANN, "reason": "x" * 256}, "too_long", "reason", ""),
    ({"state": "blocked", "email": ANN, "reason": "a\0b"}, "invalid_string", "reason", ""),
    ({"state": "unsubscribed", "email": ANN, "list_id": "1"}, "invalid_integer", "list_id", ""),
    (
        {"state": "unsubscribed", "email": ANN, "list_id": 999_999_999},
        *("invalid_id", "list_id", "list_id: the account has no list 999999999."),
    ),
    (
        {"state": "unsubscribed", "email": ANN, "list_id": 1e30},
        *("invalid_id", "list_id", "list_id: the account has no list with an id beyond 64 bits."),
    ),
    ({"state": "unsubscribed", "email": ANN, "list_id": -1}, "invalid_id", "list_id", ""),
    ({"state": "blocked", "email": ANN, "uuid": UUID}, "unexpected_field", "uuid", ""),
    ({"state": "blocked", "email": ANN, "suppressions": []}, "unexpected_field", "state", ""),
    ({"suppressions": []}, "not_empty", "suppressions", ""),
    ({"suppressions": {}}, "invalid_array", "suppressions", ""),
    ({"suppressions": [{"state": "blocked", "email": ANN}] * 1001}, "too_long", "suppressions", ""),
]


@each(("body", "error"), [(body, error) for body, *error in WRONG_BODIES])
def test_wrong_bodies(tenant: Tenant, api: Client, body: dict[str, Any], error: list[str]) -> None:
    """Alone, and as the second of several: then the error says where, and nothing is added."""
    code, field, said = error
    answer = invalid(api.post(PATH, body), code, field=field, collection=None, index=None)
    assert said in answer["developer_message"]
    if "suppressions" not in body:
        many = {"suppressions": [{"state": "blocked", "email": BOB}, body]}
        located = invalid(api.post(PATH, many), code, field=field, collection="suppressions", index=1)
        assert said in located["developer_message"]
    assert (listed(api), acts(tenant)) == ([], [])


def test_every_error_of_many_is_listed(api: Client) -> None:
    body = [
        {"state": "unsubscribed", "email": ANN, "list_id": 999_999_999},
        {"state": "blocked", "email": BOB},
        {"state": "blocked"},
    ]
    error = invalid(api.post(PATH, {"suppressions": body}), "required", index=2)
    located = [(error["code"], error["field"], error["index"]) for error in error["_embedded"]["errors"]]
    assert located == [("required", "email", 2), ("invalid_id", "list_id", 0)]


def test_a_list_of_another_account_is_unknown(api: Client, other_tenant: Tenant) -> None:
    body = {"state": "unsubscribed", "email": ANN, "list_id": other_tenant.add_list()}
    invalid(api.post(PATH, body), "invalid_id", field="list_id")


# ---------------------------------------------------------------------------------------------- taking off


def removed(api: Client, query: str) -> None:
    """Takes off what the query names."""
    answer = api.delete(f"{PATH}?{query}")
    assert (answer.status_code, answer.data) == (204, b""), answer.text


def test_a_block_is_taken_off(tenant: Tenant, api: Client, customers: int) -> None:
    """With the count of soft bounces; the contact changes, and a second time changes nothing."""
    contact_id = tenant.new_contact(customers, email=ANN)["id"]
    tenant.add(SoftBounces, kind="email", address=ANN, bounces=4)
    add(api, state="blocked", email=ANN)
    hooks = Rows(tenant.services, tenant.id)
    hooks.add_webhook()
    removed(api, "email=ANN@example.com")
    removed(api, "email=ANN@example.com")
    assert listed(api) == []
    assert contact(tenant, customers, contact_id)["blocked"]["email"] is False
    assert len(hooks.payloads()) == 1
    with tenant.services.database.read() as session:
        assert session.scalars(select(SoftBounces).where(SoftBounces.account_id == tenant.id)).all() == []
    changes = [{"field": "state", "new": "blocked"}]
    assert acts(tenant)[1:] == [("suppression.removed", "key", f"DELETE {PATH}", changes, {})]


@pytest.mark.usefixtures("rows")
@each(
    ("query", "said"),
    [
        (
            f"email={ANN}",
            "Nothing is taken off, because the person has unsubscribed and it was blocked by a complaint. "
            "If the person wants your messages again, add confirm=unsubscribe,complaint.",
        ),
        (
            f"email={ANN}&state=blocked&confirm=unsubscribe",
            "Nothing is taken off, because it was blocked by a complaint. "
            "If the person wants your messages again, add confirm=complaint.",
        ),
        (
            f"email={ANN}&confirm=complaint",
            "Nothing is taken off, because the person has unsubscribed. "
            "If the person wants your messages again, add confirm=unsubscribe,complaint.",
        ),
        (
            f"mobile={MOBILE}&list_id=",
            "Nothing is taken off, because the person has unsubscribed. "
            "If the person wants your messages again, add confirm=unsubscribe.",
        ),
    ],
)
def test_what_somebody_wished_needs_a_confirmation(tenant: Tenant, api: Client, query: str, said: str) -> None:
    before = listed(api)
    answer = api.delete(f"{PATH}?{query}")
    error = conflict(answer, code="conflict", field="confirm", developer_message=said)
    assert "fields" not in error
    assert (listed(api), acts(tenant)) == (before, [])


def test_a_block_beside_a_wish_is_taken_off_alone(api: Client) -> None:
    add(api, state="blocked", email=ANN)
    add(api, state="unsubscribed", email=ANN)
    error = conflict(api.delete(f"{PATH}?email={ANN}"))
    assert error["developer_message"].endswith(" To take off the block alone, add state=blocked.")
    removed(api, f"email={ANN}&state=blocked")
    assert [item["state"] for item in listed(api)] == ["unsubscribed"]


@pytest.mark.usefixtures("rows")
def test_confirmed_wishes_are_taken_off_and_recorded(tenant: Tenant, api: Client, customers: int) -> None:
    removed(api, f"email={ANN}&confirm=complaint,unsubscribe")
    assert addresses(api) == [BOB, MOBILE]
    assert [(act[0], act[3]) for act in acts(tenant)] == [
        ("suppression.removed", [{"field": "state", "new": "unsubscribed"}]),
        (
            "suppression.removed",
            [{"field": "state", "new": "unsubscribed"}, {"field": "list_id", "new": customers}],
        ),
        ("suppression.removed", [{"field": "state", "new": "blocked"}, {"field": "reason", "old": COMPLAINT}]),
    ]


def test_a_list_names_its_own_entry_and_an_empty_one_that_of_the_account(
    tenant: Tenant, api: Client, customers: int
) -> None:
    """A contact is subscribed again when no entry is left that applies to it."""
    other, third = tenant.add_list(), tenant.add_list()
    ids = {list_id: tenant.new_contact(list_id, email=ANN)["id"] for list_id in (customers, other, third)}
    for list_id in (customers, other, None):
        unsubscribe(tenant, ANN, list_id)
    add(api, state="blocked", email=ANN)

    def left(query: str) -> tuple[list[int | None], list[bool]]:
        removed(api, f"email={ANN}&confirm=unsubscribe{query}")
        lists = [item["list_id"] for item in listed(api, "state=unsubscribed")]
        return lists, [contact(tenant, list_id, ids[list_id])["subscribed"]["email"] for list_id in ids]

    assert left(f"&list_id={customers}") == ([None, other], [False, False, False])
    assert left("&list_id=999999999") == ([None, other], [False, False, False])
    assert left(f"&list_id={10**30}") == ([None, other], [False, False, False])
    assert left("&list_id=") == ([other], [True, False, True])
    assert left("&state=unsubscribed") == ([], [True, True, True])
    assert [item["state"] for item in listed(api)] == ["blocked"]


def test_what_was_kept_of_a_forgotten_person_is_taken_off_by_its_address(tenant: Tenant, api: Client) -> None:
    """It shows nowhere, but its address still gets no messages."""
    add(api, state="unsubscribed", email=ANN)
    add(api, state="blocked", email=ANN)
    forget = ("contacts", "forget", ANN, "--account", tenant.name, "--yes", "--no-compact")
    assert tenant.app.test_cli_runner().invoke(args=[*forget]).exit_code == 0
    assert listed(api) == []
    with tenant.services.database.read() as session:
        statement = select(BlockedAddress.address).where(BlockedAddress.account_id == tenant.id)
        assert session.scalars(statement).one().startswith(PREFIX)
    conflict(api.delete(f"{PATH}?email={ANN}"))
    removed(api, f"email={ANN}&confirm=unsubscribe")
    assert entries(tenant) == set()
    with tenant.services.database.read() as session:
        assert session.scalars(statement).all() == []


@each(
    ("query", "code", "field", "said"),
    [
        ("email=ann", "invalid_query_syntax", "email", "email: 'ann' is not an email address."),
        ("email=a+b@example.com", "invalid_query_syntax", "email", "Write a plus in a query as %2B."),
        ("email=", "invalid_query_syntax", "email", ""),
        ("mobile=0411111111", "invalid_query_syntax", "mobile", "is not a mobile number such as 61411111111"),
        (f"email={ANN}&email={BOB}", "invalid_query_syntax", "email", "only once"),
        (f"email={ANN}&mobile={MOBILE}", "invalid_query_syntax", "mobile", "name one address"),
        (f"email:in={ANN}", "invalid_operator", "email", ""),
        (f"email={ANN}&state=gone", "invalid_query_syntax", "state", "is not one of unsubscribed, blocked"),
        (f"email={ANN}&list_id=five", "invalid_query_syntax", "list_id", "is not an integer"),
        (f"email={ANN}&state=blocked&list_id=1", "invalid_query_syntax", "list_id", "a block is of no list"),
        (f"email={ANN}&confirm=yes", "invalid_query_syntax", "confirm", "'yes' is not one of complaint, unsubscribe"),
        (f"email={ANN}&confirm=", "invalid_query_syntax", "confirm", ""),
        (f"email={ANN}&reason=x", "parameter_not_available", "reason", ""),
        (f"email={ANN}&limit=1", "parameter_not_available", "limit", ""),
        (f"email={ANN}&address=x", "parameter_not_supported", "address", ""),
    ],
)
def test_wrong_removals(api: Client, query: str, code: str, field: str, said: str) -> None:
    assert api.post(PATH, {"state": "unsubscribed", "email": ANN}).status_code in (200, 201)
    error = bad_query(api.delete(f"{PATH}?{query}"), code, field=field)
    assert said in error["developer_message"]
    assert addresses(api) == [ANN]


@each("query", ["", "state=blocked", "confirm=unsubscribe", "list_id=1"])
def test_an_address_is_required(api: Client, query: str) -> None:
    said = "Name the address, as in ?email=ann@example.com or ?mobile=61411111111."
    invalid(api.delete(f"{PATH}?{query}"), "filter_id_required", field="email", developer_message=said)


# ---------------------------------------------------------------------------------------------- keys and accounts


def test_an_account_sees_and_takes_off_its_own_alone(api: Client, other_tenant: Tenant) -> None:
    add(other_tenant.api, state="blocked", email=ANN)
    theirs = listed(other_tenant.api)
    assert listed(api, f"email={ANN}") == []
    removed(api, f"email={ANN}")
    assert listed(other_tenant.api) == theirs


@each("level", ["report", "limited"])
def test_other_levels_may_not(tenant: Tenant, level: str) -> None:
    api = tenant.client(level)
    for answer in (api.get(PATH), api.post(PATH, {}), api.delete(PATH)):
        check_error(answer, 403, "permission_denied")
