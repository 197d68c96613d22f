"""Every endpoint for every access level, and the isolation of accounts (docs/requests.md#keys-and-scopes).

While these requests run, every statement on a table with rows of accounts must restrict the account.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from flask import Flask

from app.accounts.auth import SCOPES
from app.db.models import Base
from app.http.api import scopes_of
from tests.support.automations import runs_of
from tests.support.captured import capture
from tests.support.cases import each
from tests.support.client import SENDS, Client, check_error, conflict, ids, invalid, not_found
from tests.support.definitions import STANDARD, create
from tests.support.management import MANAGEMENT, body_of, path_of
from tests.support.management import ROUTES as MANAGEMENT_ROUTES
from tests.support.preferences import PreferencesPage, preferences_path
from tests.support.rows import Rows
from tests.support.statements import StatementCounter
from tests.support.tenants import FULL_FIELDS, Tenant, new_email, new_tenant, unique

# ---------------------------------------------------------------------------------------------- statements

SCOPED = {table.name for table in Base.metadata.tables.values() if "account_id" in table.columns}
LIST_TABLES = {"contacts", "list_fields", "contact_counts", "send_pauses"}
"""Tables whose rows are found through their list. The list is looked up for the account first."""

TABLES_WITHOUT_ACCOUNT = {"api_keys"}
"""A key is looked up by its hash: the account is what the request learns from it."""

VERSION_TABLES = {"messages", "message_versions"}
"""Tables of messages whose versions are written at the end of the transaction that has changed them."""

TABLES = re.compile(r"(?:FROM|JOIN|UPDATE)\s+\"?([a-z_]+)\"?", re.IGNORECASE)
CONDITION = re.compile(r"\b(?:WHERE|ON)\b(.*)", re.IGNORECASE | re.DOTALL)
BY_PRIMARY_KEY = re.compile(
    r"UPDATE .* WHERE [a-z_]+\.id = \S+( AND [a-z_]+\.id BETWEEN \S+ AND \S+)?"
    r"|DELETE FROM [a-z_]+ WHERE [a-z_]+\.id = \S+"
    r"|(UPDATE|DELETE) .* WHERE send_queue\.recipient_id"
    r" (IN \(SELECT value FROM json_each\(\?\)\)"
    r"|= ANY \(ARRAY\(SELECT CAST\(one AS bigint\) FROM json_array_elements_text\(CAST\(\S+ AS json\)\) one\)\))",
    re.DOTALL,
)
"""A change of rows that were found and locked by a statement before."""


def unscoped(statement: str) -> set[str]:
    """The tables with rows of accounts that a statement reads or changes without a condition on the account."""
    match = CONDITION.search(statement)
    condition = match[1] if match else ""
    if "account_id" in condition or BY_PRIMARY_KEY.fullmatch(statement):
        return set()
    free = TABLES_WITHOUT_ACCOUNT | (LIST_TABLES if "list_id" in condition else set())
    free |= VERSION_TABLES if "message_versions.message_id" in statement else set()
    return {table for table in TABLES.findall(statement) if table in SCOPED - free}


@each(
    ("statement", "tables"),
    [
        ("SELECT name FROM lists", {"lists"}),
        ("SELECT account_id FROM messages WHERE messages.id = ?", {"messages"}),
        ("SELECT name FROM messages WHERE messages.account_id = ?", set()),
        ('DELETE FROM "contacts" WHERE contacts.id IN (?)', {"contacts"}),
        ("DELETE FROM contacts WHERE contacts.list_id = ?", set()),
        ("UPDATE messages SET name = ? WHERE messages.list_id = ?", {"messages"}),
        ("UPDATE contacts SET email=? WHERE contacts.id = ?", set()),
        ("UPDATE contacts SET email=? WHERE contacts.id = ? OR true", {"contacts"}),
        ("SELECT 1", set()),
    ],
)
def test_a_statement_without_the_account_is_detected(statement: str, tables: set[str]) -> None:
    assert unscoped(statement) == tables


@pytest.fixture(autouse=True)
def every_statement_names_the_account(app: Flask) -> Iterator[None]:
    """Fails a test whose requests sent a statement that could see the rows of another account."""
    with StatementCounter(app.extensions["tms"].database.engine) as counted:
        yield
    assert [statement for statement in counted.statements if unscoped(statement)] == []


# ---------------------------------------------------------------------------------------------- every endpoint


@dataclass
class Estate:
    """An account with one row of everything that a path can name."""

    tenant: Tenant
    list_id: int
    message_id: int
    group_id: int
    automation_id: int
    run_id: int
    captured_id: int
    uuid: str
    offered_id: int = 0

    def path(self, rule: str) -> str:
        """The rule filled with ids of this account; those of contacts and of what is managed are new each time, because
        some requests delete them."""
        if rule.startswith(MANAGEMENT):
            return path_of(self.tenant, rule)
        named = {
            "<list_id>": self.list_id,
            "<message_id>": self.message_id,
            "<group_id>": self.group_id,
            "<automation_id>": self.automation_id,
            "<run_id>": self.run_id,
            "<captured_id>": self.captured_id,
            "<uuid>": self.uuid,
            "<tag>": f"receipt-{self.tenant.id}",
        }
        if "<contact_id>" in rule:
            named["<contact_id>"] = self.tenant.new_contact(self.list_id, email=new_email())["id"]
        for name, value in named.items():
            rule = rule.replace(name, str(value))
        return rule

    def send(self, **changes: Any) -> dict[str, Any]:
        """A valid send."""
        body = {
            "type": "email",
            "list_id": self.list_id,
            "group_name": unique("group"),
            "subject": "Hi",
            "body_text": "Hi",
            "recipients": [{"email": new_email()}],
        }
        return {**body, **changes}


@pytest.fixture(scope="module")
def estate(app: Flask) -> Estate:
    """The account whose ids are in the paths."""
    return new_estate(new_tenant(app))


@pytest.fixture(scope="module")
def neighbour(app: Flask) -> Estate:
    """Another account."""
    return new_estate(new_tenant(app))


def new_estate(tenant: Tenant) -> Estate:
    """Creates one row of everything."""
    list_id, message_id = tenant.add_list("People", FULL_FIELDS), tenant.add_message(name="Welcome")
    automation_id = create(tenant, {**STANDARD, "list": "People"})
    tenant.new_contact(list_id, email=new_email())
    (run,) = runs_of(tenant.services, automation_id)
    captured_id = capture(tenant, new_email())
    estate = Estate(tenant, list_id, message_id, 0, automation_id, run.id, captured_id, "")
    answer = tenant.api.post(SENDS, estate.send(tags=[f"receipt-{tenant.id}"]))
    assert answer.status_code == 202
    estate.uuid = answer.get_json()["_embedded"]["recipients"][0]["uuid"]
    (estate.group_id,) = ids(tenant.api.get("/v1/transactional-groups"), "transactional-groups")
    return estate


CONTACTS, SUPPRESSIONS = "/v1/lists/<list_id>/contacts", "/v1/suppressions"
CONTACT = f"{CONTACTS}/<contact_id>"
SUCCESS = {
    ("GET", "/v1"): 200,
    ("GET", "/v1/lists"): 200,
    ("GET", "/v1/lists/<list_id>"): 200,
    ("GET", CONTACTS): 200,
    ("GET", CONTACT): 200,
    ("POST", CONTACTS): 201,
    ("PATCH", CONTACTS): 204,
    ("PATCH", CONTACT): 200,
    ("DELETE", CONTACTS): 204,
    ("DELETE", CONTACT): 204,
    ("GET", "/v1/messages"): 200,
    ("GET", "/v1/messages/<message_id>"): 200,
    ("GET", "/v1/messages/<message_id>/content"): 200,
    ("GET", "/v1/messages/<message_id>/sent-contacts"): 200,
    ("POST", SENDS): 202,
    ("GET", SENDS): 200,
    ("GET", f"{SENDS}/<uuid>"): 200,
    ("GET", "/v1/transactional-groups"): 200,
    ("GET", "/v1/transactional-groups/<group_id>"): 200,
    ("GET", SUPPRESSIONS): 200,
    ("POST", SUPPRESSIONS): 201,
    ("DELETE", SUPPRESSIONS): 204,
    ("GET", "/v1/tags/<tag>"): 200,
    ("GET", "/v1/inbox"): 200,
    ("GET", "/v1/inbox/<captured_id>"): 200,
    ("GET", "/v1/automations"): 200,
    ("GET", "/v1/automations/<automation_id>"): 200,
    ("GET", "/v1/automations/<automation_id>/runs"): 200,
    ("GET", "/v1/automations/<automation_id>/runs/<run_id>"): 200,
    ("POST", "/v1/automations/<automation_id>/pause"): 200,
    ("POST", "/v1/automations/<automation_id>/resume"): 200,
    ("POST", "/v1/automations/validate"): 200,
    ("POST", "/v1/transactional-sends/cancel"): 200,
    ("POST", "/v1/transactional-sends/<uuid>/cancel"): 200,
    **MANAGEMENT_ROUTES,
}
"""Every endpoint, and the status of a request that is good in every way."""


def endpoints(app: Flask) -> dict[tuple[str, str], str]:
    """(method, rule) -> endpoint name of all endpoints under /v1."""
    return {
        (method, re.sub(r"<\w+:", "<", rule.rule)): rule.endpoint
        for rule in app.url_map.iter_rules()
        if rule.rule.startswith("/v1")
        for method in (rule.methods or set()) - {"OPTIONS", "HEAD"}
    }


def send_request(client: Client, method: str, path: str, body: Any) -> Any:
    """The request of one endpoint."""
    if method == "DELETE" and path.endswith("contacts"):
        return client.delete(path, {"id": 1})
    if method == "DELETE" and path == SUPPRESSIONS:
        return client.delete(path, {"email": new_email()})
    if method in ("POST", "PATCH"):
        return client.raw(method, path, orjson.dumps(body))
    return client.request(method, path)


def body_for(estate: Estate, method: str, rule: str) -> Any:
    """A valid body for the endpoint."""
    if rule.startswith(MANAGEMENT):
        return body_of(estate.tenant, method, rule)
    if rule == SENDS:
        return estate.send()
    if rule == "/v1/automations/validate":
        return {**STANDARD, "list": "People"}
    if rule == f"{SENDS}/cancel":
        return {"uuids": ["00000000-0000-4000-8000-000000000000"]}
    if rule.endswith(("/pause", "/resume", "/cancel")):
        return {}
    if rule == SUPPRESSIONS:
        return {"state": "blocked", "email": new_email()}
    if (method, rule) == ("PATCH", CONTACTS):
        contact = estate.tenant.new_contact(estate.list_id, email=new_email())
        return {"contacts": [{"id": contact["id"], "first_name": "Ann"}]}
    return {"first_name": "Ann"}


def test_the_table_contains_every_endpoint(app: Flask) -> None:
    assert set(endpoints(app)) == set(SUCCESS)


@each("level", [*SCOPES, None])
@each(("method", "rule"), SUCCESS)
def test_every_endpoint_for_every_level(app: Flask, estate: Estate, method: str, rule: str, level: str | None) -> None:
    client = Client(app) if level is None else estate.tenant.client(level)
    answer = send_request(client, method, estate.path(rule), body_for(estate, method, rule))
    if level is None:
        check_error(answer, 401, "api_key_missing")
    elif set(SCOPES[level]) & set(scopes_of(app, endpoints(app)[method, rule], method)):
        assert answer.status_code == SUCCESS[method, rule], answer.text
    else:
        check_error(answer, 403, "permission_denied")


@each(("method", "rule"), [route for route in SUCCESS if "<" in route[1]])
def test_paths_of_another_account_do_not_exist(estate: Estate, neighbour: Estate, method: str, rule: str) -> None:
    path, body = estate.path(rule), body_for(estate, method, rule)
    level = "manager" if rule.startswith(MANAGEMENT) else "standard"
    instance_path = re.sub("/(pause|resume|cancel|preview|test|check|rotate|secrets.*)$", "", path)
    before = estate.tenant.client(level).get(instance_path).get_json()
    not_found(send_request(neighbour.tenant.client(level), method, path, body))
    assert estate.tenant.client(level).get(instance_path).get_json() == before


@each("name", ["lists", "messages", "transactional-groups", "automations"])
def test_collections_show_rows_of_the_own_account_only(estate: Estate, neighbour: Estate, name: str) -> None:
    own_ids, foreign = (
        ids(estate.tenant.api.get(f"/v1/{name}"), name),
        ids(neighbour.tenant.api.get(f"/v1/{name}"), name),
    )
    assert own_ids
    assert foreign
    assert not set(own_ids) & set(foreign)
    all_ids = ",".join(map(str, [*own_ids, *foreign]))
    assert ids(estate.tenant.api.get(f"/v1/{name}", {"id:in": all_ids}), name) == own_ids


# ---------------------------------------------------------------------------------------------- ids in bodies


def test_a_contact_of_another_list_or_account_is_not_in_the_list(estate: Estate, neighbour: Estate) -> None:
    foreign = neighbour.tenant.new_contact(neighbour.list_id, email=new_email())
    elsewhere = estate.tenant.new_contact(estate.tenant.add_list(), email=new_email())
    path = f"/v1/lists/{estate.list_id}/contacts"
    for contact in (foreign, elsewhere):
        not_found(estate.tenant.api.get(f"{path}/{contact['id']}"))
        not_found(estate.tenant.api.patch(f"{path}/{contact['id']}", {"first_name": "Eve"}))
        not_found(estate.tenant.api.delete(f"{path}/{contact['id']}"))
        body = {"contacts": [{"id": contact["id"], "first_name": "Eve"}]}
        invalid(estate.tenant.api.patch(path, body), "invalid_id", collection="contacts", index=0, field="id")
        assert estate.tenant.api.delete(path, {"id": contact["id"]}).status_code == 204
    assert neighbour.tenant.api.get(foreign["_links"]["self"]["href"]).get_json() == foreign
    assert estate.tenant.api.get(elsewhere["_links"]["self"]["href"]).get_json() == elsewhere


@each("name", ["list_id", "message_id", "group_id"])
def test_a_send_cannot_refer_to_rows_of_another_account(estate: Estate, neighbour: Estate, name: str) -> None:
    body = {**estate.send(), name: getattr(neighbour, name)}
    if name == "group_id":
        del body["group_name"]
    invalid(estate.tenant.api.post(SENDS, body), "invalid_id", field=name)


def test_a_contact_of_another_account_is_not_sent_to(estate: Estate, neighbour: Estate) -> None:
    foreign = neighbour.tenant.new_contact(neighbour.list_id, email=new_email())
    group = unique("group")
    body = estate.send(group_name=group, recipients=[{"contact_id": foreign["id"]}])
    assert estate.tenant.api.post(SENDS, body).status_code == 202


def test_the_same_address_may_be_in_lists_of_two_accounts(estate: Estate, neighbour: Estate) -> None:
    email = new_email()
    for account in (estate, neighbour):
        account.tenant.new_contact(account.list_id, email=email)
        conflict(account.tenant.api.post(f"/v1/lists/{account.list_id}/contacts", {"email": email}), field="email")


def test_an_sms_sender_of_another_account_is_refused(estate: Estate, neighbour: Estate) -> None:
    neighbour.tenant.add_sender("61400009999")
    body = estate.send(
        type="sms",
        list_id=None,
        subject=None,
        from_address="61400009999",
        unsubscribe_type="word",
        body_text="Hi, reply STOP",
        recipients=[{"mobile": "61411111111"}],
    )
    invalid(estate.tenant.api.post(SENDS, body), "invalid_from_address", field="from_address")


def test_a_domain_of_another_account_is_refused(estate: Estate, neighbour: Estate) -> None:
    body = estate.send(from_address=f"hello@{neighbour.tenant.domain}")
    invalid(estate.tenant.api.post(SENDS, body), "invalid_from_address_domain", field="from_address")


def test_a_preferences_link_reads_and_changes_its_own_account_only(estate: Estate, neighbour: Estate) -> None:
    """The page shows no list of another account, and a form that names one is refused (docs/preferences.md)."""
    for account in (estate, neighbour):
        account.offered_id = account.tenant.add_list(f"Offered by {account.tenant.name}", offered=True)
    email = new_email()
    contact = neighbour.tenant.new_contact(neighbour.offered_id, email=email)
    (recipient_id,) = Rows(estate.tenant.services, estate.tenant.id).add_send([email])
    path = preferences_path(estate.tenant.services, recipient_id)
    anon = Client(estate.tenant.app)
    page = PreferencesPage.of(anon.get(path))
    assert list(page.lists) == [f"Offered by {estate.tenant.name}"]
    for name in ("was", "on"):
        refused = anon.request("POST", path, data={name: f"email-{neighbour.offered_id}"})
        assert (refused.status_code, neighbour.tenant.name in refused.text) == (422, False)
    for button in ("email-off", "email-on"):
        assert list(PreferencesPage.of(anon.request("POST", path, data={"all": button})).lists) == list(page.lists)
    assert neighbour.tenant.api.get(contact["_links"]["self"]["href"]).get_json() == contact
