"""A value that many rows have is not taken for a rare one (docs/querying.md#what-an-index-answers).

On SQLite, which reads the index of a value without knowing how many rows have it: an office shares a mobile number,
most alerts go to one address, many contacts opted in in the same year, and all runs wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from sqlalchemy import text as sql

from app import create_app
from app.clock import this_second
from app.db.models import BlockedAddress, Group
from app.http.context import EXTENSION
from tests.conftest import test_settings
from tests.support.apps import close
from tests.support.automations import add_automation
from tests.support.browser import signed_in
from tests.support.cases import each
from tests.support.client import SENDS
from tests.support.filled import fill
from tests.support.plans import StatementRecorder
from tests.support.prepared import migrated_file
from tests.support.rows import Rows
from tests.support.servers import short_folder
from tests.support.tenants import FULL_FIELDS, Tenant, new_tenant

ROWS = 20_000
MOST_INSTRUCTIONS = 25_000
"""Of all statements of a request: about what it takes to find a thousand rows and to show a page. Reading half of the
rows takes more than five times as many."""
LIST, SENT = "/v1/lists/1/contacts", "/v1/messages/1/sent-contacts"
OFFICE, ALERTS = "61400000000", "alerts@example.com"
UUIDS = "0b7c6a35-3c7f-4e0b-9f6e-8a4b5f3f2a10,0b7c6a35-3c7f-4e0b-9f6e-8a4b5f3f2a11"
WIDE = "2024-01-01..2100-01-01"
SHARED = (
    f"UPDATE contacts SET mobile = '{OFFICE}' WHERE id % 2 = 0",
    "UPDATE contacts SET double_opt_in = true, double_opt_in_time = creation_time WHERE id % 2 = 1",
    "UPDATE contacts SET double_opt_in_time = '2020-01-01 00:00:00.000000' WHERE id % 2 = 1 AND id < 20",
    f"UPDATE recipients SET email = '{ALERTS}', mobile = '{OFFICE}', contact_id = 3 WHERE id % 4 > 0",
    "UPDATE recipients SET state = 'failed' WHERE id % 1000 = 1",
    f"UPDATE recipients SET group_id = 2 WHERE id <= {ROWS} - 300",
    "UPDATE automation_runs SET state = 'waiting', step = 'a day', end_time = NULL",
)
AUTOMATION = {
    **{"name": "Series", "kind": "advanced", "trigger": "REST API Contact Created"},
    "steps": [{"name": "a day", "wait": "1 day"}],
}


@pytest.fixture(scope="module")
def shared(redis_url: str) -> Iterator[Tenant]:
    """An account whose contacts and messages have values that many of them share."""
    with short_folder() as folder:
        settings = test_settings(folder, DATABASE_URL=migrated_file(folder / "tms.sqlite3"), REDIS_URL=redis_url)
        app = create_app(settings)
        tenant, _ = new_tenant(app), new_tenant(app)
        rows, moment = Rows(tenant.services, tenant.id), this_second()
        assert (tenant.id, tenant.add_list("Customers", FULL_FIELDS), tenant.add_message()) == (1, 1, 1)
        assert (rows.add_webhook(), add_automation(tenant.services, tenant.id, 1, AUTOMATION)) == (1, 1)
        assert rows.add(Group, type="email", name="Receipts", creation_time=moment, own_last_sent_time=moment) == 2
        with tenant.services.database.engine.begin() as connection:
            fill(connection, ROWS)
            for statement in SHARED:
                connection.execute(sql(statement))
        blocked = {"kind": "email", "address": "p4@example.com", "reason": "by hand", "uuid": None}
        tenant.add(BlockedAddress, **blocked, creation_time=moment)
        yield tenant
        close(app.extensions[EXTENSION])


def instructions(tenant: Tenant, act: Callable[[], Any]) -> int:
    """The most instructions of each statement, together."""
    with StatementRecorder(tenant.services.database.engine) as recorder:
        act()
    return recorder.instructions.total()


PAGES = (
    *(f"{LIST}?mobile={OFFICE}", f"{LIST}?id:in=5,6,7&mobile={OFFICE}", f"{LIST}?blocked=true&mobile={OFFICE}"),
    *(f"{LIST}?email=p7@example.com", f"{LIST}?limit=0&id:in=6,8&mobile={OFFICE}"),
    *(f"{LIST}?double_opt_in_time:in={WIDE}", f"{LIST}?limit=0&id:in=5,6,7&double_opt_in_time:in={WIDE}"),
    f"{LIST}?limit=0&double_opt_in_time=2020-01-01&last_modified_time:in={WIDE}",
    *(f"{SENDS}?{name}" for name in (f"email={ALERTS}", f"mobile={OFFICE}", "contact_id=3")),
    *(f"{SENDS}?state:in=failed,bounced&{name}" for name in (f"email={ALERTS}", f"mobile={OFFICE}", "contact_id=3")),
    f"{SENDS}?limit=0&uuid:in={UUIDS}&email={ALERTS}",
    *(f"{SENT}?contact_id=3", f"{SENT}?contact_id=3&open_type=html"),
)


@pytest.mark.sqlite("PostgreSQL counts how many rows have a value")
@each("path", PAGES)
def test_a_page_by_a_value_that_many_have_reads_no_more_than_it_shows(shared: Tenant, path: str) -> None:
    """Nor does one that begins behind it."""

    def read(path: str) -> Any:
        answer = shared.api.get(path)
        assert answer.status_code == 200, answer.text
        return answer.get_json()

    first = read(path)
    for link in (path, *(link["href"] for name, link in first["_links"].items() if name == "next")):
        assert instructions(shared, partial(read, link)) <= MOST_INSTRUCTIONS, link


@pytest.mark.sqlite("PostgreSQL counts how many rows have a value")
@each("query", ("text:ne=Receipts", "text:ne=Receipts&state=failed", "state:ne=deferred&state=failed"))
def test_a_negation_that_hardly_anything_meets_is_not_looked_for(shared: Tenant, query: str) -> None:
    """All messages but the newest are in that group."""
    browser = signed_in(shared)

    def read() -> None:
        assert browser.get(f"/console/messages?{query}").status_code == 200

    assert instructions(shared, read) <= MOST_INSTRUCTIONS


@pytest.mark.sqlite("PostgreSQL counts how many rows have a value")
def test_the_command_that_lists_runs_reads_no_more_than_it_shows(shared: Tenant) -> None:
    command = ("automations", "runs", "--account", shared.name, "1", "--state", "waiting", "--json")

    def read() -> None:
        result = shared.app.test_cli_runner().invoke(args=command)
        assert (result.exit_code, result.stdout.count('"state": "waiting"')) == (0, 100), result.output

    assert instructions(shared, read) <= MOST_INSTRUCTIONS
