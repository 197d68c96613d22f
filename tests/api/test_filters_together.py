"""Several filters of a collection together: whichever index answers them (docs/querying.md#what-an-index-answers).

Of each pair the items are those that both filters find alone, on pages in the usual order and in the count.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from flask import Flask

from app.clock import this_second
from app.console.message_search import page_messages, resource_for
from app.db.bulk import insert_rows
from app.db.models import BlockedAddress, Contact, Group, RecipientLabel, Unsubscriber
from app.query.grammar import parse_collection
from app.recipients.labels import tag_label
from app.recipients.read import Viewer
from app.recipients.redaction import Redaction
from tests.support.client import SENDS
from tests.support.rows import Rows
from tests.support.tenants import FULL_FIELDS, Tenant, new_tenant, unique

pytestmark = pytest.mark.both("each has forms of its own for the planner")

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
NUMBER = 40
PAIRS = 40
"""Of each collection, chosen by chance."""


@pytest.fixture(scope="module")
def owner(app: Flask) -> Tenant:
    """An account whose items have few values in every combination."""
    return new_tenant(app)


@pytest.fixture(params=[2, 1000], ids=["many", "few"])
def most_to_sort(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each value has many items, or few."""
    for module in ("app.db.index_hints", "app.contacts.filters"):
        monkeypatch.setattr(f"{module}.MAX_ROWS_TO_SORT", request.param)


