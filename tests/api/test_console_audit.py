"""The audit log in the console (docs/console-contents.md#audit-log)."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

from sqlalchemy import select

from app.audit.record import Act, record
from app.db.models import AuditEntry
from tests.support.browser import operator, signed_in, words
from tests.support.tenants import Tenant, new_email

PATH = "/console/audit"
SCRIPT = "<script>alert(1)</script>"


def act(tenant: Tenant, action: str, **values: Any) -> int:
    """Something that was done to the account; returns the id of its entry."""
    with tenant.services.database.write() as transaction:
        record(transaction, Act(action, tenant.id, **values))
    with tenant.services.database.read() as session:
        newest = select(AuditEntry.id).where(AuditEntry.account_id == tenant.id).order_by(AuditEntry.id.desc())
        return int(session.scalars(newest.limit(1)).one())


def test_an_operator_finds_entries_by_the_query_language(tenant: Tenant) -> None:
    changes = [{"field": SCRIPT, "old": 1, "new": SCRIPT}]
    first = act(tenant, "list.created", object_id=5, name=SCRIPT, changes=changes, counts={"contacts": 3})
    second = act(tenant, "key.created", object_id=6, name="A key")
    browser = operator(tenant.app)
    for query, expected_ids in (("", {first, second}), ("&action=key.created", {second}), ("&object_id=5", {first})):
        page = browser.get(f"{PATH}?account_id={tenant.id}{query}")
        assert page.status_code == 200
        assert {int(entry_id) for entry_id in re.findall(rf'href="{PATH}/(\d+)"', page.text)} == expected_ids
        assert "<script>" not in page.text
    entry = browser.get(f"{PATH}/{first}")
    assert "list.created" in words(entry)
    assert "contacts 3" in words(entry)
    assert "&lt;script&gt;" in entry.text
    assert "<script>" not in entry.text
    location = browser.get(f"{PATH}?find=deploy&from=2026-01-01&to=2026-01-31&action=").headers["Location"]
    assert location == f"{PATH}?actor=deploy&time:in=2026-01-01..2026-01-31"


def test_what_was_done_to_an_address_is_found_without_its_being_in_the_address_bar(tenant: Tenant) -> None:
    address = new_email()
    signed_in(tenant).post("/console/suppressions", address=address, state="blocked")
    browser = operator(tenant.app)
    location = browser.get(f"{PATH}?find={address}").headers["Location"]
    assert "@" not in location
    assert "%40" not in location
    assert "suppression.added" in words(browser.get(location))


def test_pages_follow_each_other_by_cursors_and_the_file_has_them_all(tenant: Tenant) -> None:
    ids = [act(tenant, "list.updated", object_id=number) for number in range(55)]
    browser, path, listed_ids = operator(tenant.app), f"{PATH}?account_id={tenant.id}", []
    while path:
        page = browser.get(path).text
        listed_ids += [int(entry_id) for entry_id in re.findall(rf'href="{PATH}/(\d+)"', page)]
        older = re.search(r'<a href="([^"]+)" rel="next"', page)
        path = older[1].replace("&amp;", "&") if older else ""
    assert listed_ids == ids[::-1]
    head, *rows = csv.reader(io.StringIO(browser.get(f"{PATH}.csv?account_id={tenant.id}").text))
    assert [int(row[head.index("id")]) for row in rows] == listed_ids
