"""Groups in the console: searching them, and the report of one (docs/console-messages.md#groups)."""

from __future__ import annotations

import csv
import io

import pytest
from sqlalchemy import update

from app.clock import now
from app.db.models import Group, RecipientStep
from tests.support.browser import operator, signed_in, words
from tests.support.rows import Rows
from tests.support.tenants import Tenant

PATH = "/console/groups"
IPHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Version/18.0 Mobile/15E148"
LINK = "https://shop.example/offers?of=ann"


@pytest.fixture
def rows(tenant: Tenant) -> Rows:
    """Rows of the account."""
    return Rows(tenant.services, tenant.id)


def new_group(rows: Rows, **counters: int) -> int:
    """A group with these counters."""
    group_id = rows.add_group()
    with rows.services.database.write() as transaction:
        own_counters = {f"own_{name}": count for name, count in {"sent": 0, **counters}.items()}
        transaction.execute(update(Group).where(Group.id == group_id).values(own_counters))
    return group_id


def name_of(rows: Rows, group_id: int) -> str:
    with rows.services.database.read() as session:
        return session.get_one(Group, group_id).name


def add_step(rows: Rows, recipient_id: int, step: str, detail: str | None = None, country: str | None = None) -> None:
    with rows.services.database.write() as transaction:
        owner = {"account_id": rows.account_id, "recipient_id": recipient_id}
        transaction.add(RecipientStep(**owner, time=now(), step=step, detail=detail, country=country))


def test_groups_are_found_by_the_query_language(tenant: Tenant, rows: Rows) -> None:
    first, second = new_group(rows, sent=1), new_group(rows, sent=1234, delivered=1200)
    browser = signed_in(tenant, "report")
    page = words(browser.get(PATH))
    assert page.index(name_of(rows, second)) < page.index(name_of(rows, first)), "the newest first"
    assert "1 234" in page
    location = browser.get(f"{PATH}?find={first}&type=email").headers["Location"]
    assert location == f"{PATH}?type=email&id={first}"
    assert name_of(rows, second) not in words(browser.get(location))
    assert "No group matches." in words(browser.get(f"{PATH}?name=none"))

    lines = list(csv.DictReader(io.StringIO(browser.get(f"{PATH}.csv").text.removeprefix("\ufeff"))))
    assert [(line["id"], line["sent"]) for line in lines][:2] == [(str(second), "1234"), (str(first), "1")]


def test_a_report_has_the_shares_of_its_counters(tenant: Tenant, rows: Rows) -> None:
    """A share is one of the messages sent, or of those delivered. Where there are none, no share is shown."""
    group_id = new_group(rows, sent=200, failed_contacts=1, bounced=19, delivered=180, opened=90, clicked=9)
    page = words(signed_in(tenant, "report").get(f"{PATH}/{group_id}"))
    assert "accepted 200 100.0 % failed 1 0.5 % bounced 19 9.5 % delivered 180 90.0 %" in page
    assert "opened 90 50.0 % clicked 9 5.0 % unsubscribed 0 0.0 %" in page
    empty = words(signed_in(tenant).get(f"{PATH}/{new_group(rows)}"))
    assert "delivered 0 – opened 0 –" in empty
    assert "No message has failed or bounced." in empty


def test_the_latest_messages_tell_reasons_links_devices_and_countries(tenant: Tenant, rows: Rows) -> None:
    """Each message counts once for a link, a kind of device and a country, and machines do not. Keys of the level
    `report` see no links, since they may have values of people in them."""
    group_id = new_group(rows, sent=4)
    settled = [{"email": f"{name}@example.com", "state": "delivered"} for name in ("ann", "bob")]
    failed = [{"email": "cy@example.com", "state": "failed", "reason": "blocked"}] * 2
    ann, bob, *_ = rows.add_send([*settled, *failed], group_id=group_id)
    for _ in range(2):
        add_step(rows, ann, "clicked", f"{LINK} · {IPHONE}", "AU")
    add_step(rows, bob, "clicked", f"{LINK} · {IPHONE}", "AU")
    add_step(rows, bob, "opened", "", "AX")
    add_step(rows, bob, "opened", "")
    add_step(rows, bob, "clicked by machine", "https://shop.example/only-machines · bot", "US")
    page = words(signed_in(tenant).get(f"{PATH}/{group_id}"))
    assert "the latest 4 messages." in page
    assert "Reason Messages address is blocked 2" in page
    assert f"Link Messages {LINK} 2 Devices" in page
    assert "Kind Messages mobile 2 unknown 1 Countries" in page
    assert "Country Messages Australia 2 unknown 1 Åland Islands 1" in page
    assert "United States" not in page
    report = words(signed_in(tenant, "report").get(f"{PATH}/{group_id}"))
    assert "shop.example" not in report
    assert "Kind Messages mobile 2 unknown 1 Countries" in report
    assert "Country Messages Australia 2" in report


def test_two_groups_are_shown_side_by_side(tenant: Tenant, rows: Rows) -> None:
    """A group that is not of the same account is refused, and the first one is shown alone."""
    first, second = new_group(rows, sent=10, delivered=5), new_group(rows, sent=20, delivered=5)
    browser = signed_in(tenant)
    page = words(browser.get(f"{PATH}/{first}?beside={second}"))
    assert "delivered 5 50.0 % 5 25.0 %" in page
    assert name_of(rows, second) in page
    by_name = words(browser.get(f"{PATH}/{first}", query_string={"beside": name_of(rows, second)}))
    assert "delivered 5 50.0 % 5 25.0 %" in by_name
    assert f'<option value="{name_of(rows, second)}">' in browser.get(f"{PATH}/{first}").text
    assert browser.get(f"{PATH}/{first}?beside=%00").status_code == 422
    for wrong, status, text in (
        ("x", 422, "the account has no group 'x'"),
        ("999999999", 422, "the account has no group"),
    ):
        refused = browser.get(f"{PATH}/{first}?beside={wrong}")
        assert (refused.status_code, text in words(refused)) == (status, True)
        assert "delivered 5 50.0 % opened" in words(refused)


def test_a_group_of_another_account_stands_beside_none(tenant: Tenant, other_tenant: Tenant, rows: Rows) -> None:
    """Operators see those of all."""
    own_id, foreign = new_group(rows), new_group(Rows(other_tenant.services, other_tenant.id), sent=3)
    browser = signed_in(tenant)
    assert browser.get(f"{PATH}/{own_id}?beside={foreign}").status_code == 422
    answer = operator(tenant.app).get(f"{PATH}/{foreign}")
    assert (answer.status_code, "accepted 3 100.0 %" in words(answer)) == (200, True)
    assert operator(tenant.app).get(f"{PATH}/{foreign}?beside={own_id}").status_code == 422


def test_its_hours_are_a_file(tenant: Tenant, rows: Rows) -> None:
    file = signed_in(tenant, "report").get(f"{PATH}/{new_group(rows)}/day.csv")
    _, *lines = csv.reader(io.StringIO(file.text.removeprefix("\ufeff")))
    assert len(lines) == 24


def test_replies_that_differ_in_the_address_alone_are_one_reason(tenant: Tenant, rows: Rows) -> None:
    group_id = new_group(rows, sent=3, bounced=3)
    rows.add_send(
        [
            {"email": f"{name}@example.com", "state": "bounced", "reason": f"550 <{name}@example.com>: rejected"}
            for name in ("ann", "bob", "cy")
        ],
        group_id=group_id,
    )
    assert "Reason Messages rejected 3" in words(signed_in(tenant).get(f"{PATH}/{group_id}"))