def day(number: int) -> datetime:
    """Some days have several items."""
    return FIRST + timedelta(days=number // 3)


def between(first: int, last: int) -> str:
    return f"{day(first):%Y-%m-%d}..{day(last):%Y-%m-%d}"


class Items:
    """The items of a collection."""

    def __init__(self, tenant: Tenant, path: str) -> None:
        self._tenant, self._path = tenant, path

    def on_pages(self, *filters: str) -> list[str]:
        """What matches, page by page and back again; each item as its text."""
        pages, path = list[list[str]](), f"{self._path}?{'&'.join((*filters, 'limit=7'))}"
        while path:
            body: Any = self._tenant.api.get(path).get_json()
            assert body.get("_embedded"), body
            (items,) = body["_embedded"].values()
            pages.append([str(item) for item in items])
            last, path = path, body["_links"].get("next", {}).get("href", "")
        assert pages[::-1] == list(self._backwards(last))
        return list(itertools.chain.from_iterable(pages))

    def _backwards(self, path: str) -> Iterator[list[str]]:
        while path:
            body: Any = self._tenant.api.get(path).get_json()
            (items,) = body["_embedded"].values()
            yield [str(item) for item in items]
            path = body["_links"].get("prev", {}).get("href", "")

    def counted(self, *filters: str) -> int:
        body: Any = self._tenant.api.get(f"{self._path}?{'&'.join((*filters, 'limit=0'))}").get_json()
        size: int = body["size"]
        return size


def check(items: Items, filters: Sequence[str]) -> None:
    everything = items.on_pages()
    assert len(everything) == len(set(everything)) > 10, "they are told apart"
    alone = {filter_: items.on_pages(filter_) for filter_ in filters}
    for filter_, matching in alone.items():
        assert matching == [item for item in everything if item in set(matching)], filter_
        assert items.counted(filter_) == len(matching), filter_
    pairs = list(itertools.combinations(filters, 2))
    for first, second in random.Random(1).sample(pairs, min(PAIRS, len(pairs))):
        expected = [item for item in alone[first] if item in set(alone[second])]
        assert items.on_pages(first, second) == expected, (first, second)
        assert items.counted(first, second) == len(expected), (first, second)


@pytest.fixture(scope="module")
def sent(owner: Tenant) -> tuple[int, list[int], list[int]]:
    """The message of most recipients, and their groups and lists."""
    rows, chance = Rows(owner.services, owner.id), random.Random(2)
    message, groups = owner.add_message(), [rows.add_group() for _ in range(3)]
    lists = [owner.add_list() for _ in range(2)]
    labels = []
    for number in range(NUMBER):
        state = chance.choice(["delivered", "delivered", "sent", "failed", "bounced", "queued"])
        is_sent = state in ("delivered", "sent")
        opened = chance.choice([None, day(number)]) if is_sent else None
        recipient = {
            "email": f"{chance.choice('abc')}@example.com",
            "state": state,
            "contact_id": number,
            "list_id": chance.choice([*lists, None]),
            "message_id": chance.choice([message, message, None]),
            "sent_time": day(number) + timedelta(hours=1) if is_sent else None,
            "first_open_time": opened,
            "last_open_time": opened and opened + timedelta(days=chance.randrange(3)),
            "open_type": chance.choice(["html", "text"]) if opened else "not_opened",
        }
        due_in = number % 2 * 1e9  # some of those that wait are deferred
        ids = rows.add_send([recipient], accepted=day(number), group_id=chance.choice(groups), due_in=due_in)
        labels += [(ids[0], tag, day(number)) for tag in ("x", "y") if chance.random() < 0.5]
    with owner.services.database.write() as transaction:
        added = [{"recipient_id": id_, "label": tag_label(tag), "creation_time": moment} for id_, tag, moment in labels]
        insert_rows(transaction, RecipientLabel, added, {"account_id": owner.id})
    return message, groups, lists


@pytest.mark.usefixtures("most_to_sort")
def test_filters_of_messages(owner: Tenant, sent: tuple[int, list[int], list[int]]) -> None:
    message, groups, lists = sent
    filters = [
        *("state=delivered", "state=failed", "state:in=failed,bounced", "state:ne=delivered", "state=queued"),
        *(f"group_id={groups[0]}", f"group_id:in={groups[0]},{groups[1]}", f"group_id:ne={groups[0]}"),
        *(f"list_id={lists[0]}", f"list_id:in={lists[0]},{lists[1]}", "list_id=", "list_id:ne="),
        *(f"message_id={message}", "message_id:ne=", "email=a@example.com", "email:in=a@example.com,B@example.com"),
        *("tag=x", "tag=y", "tag:in=x,y", "tag=nothing", "group_id=999999999", "email:ne=a@example.com"),
        *("send_time:ne=", "send_time=", f"send_time:in={between(3, 24)}", f"send_time:in={between(9, 9)}"),
        *(
            f"creation_time:in={between(3, 30)}",
            f"creation_time:in={day(6):%Y-%m-%d}..",
            "creation_time:in=..2026-01-08",
        ),
    ]
    check(Items(owner, SENDS), filters)


@pytest.mark.usefixtures("most_to_sort")
def test_filters_of_the_console_beside_those_of_messages(owner: Tenant, sent: tuple[int, list[int], list[int]]) -> None:
    _, groups, _ = sent
    with owner.services.database.read() as session:
        name = session.get_one(Group, groups[0]).name
    viewer = Viewer(sees_contacts=True, redaction=Redaction.of(owner.services.settings))

    def uuids_on_page(*filters: tuple[str, str]) -> list[str]:
        query = parse_collection([*filters, ("limit", "100")], resource_for(viewer))
        with owner.services.database.read() as session:
            return [item["uuid"] for item in page_messages(session, owner.id, query, viewer).items]

    here = [(f"text{operator}", text) for operator in ("", ":ne") for text in (name, "a@example")]
    here += [("state", "deferred"), ("state:ne", "deferred"), ("state:in", "deferred,failed")]
    others = [
        ("state", "failed"),
        ("state:ne", "delivered"),
        ("email", "a@example.com"),
        ("tag", "x"),
        ("tag:in", "x,y"),
    ]
    everything = uuids_on_page()
    alone = {filter_: uuids_on_page(filter_) for filter_ in (*here, *others)}
    assert all(alone.values())
    for filter_, value in (("text", name), ("text", "a@example"), ("state", "deferred")):
        assert sorted(alone[filter_, value] + alone[f"{filter_}:ne", value]) == sorted(everything)
    for first, second in itertools.product(here, others):
        assert uuids_on_page(first, second) == [item for item in alone[first] if item in alone[second]], (first, second)


@pytest.mark.usefixtures("most_to_sort")
def test_filters_of_sent_contacts(owner: Tenant, sent: tuple[int, list[int], list[int]]) -> None:
    message, groups, lists = sent
    filters = [
        *(f"report_id={groups[0]}", f"report_id:in={groups[0]},{groups[1]}", f"report_id:ne={groups[0]}"),
        *(f"list_id={lists[0]}", f"list_id:in={lists[0]},{lists[1]}", "list_id=", "list_id:ne="),
        *("open_type=html", "open_type:in=html,text", "open_type:ne=html", "open_type=text"),
        *("contact_id=7", "contact_id:in=5..20", "contact_id:in=1,2,3,4,5,6,7,8", "contact_id:ne=7"),
        *(f"first_open_time:in={between(0, 24)}", "first_open_time=", "first_open_time:ne="),
        *(f"last_open_time:in={between(0, 24)}", f"send_time:in={between(3, 24)}", "send_time:in=2026-01-03.."),
    ]
    check(Items(owner, f"/v1/messages/{message}/sent-contacts"), filters)


@pytest.fixture(scope="module")
def list_path(owner: Tenant) -> str:
    """A list of contacts, of which some are unsubscribed, blocked, inactive or changed."""
    list_id, chance = owner.add_list(fields=FULL_FIELDS), random.Random(3)
    contacts: list[dict[str, Any]] = []
    for number in range(NUMBER):
        changed = day(number) + timedelta(days=chance.choice([0, 0, 5]))
        contacts.append(
            {
                "email": f"c{number}@example.com" if chance.random() < 0.8 else None,
                "mobile": f"614915700{number}" if chance.random() < 0.8 else None,
                "subscribed_email": chance.random() < 0.7,
                "subscribed_mobile": chance.random() < 0.7,
                "is_active": chance.random() < 0.7,
                "double_opt_in": (opted_in := chance.random() < 0.5),
                "double_opt_in_time": day(number) if opted_in and chance.random() < 0.8 else None,
                "creation_time": day(number),
                "last_modified_time": changed,
            }
        )
    rows = Rows(owner.services, owner.id)
    for contact in contacts:
        rows.add_contact(list_id, **contact)
    blocked = {"account_id": owner.id, "kind": "email", "reason": "by hand", "creation_time": this_second()}
    for number in range(0, NUMBER, 4):
        owner.add(BlockedAddress, **blocked, address=f"c{number}@example.com", uuid=unique("uuid")[:36])
    return f"/v1/lists/{list_id}/contacts"


@pytest.mark.usefixtures("most_to_sort")
def test_filters_of_contacts(owner: Tenant, list_path: str) -> None:
    with owner.services.database.read() as session:
        ids = sorted(session.query(Contact.id).filter(Contact.account_id == owner.id))[5:9]
    (first, *_), values = ids[0], ",".join(str(id_) for (id_,) in ids)
    emails = ",".join(f"c{number}@example.com" for number in range(20))
    filters = [
        *("subscribed=false", "subscribed.email=false", "subscribed.mobile=true", "is_active=false", "is_active=true"),
        *("double_opt_in=true", "double_opt_in:ne=true", "blocked=true", "blocked.email=false", "blocked:ne=false"),
        *("double_opt_in_time:ne=", "double_opt_in_time=", f"double_opt_in_time:in={between(3, 24)}"),
        *(f"email:in={emails}", "email=c4@example.com", "email:ne=", "mobile=", f"id:in={values}", f"id={first}"),
        *(f"id:in={first}..", f"creation_time:in={between(3, 30)}", f"last_modified_time:in={between(9, 24)}"),
        *("email:ne=c4@example.com", "subscribed:in=true,false", "creation_time:in=2026-01-05.."),
    ]
    check(Items(owner, list_path), filters)


@pytest.fixture(scope="module")
def suppressed(app: Flask) -> Tenant:
    """An account with entries of both states and kinds."""
    tenant, chance = new_tenant(app), random.Random(4)
    list_id = tenant.add_list()
    for number in range(NUMBER):
        kind = chance.choice(["email", "mobile"])
        entry = {
            "account_id": tenant.id,
            "kind": kind,
            "address": f"s{number}@example.com" if kind == "email" else f"61491570{number:03}",
            "creation_time": day(number),
            "uuid": f"00000000-0000-4000-8000-{number:012}",
        }
        if chance.random() < 0.5:
            tenant.add(BlockedAddress, **entry, reason=chance.choice(["by hand", "complaint"]))
        else:
            tenant.add(Unsubscriber, **entry, list_id=chance.choice([None, list_id]))
    return tenant


@pytest.mark.usefixtures("most_to_sort")
def test_filters_of_suppressions(suppressed: Tenant) -> None:
    with suppressed.services.database.read() as session:
        (list_id,) = {id_ for (id_,) in session.query(Unsubscriber.list_id).filter_by(account_id=suppressed.id) if id_}
    emails = ",".join(f"s{number}@example.com" for number in range(20))
    filters = [
        *("state=blocked", "state:ne=blocked", "email=", "mobile=", "email:ne=", f"email:in={emails}"),
        *("email=s1@example.com", "email:ne=s1@example.com", f"list_id={list_id}", "list_id=", "list_id:ne="),
        *(f"reason={quote('by hand')}", "reason:in=by%20hand,complaint", "reason:ne=complaint", "reason="),
        *(f"creation_time:in={between(3, 30)}", "creation_time:in=2026-01-05..", "creation_time:in=..2026-01-08"),
        *("uuid=00000000-0000-4000-8000-000000000003", f"list_id:in={list_id},999999999"),
    ]
    check(Items(suppressed, "/v1/suppressions"), filters)
