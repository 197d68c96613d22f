"""No statement of the API or of the workers reads the whole of a growing table
(docs/querying.md#what-an-index-answers).

A database with 100,000 rows in each such table explains every statement that a tour of the API and of the background
work sends.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from flask import Flask
from sqlalchemy import delete, select, update
from sqlalchemy import text as sql

from app import create_app
from app.accounts.accounts import update_account
from app.bulk_actions.ask import ask
from app.bulk_actions.ask import cancel as cancel_action
from app.bulk_actions.kinds import KINDS, RETRY
from app.bulk_actions.preview import Inspection, Preview, preview
from app.bulk_actions.query import parse_query, query_of
from app.bulk_actions.run import has_due, run_due
from app.clock import now
from app.contacts.delete import delete_list
from app.db.due import DueAccounts
from app.db.field_indexes import FieldIndex, create_index
from app.db.models import Account, AutomationPassedStep, AutomationRun, DelayedPurge, QueueEntry, Recipient, Send
from app.db.queue import RUN_QUEUE
from app.events.batches import Exclusions, claim
from app.events.batches import has_due as has_due_events
from app.events.dispatch import dispatch_due
from app.http.context import EXTENSION
from app.inbound.email.receive import receive_email
from app.inbound.kannel import reply_secret
from app.inbound.simulated import has_due as has_due_simulations
from app.inbound.simulated import simulate_due
from app.inbound.smpp import flush_overdue, has_overdue_parts
from app.infrastructure.heartbeat import Heartbeat
from app.lists.find import get_list
from app.maintenance import sweeps
from app.maintenance.figures import read_figures
from app.maintenance.overview import read_put_off
from app.recipients.collection import MatchingRecipients
from app.retention.periods import Period, Stage
from app.retention.slices import purge
from app.runs.delete import delete_automation
from app.runs.pause import cancel
from app.runs.pause import pause as pause_automation
from app.runs.pause import resume as resume_automation
from app.runs.work import advance_due
from app.sends.delivery.drain import drain
from app.sends.delivery.sender_worker import close_sender_worker
from app.sends.explain.recipient import explain_recipient
from app.sends.pauses.pause import Subject, find_pause, pause
from app.sends.pauses.pause import resume as resume_sending
from app.sends.pauses.read import active_shown, list_pauses, pauses_concerning, pauses_everywhere
from app.services import Services
from app.tracking.feedback_channels import receipt_url, unsubscribe_link
from app.tracking.links import InlineLink, link_token
from app.tracking.recorder import VISITS
from app.tracking.tokens import OPEN_PURPOSE, recipient_token, return_path
from tests.conftest import test_settings
from tests.support.automations import add_automation
from tests.support.browser import signed_in
from tests.support.cases import each
from tests.support.client import SENDS, Client
from tests.support.databases import BACKENDS
from tests.support.filled import GROWING, fill
from tests.support.mail_reports import complaint, delivery_failure
from tests.support.plans import StatementRecorder, reads_index_alone, rows_read, scanned
from tests.support.preferences import preferences_path
from tests.support.prepared import migrated_file
from tests.support.rows import Rows
from tests.support.servers import migrated_database, short_folder
from tests.support.tenants import FULL_FIELDS, Tenant, new_tenant

ROWS = 100_000
SENDGRID_SECRET = "a-secret-of-sendgrid"
NUMBER = "61499000001"
LIST, MESSAGE = "/v1/lists/1/contacts", "/v1/messages/1"
READER = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Thunderbird/140.0"}
SENT = f"{MESSAGE}/sent-contacts"
RUNS = "/v1/automations/1/runs"
LABELS = {"tags": ["receipt"], "metadata": {"order": "1"}}
GROWING_TABLES = re.compile(r"FROM (recipients|recipient_labels|contacts|unsubscribers|blocked_addresses)\b")
RECIPIENT_TABLES = re.compile(r"FROM (recipients|recipient_labels)\b")


@dataclass(frozen=True)
class Full:
    """An application over a database with many rows, of which account 1 has the contacts and recipients, account 2
    the blocked addresses, and each of them a half of the unsubscribed ones."""

    app: Flask
    tenant: Tenant
    other: Tenant
    """The account of the rows of smaller tables."""

    @property
    def services(self) -> Services:
        return self.tenant.services

    def recorded(self, part: Any) -> StatementRecorder:
        """The statements that a part of the tour sends."""
        with StatementRecorder(self.services.database.engine) as recorder:
            part(self)
        return recorder

    def statements(self, part: Any) -> dict[str, Any]:
        """The statements that a part of the tour sends, with parameters."""
        return self.recorded(part).statements

    def reading_all(self, statements: dict[str, Any], but: Collection[str] = ()) -> list[tuple[list[str], str]]:
        """The statements that read the whole of a growing table, with its name."""
        whole_reads, growing = [], GROWING.keys() - set(but)
        with self.services.database.engine.connect() as connection:
            for statement, parameters in statements.items():
                tables = scanned(connection, statement, parameters, growing)
                if tables:
                    whole_reads.append((tables, statement))
        return whole_reads


@pytest.fixture(scope="module", params=BACKENDS)
def full(request: pytest.FixtureRequest, redis_url: str) -> Iterator[Full]:
    with ExitStack() as stack:
        folder = stack.enter_context(short_folder())
        if request.param == "postgresql":
            database = stack.enter_context(migrated_database(request.getfixturevalue("postgres")))
        else:
            database = migrated_file(folder / "tms.sqlite3")
        mails = {"EMAIL_TRANSPORT_URL": f"file://{folder}/mails", "SMS_TRANSPORT_URL": f"file://{folder}/sms"}
        urls = {"DATABASE_URL": database, "REDIS_URL": redis_url, "SENDGRID_WEBHOOK_SECRET": SENDGRID_SECRET}
        settings = test_settings(folder, **urls, **mails)
        app = create_app(settings)
        tenant = new_tenant(app)
        other = new_tenant(app)
        assert (tenant.id, tenant.add_list("Customers", FULL_FIELDS, offered=True), tenant.add_message()) == (1, 1, 1)
        assert Rows(tenant.services, tenant.id).add_webhook() == 1
        assert add_automation(tenant.services, tenant.id, 1, AUTOMATION) == 1
        with tenant.services.database.engine.begin() as connection:
            fill(connection, ROWS)
        for index in (FieldIndex("score", "number"), FieldIndex("born", "date"), FieldIndex("visit", "date")):
            create_index(settings.database_url, index)
        yield Full(app, tenant, other)
        services: Services = app.extensions[EXTENSION]
        close_sender_worker(services)
        services.database.close()
        services.redis.close()


AUTOMATION = {
    "name": "Plans",
    "kind": "advanced",
    "trigger": "REST API Contact Created",
    "if": "plan:NOTEXACTLY:silver",
    "again": {"after": "1 minute"},
    "steps": [
        {"name": "mark", "set": {"plan": "gold"}},
        {"name": "hello", "send": "1"},
        {
            "name": "read it",
            "branch": {"step": "hello", "did": "opened", "within": "1 day"},
            "then": [{"name": "out", "unsubscribe": "all"}],
        },
        {"name": "a day", "wait": "1 day"},
    ],
}

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
        *("limit=0&subscribed=false", "limit=0&score:in=1000000..", "limit=0&email=p7@example.com"),
        *("subscribed=false&plan=free", "plan=free&score:in=1000000..", "is_active=true&last_modified_time:in=2030.."),
    ),
    SENT: (
        *("contact_id=5", "contact_id=900000000", "contact_id:in=900000000..", "list_id=1", "list_id=900000000"),
        *("send_time:in=2026-01-01..", "send_time:in=2030-01-01..", "report_id=1", "report_id=900000000"),
        *("first_open_time:in=2030-01-01..", "last_open_time:in=2030-01-01..", "first_open_time="),
        *("open_type=not_opened", "open_type=html", "open_type=sms", "limit=0&first_open_time:in=2030-01-01.."),
    ),
    SENDS: (
        *("email=p7@example.com", "email=nobody@example.com", "email:in=p7@example.com,p8@example.com"),
        *("mobile=61410000007", "mobile=61499999999", "contact_id=5", "contact_id=900000000", "contact_id:in=1.."),
        *("list_id=1", "list_id=900000000", "list_id:in=900000000,900000001", "message_id=1", "message_id=900000000"),
        *("group_id=1", "group_id=900000000", "group_id:in=900000000..", "limit=0&group_id=900000000"),
        *("state=delivered", "state=bounced", "state=queued", "state=sending", "state=uncertain", "state=failed"),
        *(
            "state:in=bounced,failed",
            "state:in=queued,sending,uncertain",
            "state:in=queued,bounced",
            "state:ne=bounced",
        ),
        *("creation_time:in=2026-01-01..", "creation_time:in=2030-01-01..", "creation_time=2030-01-01"),
        *(
            "send_time:in=2026-01-01..",
            "send_time:in=2030-01-01..",
            "send_time:in=..2020-01-01",
            "send_time=2030-01-01",
        ),
        *("uuid=0b7c6a35-3c7f-4e0b-9f6e-8a4b5f3f2a10", "uuid:in=0b7c6a35-3c7f-4e0b-9f6e-8a4b5f3f2a10"),
        *("tag=frequent", "tag=t7", "tag=nobody", "tag:in=t7,nobody", "tag:in=frequent,t7", "tag=frequent&tag=t7"),
        *("tag=nobody&state=bounced", "tag=frequent&creation_time:in=2030-01-01..", "tag=frequent&limit=2&offset=600"),
        *("metadata.order=nobody", "tag=t7&metadata.order=nobody"),
        *("email=p7@example.com&state=bounced", "group_id=1&state=failed", "list_id=1&creation_time:in=2030-01-01.."),
    ),
    "/v1/lists": (
        "limit=0",
        "id=1",
        "id=900000000",
        "name=Customers",
        "name=Nobody",
        "last_modified_time:in=2030-01-01..",
    ),
    "/v1/messages": (
        "limit=0",
        "id=1",
        "type=email",
        "type=sms",
        "name=Nobody",
        "subject=Nobody",
        "creation_time=2030-01-01",
    ),
    "/v1/automations": ("limit=0", "id=1", "name=Nobody", "state=paused", "list_id=1"),
    RUNS: (
        *("id=5", "contact_id=5", "state=held", "state=waiting", "step=a"),
        *("trigger_time:in=2026-01-01..", "trigger_time:in=2030-01-01.."),
    ),
    "/v1/transactional-groups": (
        "limit=0",
        "id=1",
        "type=email",
        "name=Nobody",
        "sent:in=5..",
        "last_sent_time=2030-01-01",
    ),
}
"""Collection -> queries, each with a filter that many, few or no rows match."""


def read_everything(full: Full) -> None:
    """Reads every collection and instance with each filter, and counts each except all sent contacts, recipients and
    runs, which are counted by an index (docs/querying.md#counting)."""
    for path, queries in FILTERS.items():
        count = () if path in (SENT, SENDS, RUNS) else ("limit=0",)
        for query in ("", *count, "limit=1&offset=500", "limit=1&offset=50000", *queries):
            answer = full.tenant.api.get(f"{path}?{query}".replace("2030..", "2030-01-01.."))
            assert answer.status_code == 200, answer.text
    assert full.tenant.api.get("/v1/tags/nobody").status_code == 404
    for path in ("/v1/automations/1", f"{RUNS}/1"):
        assert full.tenant.api.get(path).status_code == 200
    for path in ("/v1/lists?expand=contacts", f"{LIST}/5", f"{MESSAGE}?expand=content", f"{MESSAGE}/content"):
        assert full.tenant.api.get(path).status_code == 200


SUPPRESSION_FILTERS = (
    *("", "limit=1&offset=500", "limit=1&offset=15000", "state=blocked", "state=unsubscribed"),
    *("email=s7@example.com", "email=nobody@example.com", "email:in=s7@example.com,s8@example.com", "email="),
    *("mobile=61410000007", "mobile=", "email:ne=s7@example.com", "list_id=1", "list_id=900000000", "list_id="),
    *("list_id:in=1,900000000", "list_id:in=900000000..", "reason=complaint", "reason=nothing", "reason="),
    *("reason:in=complaint,nothing", "reason:ne=complaint"),
    *("uuid=0b7c6a35-3c7f-4e0b-9f6e-8a4b5f3f2a10", "uuid:in=0b7c6a35-3c7f-4e0b-9f6e-8a4b5f3f2a10", "uuid="),
    *("creation_time:in=2026-01-01..", "creation_time:in=2030-01-01..", "creation_time=2030-01-01"),
    *("reason=complaint&creation_time:in=2030-01-01..", "limit=0&reason=complaint", "limit=0&list_id=1"),
)


@pytest.fixture
def suppressed(full: Full) -> Iterator[Full]:
    """With suppressions of the other account that are such as there are."""
    common = (
        "kind = CASE id WHEN 1 THEN 'mobile' ELSE 'email' END, address = 's' || id || '@example.com', "
        "uuid = CASE id % 10 WHEN 0 THEN 'u' || id END"
    )
    values_by_table = {
        "unsubscribers": "list_id = CASE id % 1000 WHEN 0 THEN 1 END",
        "blocked_addresses": "reason = CASE id % 1000 WHEN 0 THEN 'complaint' ELSE 'permanent bounce' END",
    }
    _rewrite(full, {table: f"{common}, {values}" for table, values in values_by_table.items()})
    yield full
    _rewrite(full, {"unsubscribers": "kind = 'email'", "blocked_addresses": "kind = 'kind' || id"})


def _rewrite(full: Full, columns: dict[str, str]) -> None:
    with full.services.database.engine.begin() as connection:
        for table, values in columns.items():
            connection.execute(sql(f"UPDATE {table} SET {values} WHERE account_id = 2"))
            if connection.dialect.name == "postgresql":
                connection.execute(sql(f"ANALYZE {table}"))


def read_suppressions(full: Full) -> None:
    """Reads the suppressions with each filter, from the first page and from further ones."""
    for query in SUPPRESSION_FILTERS:
        answer = full.other.api.get(f"/v1/suppressions?{query}")
        assert answer.status_code == 200, answer.text
        links = answer.get_json()["_links"]
        for link in ("next", "prev"):
            if link in links:
                assert full.other.api.get(links[link]["href"]).status_code == 200


def test_no_statement_reads_all_suppressions(suppressed: Full) -> None:
    statements = suppressed.statements(read_suppressions)
    whole_reads = suppressed.reading_all(statements)
    listed = (f"{', '.join(tables)}: {' '.join(statement.split())}" for tables, statement in whole_reads)
    assert not whole_reads, "\n".join(listed)


def change_suppressions(full: Full) -> None:
    """Adds and takes off suppressions that many contacts could have."""
    api, path = full.tenant.api, "/v1/suppressions"
    assert api.post(path, {"state": "blocked", "email": "p70@example.com"}).status_code == 201
    assert api.post(path, {"state": "unsubscribed", "email": "p71@example.com"}).status_code == 201
    many = [{"state": "unsubscribed", "email": f"p{number}@example.com", "list_id": 1} for number in range(72, 90)]
    many += [{"state": "blocked", "mobile": f"614100000{number}"} for number in range(72, 90)]
    assert api.post(path, {"suppressions": many}).status_code == 204
    assert api.delete(f"{path}?email=p70@example.com").status_code == 204
    for query in ("email=p71@example.com", "email=p72@example.com&list_id=1"):
        assert api.delete(f"{path}?{query}&confirm=unsubscribe").status_code == 204


def write_contacts(full: Full) -> None:
    """Creates, changes, unsubscribes and deletes contacts, one at a time and in bulk."""
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
    """Sends emails and texts, reads their recipients, and follows their links."""
    api, domain = full.tenant.api, full.tenant.domain
    email = {"type": "email", "group_name": "Plans", "from_address": f"hello@{domain}", "from_name": "Acme"}
    content = {"subject": "Hi", "body_text": "Hello %%first_name%%", "body_html": '<a href="https://a.example/">a</a>'}
    people = [{"email": "p11@example.com"}, {"email": "brand-new@example.com"}, {"contact_id": 12}]
    answers = [
        api.post(SENDS, {**email, **content, "list_id": 1, "recipients": people}),
        api.post(SENDS, {**email, "list_id": 1, "message_id": 1, "recipients": people[:1]}),
        api.post(SENDS, {**email, **content, **LABELS, "list_id": 1, "recipients": people}),
        api.post(SENDS, {**email, **content, "list_id": 1, "recipients": people}, headers={"Idempotency-Key": "k"}),
    ]
    assert {answer.status_code for answer in answers} == {202}, [answer.text for answer in answers]
    drain(full.services)
    anon = Client(full.app)
    for uuid in uuids_of(answers[0]):
        assert api.get(f"{SENDS}/{uuid}").status_code == 200
    link = unsubscribe_link(full.services.settings, ROWS - 1).removeprefix(full.services.settings.public_url)
    assert anon.get(link).status_code == 200
    assert anon.request("POST", link).status_code == 200
    link = preferences_path(full.services, ROWS - 2)
    assert anon.get(link).status_code == 200
    for button in ("email-off", "email-on", "mobile-off", "mobile-on"):
        assert anon.request("POST", link, data={"all": button}).status_code == 200


def uuids_of(answer: Any) -> list[str]:
    """The uuids in the response to a send."""
    uuids = [recipient["uuid"] for recipient in answer.get_json()["_embedded"]["recipients"]]
    assert uuids
    return uuids


def visit(full: Full) -> None:
    """Recipients, some of which are known to be machines, open messages and follow links."""
    secret, anon = full.services.settings.secret_key, Client(full.app)
    for number in (ROWS - 11, ROWS - 12):
        assert anon.get(f"/o/{recipient_token(secret, OPEN_PURPOSE, number)}.gif").status_code == 200
        link = link_token(secret, InlineLink(number, "html_email", "https://a.example/"))
        assert anon.get(f"/c/{link}").status_code == 302
    assert full.app.extensions[VISITS].flush(30)


def report(full: Full) -> None:
    """Mail servers and relays report bounces and complaints, by mail and by HTTP."""
    settings, anon = full.services.settings, Client(full.app)
    for number, make in ((ROWS - 21, delivery_failure), (ROWS - 22, complaint)):
        to = return_path(settings, number, f"hello@{full.tenant.domain}")
        receive_email(full.services, make(to, f"p{number}@example.com"), [to], patience=0)
    soft = return_path(settings, ROWS - 23, f"hello@{full.tenant.domain}")
    late = delivery_failure(soft, f"p{ROWS - 23}@example.com", status="4.2.2")
    receive_email(full.services, late, [soft], patience=0)
    bounce = {"event": "bounce", "type": "bounce", "sg_event_id": "plans", "email": f"p{ROWS - 24}@example.com"}
    named = {"smtp-id": f"<{uuid_of(full, ROWS - 24)}@acme.example>", "timestamp": 1769853600, "status": "5.1.1"}
    assert anon.post(f"/inbound/sendgrid/{SENDGRID_SECRET}", [{**bounce, **named}]).status_code == 204


def uuid_of(full: Full, recipient_id: int) -> str:
    uuid: str = Rows(full.services, full.tenant.id).recipient(recipient_id).uuid
    return uuid


def text(full: Full) -> None:
    """Sends text messages, and records their receipts and replies."""
    services, anon = full.services, Client(full.app)
    full.tenant.add_sender(NUMBER)
    body = {"type": "sms", "list_id": 1, "group_name": "Texts", "from_address": NUMBER, "unsubscribe_type": "word"}
    people = [{"mobile": "61410000033"}, {"mobile": "61420000099"}, {"contact_id": 34}]
    answer = full.tenant.api.post(SENDS, {**body, "body_text": "Hello. Reply STOP", "recipients": people})
    assert answer.status_code == 202, answer.text
    drain(services)
    Rows(services, full.tenant.id).change([ROWS - 31, ROWS - 32], type="sms", state="sent", mobile="61420000098")
    for number, query in ((ROWS - 31, "type=1"), (ROWS - 32, "type=2&answer=stat:UNDELIV")):
        assert anon.get(f"{urlsplit(receipt_url(services.settings, number)).path}?{query}").status_code == 200
    for mobile in ("61420000099", "61420000097"):
        reply = {
            "from": mobile,
            "to": NUMBER,
            "text": "STOP",
            "id": mobile,
            "secret": reply_secret(services.settings.secret_key),
        }
        assert anon.get(f"/inbound/kannel/mo?{urlencode(reply)}").status_code == 200


COMMANDS = (
    "status",
    "accounts list",
    *(f"sends list --state {state}" for state in ("queued", "sending", "uncertain")),
    *("sends list --to p90017@example.com", "sends list --to 61410090017", "sends list --state bounced"),
    *("sends explain p90017@example.com", "sends explain 61410090017", "sends explain nobody@example.com"),
    *(
        "sends retry state=failed --dry-run --account 1",
        "sends bulk-actions list",
        "sends bulk-actions list --state done",
    ),
    *("sends list", "groups list", "groups stats", "groups stats --by day"),
    *("contacts list plan=gold --list 1", "contacts show p17@example.com --list 1"),
    *("contacts same-address", "suppressions show p19@xn--bcher-kva.example", "sends list --to p17@bücher.example"),
    "contacts show 61410000017 --list 1",
    *("contacts create email=one.more@example.com --list 1", "contacts update 17 score=7 --list 1"),
    "contacts delete 18 --list 1",
    *("lists list", "lists show 1", "lists indexes", "messages list", "messages show 1", "automations firings"),
    *("messages update 1 --subject new", "messages history 1", "messages history 1 --version 1"),
    *("messages difference 1", "messages restore 1 --version 1"),
    *(
        "automations list",
        "automations show 1",
        "automations stats 1",
        "automations runs 1",
        "automations runs 1 --contact 7",
    ),
    *("suppressions show p19@example.com", "suppressions list", "suppressions list --state blocked"),
    *("suppressions block p19@example.com", "suppressions unblock p19@example.com"),
    *("suppressions unsubscribe p20@example.com", "suppressions unsubscribe p20@example.com --list 1"),
    "suppressions resubscribe p20@example.com --list 1",
    *("webhooks test 1", "webhooks deliveries 1", "webhooks replay 1 --since 2100-01-31T10:00:00Z"),
    *("webhooks list", "webhooks show 1", "domains list", "keys list", "senders list"),
    *("audit list", "audit list object=list object_id=7", "audit list --address p20@example.com"),
    *("audit list time:in=2026-01-01..2026-01-02", "audit list --after 99990", "audit show 7"),
    *("audit list action=key.revoked", "audit list actor=nobody", "audit list request_id=none"),
)
"""Commands of an operator, without those that read more by design (docs/cli.md#commands-that-read-much)."""
COUNTED = {"events"}
"""Tables that are counted row by row: the events that wait for webhooks."""
LOOKED_THROUGH = {"events", "webhook_attempts", "idempotency_records"}
"""Tables in which no index finds a person (docs/privacy.md#what-it-costs)."""
READ_WHOLE = {"forget": LOOKED_THROUGH, "operate": COUNTED, "watch": COUNTED}
"""What parts of the tour read completely: the figures of an installation count the work that is left, apart from
requests (docs/monitoring/metrics.md#figures-of-the-installation)."""
READING_MORE = {"read_everything", "operate", "forget"}
"""Parts with filters that no index answers, and forgetting, which looks through tables."""
MOST_INSTRUCTIONS = 20_000
"""Of one statement on SQLite: some for each of a slice's rows, of which there are up to 1,000."""
COMMANDS_WITHOUT_ACCOUNT = (
    *("status", "accounts list", "audit show", "lists indexes", "sends show", "sends retry"),
    "sends bulk-actions",
    *("audit list action", "audit list actor", "audit list request_id"),
)


def operate(full: Full) -> None:
    """Runs the commands, including those of single recipients."""
    uuid = uuid_of(full, ROWS - 41)
    rows = Rows(full.services, full.tenant.id)
    group = rows.add_group()
    recipients = (f"sends show {uuid}", f"sends retry {uuid_of(full, ROWS - 42)}")
    rows.change([ROWS - 42], state="failed")
    for command in (*COMMANDS, f"groups show {group}", *recipients):
        words = command.split()
        account = [] if command.startswith(COMMANDS_WITHOUT_ACCOUNT) else ["--account", full.tenant.name]
        result = full.app.test_cli_runner().invoke(args=[*words[:2], *account, *words[2:], "--json"])
        assert result.exit_code == 0, f"{command}: {result.output}"


def forget(full: Full) -> None:
    """Hands out and forgets a person with a contact, messages and sends that name the address."""
    person = ("p90000@example.com", "--account", full.tenant.name)
    for command in (("export-person", *person, "--json"), ("forget", *person, "--yes", "--no-compact")):
        result = full.app.test_cli_runner().invoke(args=["contacts", *command])
        assert result.exit_code == 0, result.output


def act_in_bulk(full: Full) -> None:
    """Retries what matches a filter that few, many or no messages match, in slices; ends and releases what is held."""
    rows, database = Rows(full.services, full.tenant.id), full.services.database
    rows.change([ROWS - 51, ROWS - 52], state="failed")
    rows.change([ROWS - 53], state="uncertain", due_time=now() + timedelta(days=1))
    rows.change(range(ROWS - 60, ROWS - 55), state="held", held_state="queued")
    rows.change([ROWS - 61], state="held", held_state="sending")
    for kind, query in (
        ("retry", "state=failed&group_id=1"),
        ("retry", "state:in=failed,uncertain&creation_time:in=2020-01-01.."),
        ("retry", "state=bounced"),
        ("release", "was=sending&group_id=1"),
        ("drop_as_sent", "due_time:in=2020-01-01.."),
        ("unblock", "reason=spam&reply=no%20such%20reply"),
        ("unblock", "creation_time:in=2020-01-01..2020-01-02"),
    ):
        with database.read() as session:
            previewed = preview(session, KINDS[kind], session.get_one(Account, 1), query_of(query))
        if previewed.messages:
            with database.write() as transaction:
                action = ask(transaction, transaction.get_one(Account, 1), previewed)
                action.due_time = now()
            assert run_due(full.services) > 0
    with database.write() as transaction:
        previewed = Preview(RETRY, 1, "", "state=failed", now(), 1, (now(), ROWS), Inspection(1), [], {})
        cancel_action(transaction, 1, ask(transaction, transaction.get_one(Account, 1), previewed).id)


def automate(full: Full) -> None:
    """A contact goes through an automation, opens its mail, and is deleted; another run is cancelled, and all are
    paused and resumed."""
    services, anon, secret = full.services, Client(full.app), full.services.settings.secret_key
    contact_id = full.tenant.new_contact(1, email="run@example.com")["id"]
    due = DueAccounts(RUN_QUEUE, full_share=1e-9)
    for _ in range(3):
        advance_due(services, due)
    drain(services)
    with services.database.read() as session:
        criteria = AutomationRun.automation_id == 1, AutomationRun.contact_id == contact_id
        run = select(AutomationRun.id).where(*criteria).scalar_subquery()
        passed = select(AutomationPassedStep.recipient_id).where(AutomationPassedStep.run_id == run)
        sent = next(step_id for step_id in session.scalars(passed) if step_id)
    assert anon.get(f"/o/{recipient_token(secret, OPEN_PURPOSE, sent)}.gif", headers=READER).status_code == 200
    assert full.app.extensions[VISITS].flush(30)
    for _ in range(3):
        advance_due(services)
    with services.database.write() as transaction:
        cancel(transaction, full.tenant.id, 1)
        pause_automation(transaction, full.tenant.id, 1)
        resume_automation(transaction, full.tenant.id, 1, "skip")
    advance_due(services)
    sweep = sweeps.RunSweep(full_share=1e-9)
    for _ in range(2):  # the second time with what the first has found
        with services.database.read() as session:
            sweep.finds_work(session)
    assert full.tenant.api.get("/v1/automations/1/runs?state=waiting").status_code == 200
    assert full.tenant.api.delete(f"{LIST}/{contact_id}").status_code == 204
    with services.database.write() as transaction:
        delete_automation(transaction, full.tenant.id, 1)
    advance_due(services, due)


def work(full: Full) -> None:
    """Runs the jobs of the workers and the scheduler, with and without work."""
    drain(full.services)
    dispatch_due(full.services)
    sweep = sweeps.SendQueueSweep(full_share=1e-9)
    with full.services.database.read() as session:
        for _ in range(2):  # the second time with what the first has found
            sweep.finds_work(session)
        has_due_events(session, full.services.settings)
        has_due_events(session, full.services.settings, Exclusions([1], [2]))
        has_overdue_parts(session)
        has_due_simulations(session)
        has_due(session)
    assert claim(full.services, Exclusions([1], [2])) is None
    simulate_due(full.services)
    flush_overdue(full.services)
    sweeps.clean(full.services)


def hold_back(full: Full) -> None:
    """Pauses, puts aside, shows what is paused, and lets it go."""
    services, account_id = full.services, full.tenant.id
    subject = Subject(account_id, domain="paused.example")
    with services.database.write() as transaction:
        pause(transaction, subject)
        pause(transaction, everywhere := Subject(None, domain="everywhere.example"))
    (recipient_id, _) = Rows(services, account_id).add_send(["ann@paused.example", "ann@everywhere.example"])
    drain(services)
    with services.database.read() as session:
        account = session.get_one(Account, account_id)
        for of in (account_id, None):
            assert [pause.waiting for pause in list_pauses(session, of)][-1] == 1
            active_shown(session, of, 10)
        pauses_everywhere(session)
        assert len(pauses_concerning(session, account, list_id=1, domain="paused.example")) == 1
        explain_recipient(session, session.get_one(Recipient, recipient_id), services.settings, ())
    with services.database.write() as transaction:
        resume_sending(transaction, find_pause(transaction, subject))
        resume_sending(transaction, find_pause(transaction, everywhere))
    drain(services)


def retire(full: Full) -> None:
    """Purges content and recipients: none that are settled, some that were delayed, and nothing."""
    services, retention = full.services, timedelta(days=8)
    with services.database.read() as session:
        oldest = session.get_one(Send, 1).creation_time
    periods = [Period(number, retention - timedelta(seconds=0.5)) for number in (1, 2)]
    for stage, ready in ((Stage.CONTENT, 0), (Stage.RECIPIENTS, 10)):
        assert purge(services, stage, periods, oldest + retention) == ready
        with services.database.write() as transaction:
            criteria = DelayedPurge.account_id == 1, DelayedPurge.stage == stage
            delayed = transaction.scalars(select(DelayedPurge.send_id).where(*criteria)).all()
            assert len(delayed) >= 40
            first = oldest - timedelta(days=1)
            transaction.execute(update(DelayedPurge).where(DelayedPurge.send_id.in_(delayed[:20])).values(since=first))
            settled = Recipient.send_id.in_(delayed[:10])
            transaction.execute(update(Recipient).where(settled).values(sent_time=first))
            transaction.execute(delete(QueueEntry).where(QueueEntry.recipient_id.in_(delayed[:10])))
        assert purge(services, stage, periods, oldest + retention) == 10
        assert purge(services, stage, periods, oldest + retention) == 0


def age(full: Full) -> None:
    """Looks for what is to be deleted where accounts have retentions of their own."""
    names = ("retain_captured", "retain_logs", "retain_audit")
    with full.services.database.write() as transaction:
        account = transaction.get_one(Account, 1)
        update_account(transaction, account, dict.fromkeys(names, "1d"))
    sweeps.clean(full.services)
    with full.services.database.write() as transaction:
        update_account(transaction, transaction.get_one(Account, 1), dict.fromkeys(names))


def watch(full: Full) -> None:
    """Reads what a scrape shows of the installation, and writes a heartbeat."""
    with full.services.database.read() as session:
        read_figures(session, full.services.settings)
        read_put_off(session, now())
    Heartbeat(full.services.database, ["sends"], settings=full.services.settings).write()


@pytest.mark.parametrize(
    "part",
    [
        read_everything,
        change_suppressions,
        write_contacts,
        send,
        visit,
        report,
        text,
        operate,
        forget,
        act_in_bulk,
        automate,
        work,
        hold_back,
        age,
        retire,
        watch,
    ],
    ids=lambda part: part.__name__,
)
def test_no_statement_reads_all_of_a_table_that_grows(full: Full, part: Any) -> None:
    recorder = full.recorded(part)
    statements = recorder.statements
    assert statements
    whole_reads = full.reading_all(statements, READ_WHOLE.get(part.__name__, ()))
    listed = (f"{', '.join(tables)}: {' '.join(statement.split())}" for tables, statement in whole_reads)
    assert not whole_reads, "\n".join(listed)
    if part.__name__ not in READING_MORE:
        long = {statement: count for statement, count in recorder.instructions.items() if count > MOST_INSTRUCTIONS}
        # On SQLite, whose plans do not say how many rows of an index they read.
        assert not {statement for statement in long if not any(f"FROM {table}" in statement for table in COUNTED)}


def test_a_page_by_its_offset_passes_over_an_index_only(full: Full) -> None:
    """Reading all contacts before it would take longer than a request may, where there are millions."""
    offset = f"{LIST}?limit=10&offset={ROWS // 2}"
    statements = full.statements(lambda full: full.tenant.api.get(offset))
    with full.services.database.engine.connect() as connection:
        assert any(reads_index_alone(connection, *statement, "contacts") for statement in statements.items())


OF_NO_GROUP = "group_id=900000000"
SINCE_2020 = "creation_time:in=2020-01-01..2100-01-01"
IN_NO_TIME = "creation_time:in=2030-01-01.."
PAGES_OF_FEW = (
    *("tag=frequent&limit=5", "tag=t7&limit=5", "tag=nobody&limit=5", "metadata.order=nobody&limit=5"),
    *("tag=frequent&creation_time:in=2100-01-01..&limit=5", "tag=frequent&creation_time:in=..2020-01-01&limit=5"),
    *("tag=t7&group_id=1&limit=5", "tag=t7&state=delivered&limit=5", "tag=frequent&tag=t7&limit=5"),
    *("tag=frequent&state=failed", "limit=0&tag=frequent&state=failed", f"tag=frequent&{OF_NO_GROUP}"),
    *(f"{OF_NO_GROUP}&state=delivered", f"limit=0&{OF_NO_GROUP}&state=delivered", f"{OF_NO_GROUP}&list_id=1"),
    *(f"{OF_NO_GROUP}&state=sent", "group_id=1&state=sent", "list_id:in=1,2&state=sent"),
    *(
        f"{OF_NO_GROUP}&state=delivered&{SINCE_2020}",
        f"tag=t7&state=delivered&{SINCE_2020}",
        f"tag=t7&group_id=1&{SINCE_2020}",
    ),
    *("list_id=1&state:in=sent,failed", "email=nobody@example.com&state=delivered"),
    *("limit=0&state:in=failed,bounced", "limit=0&group_id=1&state:in=failed,bounced", "limit=0&tag:in=t7,t9"),
    *(f"{IN_NO_TIME}&state=delivered", "group_id=1&state=delivered&limit=5"),
)


@each("query", PAGES_OF_FEW)
def test_a_page_of_messages_reads_what_it_shows(full: Full, query: str) -> None:
    """Nearly all are delivered and in group 1, and half of them have the frequent tag (docs/querying.md). Of those that
    meet a condition beside another one, up to a thousand are looked for first."""
    statements = full.statements(lambda full: full.tenant.api.get(f"{SENDS}?{query}"))
    with full.services.database.engine.connect() as connection:
        *counted, page = (statement for statement in statements.items() if RECIPIENT_TABLES.search(statement[0]))
        most, most_of_page = (1100, 20) if connection.dialect.name == "postgresql" else (20_000, 2000)
        for statement in counted:
            assert rows_read(connection, *statement, ("recipients", "recipient_labels")) <= most
        assert rows_read(connection, *page, ("recipients", "recipient_labels")) <= most_of_page


IN_RANGE = "2020-01-01..2100-01-01"
OTHER_PAGES = (
    *(f"{LIST}?blocked=true&double_opt_in=true&creation_time:in=2020-01-01..2100-01-01",),
    *(f"{LIST}?email:in={','.join(f'nobody{number}@example.com' for number in range(900))}",),
    *(f"{LIST}?email:in=a@example.com,b@example.com,c@example.com&subscribed=false&{SINCE_2020}",),
    *(
        f"{LIST}?limit=0&last_modified_time:in=2100-01-01..",
        f"{LIST}?double_opt_in_time:ne=",
        f"{SENDS}?send_time:ne=&limit=5",
    ),
    *(f"{SENT}?list_id:in=1,2&limit=5", f"{SENT}?report_id=1&open_type=text", f"{SENT}?list_id=1&open_type=text"),
    *(
        f"{SENT}?open_type:in=html,text",
        f"{SENT}?contact_id:in=900000000..900000009",
        f"{SENT}?limit=0&report_id:in=5,7",
    ),
)


@each("path", OTHER_PAGES)
def test_a_page_of_what_few_have_reads_no_others(full: Full, path: str) -> None:
    """Hardly anybody of the others has the value, and all have what is asked for beside it."""
    statements = full.statements(lambda full: full.tenant.api.get(path))
    with full.services.database.engine.connect() as connection:
        most = 1100 if connection.dialect.name == "postgresql" else 30_000
        for statement in statements.items():
            if GROWING_TABLES.search(statement[0]):
                assert rows_read(connection, *statement, ("recipients", "contacts")) <= most


DEEP_PAGES = (
    *(f"{SENDS}?creation_time:in={IN_RANGE}", f"{SENDS}?creation_time:in={IN_RANGE}&state=delivered"),
    *(f"{SENDS}?send_time:in={IN_RANGE}", f"{SENDS}?creation_time:in={IN_RANGE}&tag=frequent"),
    *(f"{LIST}?creation_time:in={IN_RANGE}", f"{LIST}?creation_time:in={IN_RANGE}&subscribed=true"),
    *(f"{SENT}?send_time:in={IN_RANGE}", f"/v1/suppressions?creation_time:in={IN_RANGE}"),
    *(f"{path}?creation_time:in={bound}" for path in (SENDS, LIST) for bound in ("..2100-01-01", "2020-01-01..")),
)


@each("path", DEEP_PAGES)
def test_a_page_behind_many_others_reads_no_more_than_the_first(full: Full, path: str) -> None:
    """Also within a range of times, which has bounds of its own (docs/querying.md#cursors)."""
    deep: Any = full.tenant.api.get(f"{path}&limit=5&offset=5000").json
    links = (deep["_links"][name]["href"] for name in ("next", "prev"))
    for link in links:
        statements = full.statements(lambda full, link=link: full.tenant.api.get(link))
        with full.services.database.engine.connect() as connection:
            *_, page = (statement for statement in statements.items() if GROWING_TABLES.search(statement[0]))
            most = 50 if connection.dialect.name == "postgresql" else 3000
            assert rows_read(connection, *page, ("recipients", "recipient_labels", "contacts", "unsubscribers")) <= most


CONSOLE_PAGES = (
    *("state=deferred", "state:in=deferred,failed", f"state=deferred&{OF_NO_GROUP}"),
    *("state:ne=deferred&state=failed", f"state:ne=deferred&{OF_NO_GROUP}"),
)


@each("query", CONSOLE_PAGES)
def test_a_page_of_the_console_reads_no_message_but_those_in_question(full: Full, query: str) -> None:
    """None is deferred or failed."""
    browser = signed_in(full.tenant)
    statements = full.statements(lambda _: browser.get(f"/console/messages?{query}"))
    with full.services.database.engine.connect() as connection:
        most = 1100 if connection.dialect.name == "postgresql" else 40_000
        for statement in statements.items():
            if RECIPIENT_TABLES.search(statement[0]):
                assert rows_read(connection, *statement, ("recipients", "recipient_labels")) <= most


def test_deleting_a_list_reads_its_own_contacts(full: Full) -> None:
    list_id = full.tenant.add_list("of nobody")

    def delete(full: Full) -> None:
        with full.services.database.write() as transaction:
            delete_list(transaction, get_list(transaction, full.tenant.id, list_id))

    assert not full.reading_all(full.statements(delete))


def test_an_export_of_few_messages_reads_no_other_that_arrived(full: Full) -> None:
    def count(full: Full) -> None:
        with full.services.database.read() as session:
            assert matching.count(session, 10) == 0

    with full.services.database.read() as session:
        query = parse_query(session.get_one(Account, full.tenant.id), query_of(f"{OF_NO_GROUP}&state=delivered"))
    matching = MatchingRecipients.of(full.tenant.id, query)
    *_, statement = full.statements(count).items()
    with full.services.database.engine.connect() as connection:
        most = 20 if connection.dialect.name == "postgresql" else 2000
        assert rows_read(connection, *statement, ("recipients",)) <= most
