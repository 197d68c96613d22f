"""No statement of the API or of the workers reads all of a table that grows (docs/querying.md#what-an-index-answers).

Every statement that a tour through the API and the background work sends is explained by a database with 100,000 rows
in each such table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from flask import Flask

from app import create_app
from app.db.field_indexes import FieldIndex, create_index
from app.db.migrate import upgrade
from app.events.dispatch import dispatch_due
from app.http.context import EXTENSION
from app.maintenance import sweeps
from app.sends.delivery.drain import drain
from app.sends.delivery.sender_worker import close_sender_worker
from app.services import Services
from app.tracking.unsubscribe import unsubscribe_link
from tests.conftest import BACKENDS, test_settings
from tests.support.client import SENDS, Client
from tests.support.filled import GROWING, fill
from tests.support.plans import StatementRecorder, scanned
from tests.support.rows import Rows
from tests.support.servers import scratch_database, short_folder
from tests.support.tenants import FULL_FIELDS, Tenant, new_tenant

ROWS = 100_000
LIST, MESSAGE = "/v1/lists/1/contacts", "/v1/messages/1"


@dataclass(frozen=True)
class Full:
    """An application over a database with many rows, of which account 1 has the contacts and recipients."""

    app: Flask
    tenant: Tenant

    @property
    def services(self) -> Services:
        return self.tenant.services

    def statements(self, *tour: Any) -> dict[str, Any]:
        """What the parts of a tour send to the database, with parameters."""
        with StatementRecorder(self.services.database.engine) as recorder:
            for part in tour:
                part(self)
        return recorder.statements

    def reading_all(self, statements: dict[str, Any]) -> list[tuple[list[str], str]]:
        """Those that read all of a growing table, with its name."""
        whole_reads = []
        with self.services.database.engine.connect() as connection:
            for statement, parameters in statements.items():
                tables = scanned(connection, statement, parameters, GROWING)
                if tables:
                    whole_reads.append((tables, statement))
        return whole_reads


@pytest.fixture(scope="module", params=BACKENDS)
def full(request: pytest.FixtureRequest, redis_url: str) -> Iterator[Full]:
    with ExitStack() as stack:
        folder = stack.enter_context(short_folder())
        database = f"sqlite:///{folder}/tms.sqlite3"
        if request.param == "postgresql":
            database = stack.enter_context(scratch_database(request.getfixturevalue("postgres")))
        mails = {"EMAIL_TRANSPORT_URL": f"file://{folder}/mails", "SMS_TRANSPORT_URL": f"file://{folder}/sms"}
        settings = test_settings(folder, DATABASE_URL=database, REDIS_URL=redis_url, **mails)
        upgrade(settings.database_url)
        app = create_app(settings)
        tenant = new_tenant(app)
        new_tenant(app)
        assert (tenant.id, tenant.add_list("Customers", FULL_FIELDS), tenant.add_message()) == (1, 1, 1)
        assert Rows(tenant.services, tenant.id).add_webhook() == 1
        with tenant.services.database.engine.begin() as connection:
            fill(connection, ROWS)
        for index in (FieldIndex("score", "number"), FieldIndex("born", "date"), FieldIndex("visit", "date")):
            create_index(settings.database_url, index)
        yield Full(app, tenant)
        services: Services = app.extensions[EXTENSION]
        close_sender_worker(services)
        services.database.close()
        services.redis.close()


FILTERS: dict[str, tuple[str, ...]] = {
    LIST: (
        *("id=5", "id=900000000", "id:in=99990..", "id:in=900000000..", "id:in=5,6,900000000"),
        *("email=p7@example.com", "email=nobody@example.com", "email:in=p7@example.com,p8@example.com", "email="),
        *("mobile=61410000007", "mobile=61499999999", "mobile=", "email:ne=p7@example.com"),
        *("creation_time:in=2026-01-01..", "creation_time:in=2030-01-01..", "creation_time=2026-01-01T00:00:07Z"),
        *("last_modified_time:in=2026-01-01..", "last_modified_time:in=2030-01-01..", "last_modified_time=2030-01-01"),
        *("is_active=true", "is_active=false", "double_opt_in=false", "double_opt_in=true"),
        *("double_opt_in_time=", "double_opt_in_time:in=2030-01-01.."),
        *("subscribed=true", "subscribed=false", "subscribed.email=false", "subscribed.mobile=false"),
        *("blocked=false", "blocked=true", "blocked.email=true", "blocked.mobile=true"),
        *("first_name=F5", "first_name=Nobody", "first_name:in=F5,Nobody", "first_name:ne=F5", "first_name="),
        *("plan=free", "plan=gold", "plan:in=gold,silver", "interests=tea"),
        *("score=5", "score:in=1000..3000", "score:in=1000000..", "score:in=..-1", "score:in=7,1000000..2000000"),
        *("born=1970-01-01", "born=2020-01-01", "born:in=2020-01-01..", "visit:in=2020-01-01..", "score:ne=5"),
        *("subscribed=false&plan=free", "plan=free&score:in=1000000..", "is_active=true&last_modified_time:in=2030.."),
    ),
    f"{MESSAGE}/sent-contacts": (
        *("contact_id=5", "contact_id=900000000", "contact_id:in=900000000..", "list_id=1", "list_id=900000000"),
        *("send_time:in=2026-01-01..", "send_time:in=2030-01-01..", "report_id=1", "report_id=900000000"),
        *("first_open_time:in=2030-01-01..", "last_open_time:in=2030-01-01..", "first_open_time="),
        *("open_type=not_opened", "open_type=html", "open_type=sms"),
    ),
    "/v1/lists": ("id=1", "id=900000000", "name=Customers", "name=Nobody", "last_modified_time:in=2030-01-01.."),
    "/v1/messages": ("id=1", "type=email", "type=sms", "name=Nobody", "subject=Nobody", "creation_time=2030-01-01"),
    "/v1/transactional-groups": ("id=1", "type=email", "name=Nobody", "sent:in=5..", "last_sent_time=2030-01-01"),
}
"""Collection -> queries, each with a filter that many rows meet, few or none."""


def read_everything(full: Full) -> None:
    """Every collection and instance, with each filter, and counted."""
    for path, queries in FILTERS.items():
        for query in ("", "limit=1&offset=500", *queries):
            answer = full.tenant.api.get(f"{path}?{query}".replace("2030..", "2030-01-01.."))
            assert answer.status_code == 200, answer.text
    for path in ("/v1/lists?expand=contacts", f"{LIST}/5", f"{MESSAGE}?expand=content", f"{MESSAGE}/content"):
        assert full.tenant.api.get(path).status_code == 200


def write_contacts(full: Full) -> None:
    """Contacts are created, changed, unsubscribed and deleted, one at a time and many."""
    api = full.tenant.api
    person = {"email": "new@example.com", "mobile": "61420000001", "score": 5, "subscribed": {"email": False}}
    assert api.post(LIST, person).status_code == 201
    people = [{"email": f"bulk{number}@example.com", "plan": "gold"} for number in range(20)]
    assert api.post(LIST, {"contacts": people}).status_code == 204
    assert api.post(f"{LIST}?remove_unsubscribers=any", {"email": "other@example.com"}).status_code == 201
    assert api.patch(f"{LIST}/7", {"email": "moved@example.com", "subscribed": {"mobile": False}}).status_code == 200
    changes = [{"id": number, "score": number, "is_active": False} for number in range(20, 40)]
    assert api.patch(LIST, {"contacts": changes}).status_code == 204
    assert api.delete(f"{LIST}/8").status_code == 204
    assert api.delete(f"{LIST}?id:in=9,10").status_code == 204


def send(full: Full) -> None:
    """Emails and texts are accepted, sent and looked at, and their links followed."""
    api, domain = full.tenant.api, full.tenant.domain
    email = {"type": "email", "group_name": "Plans", "from_address": f"hello@{domain}", "from_name": "Acme"}
    content = {"subject": "Hi", "body_text": "Hello %%first_name%%", "body_html": '<a href="https://a.example/">a</a>'}
    people = [{"email": "p11@example.com"}, {"email": "brand-new@example.com"}, {"contact_id": 12}]
    answers = [
        api.post(SENDS, {**email, **content, "list_id": 1, "recipients": people}),
        api.post(SENDS, {**email, "list_id": 1, "message_id": 1, "recipients": people[:1]}),
        api.post(SENDS, {**email, **content, "list_id": 1, "recipients": people}, headers={"Idempotency-Key": "k"}),
    ]
    assert [answer.status_code for answer in answers] == [202, 202, 202], [answer.text for answer in answers]
    drain(full.services)
    anon = Client(full.app)
    answer = answers[0].get_json()
    uuids = [one["uuid"] for one in answer.get("recipients", [])] or []
    for uuid in uuids:
        assert api.get(f"{SENDS}/{uuid}").status_code == 200
    link = unsubscribe_link(full.services.settings, ROWS - 1).removeprefix(full.services.settings.public_url)
    assert anon.get(link).status_code == 200
    assert anon.request("POST", link).status_code == 200


def work(full: Full) -> None:
    """What the workers and the scheduler do with and without work."""
    drain(full.services)
    dispatch_due(full.services)
    sweep = sweeps.SendQueueSweep(full_share=1e-9)
    with full.services.database.read() as session:
        for _ in range(2):  # the second time from what the first has found
            sweep.finds_work(session)
        sweeps.events_waiting(session)
        sweeps.replies_waiting(session)
    sweeps.clean(full.services)


@pytest.mark.parametrize("part", [read_everything, write_contacts, send, work], ids=lambda part: part.__name__)
def test_no_statement_reads_all_of_a_table_that_grows(full: Full, part: Any) -> None:
    statements = full.statements(part)
    assert statements
    assert full.reading_all(statements) == []
