"""An act that changes nothing has no entry in the audit log, on every door: each act is done twice
(docs/audit.md#entries)."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from sqlalchemy import func, select

from app.clock import now, this_second
from app.db.models import AuditEntry, AutomationRun, AutomationVersion, Event, SendPause, Webhook
from app.runs.pause import RESTORE_REASON
from tests.cli.conftest import Cli
from tests.guards.test_audit_coverage import AUDITED_COMMANDS, AUDITED_ROUTES
from tests.support.automations import add_automation
from tests.support.browser import operator
from tests.support.rows import Rows
from tests.support.tenants import Tenant, unique

URL = "https://hooks.example.com/in"
NOUNS_WITHOUT_ACCOUNT = ("accounts", "transports", "seed")
AUTOMATION = {
    "kind": "advanced",
    "trigger": "REST API Contact Created",
    "again": "when ended",
    "steps": [{"name": "a while", "wait": "1 hour"}, {"name": "end", "stop": True}],
}


@dataclass(frozen=True)
class World:
    """An account, and what acts are about."""

    cli: Cli
    tenant: Tenant
    rows: Rows
    files: Path

    def run(self, line: str) -> bool:
        """Runs a command, which may be refused; returns whether it was not."""
        words = shlex.split(line)
        named = () if words[0] in NOUNS_WITHOUT_ACCOUNT else ("--account", self.tenant.name)
        return self.cli.run(*words, *named).exit_code == 0

    def file(self, name: str, text: str) -> str:
        """The path of a file with that text."""
        path = self.files / name
        path.write_text(text, "utf-8")
        return str(path)

    def entries(self, via: str) -> int:
        """How many entries the act has: those of others are not counted."""
        with self.tenant.services.database.read() as session:
            query = select(func.count()).select_from(AuditEntry).where(AuditEntry.via == via)
            return session.scalar(query) or 0

    def contacts(self) -> tuple[int, int]:
        """A list, and a contact of it."""
        list_id = self.tenant.add_list("Customers")
        return list_id, self.rows.add_contact(list_id, "ann@example.com")

    def failed(self, reason: str = "expired") -> str:
        """The uuid of a message that has failed."""
        (recipient_id,) = self.rows.add_send(["ann@example.com"])
        self.rows.change([recipient_id], state="failed", reason=reason, attempts=1)
        return str(self.rows.recipient(recipient_id).uuid)

    def scheduled(self) -> str:
        """The uuid of a scheduled message."""
        ids = self.rows.add_send(["ann@example.com"])
        self.rows.schedule(ids, this_second() + timedelta(days=1))
        return str(self.rows.recipient(ids[0]).uuid)

    def pause(self) -> int:
        """A pause of the account."""
        self.run("sends pause")
        with self.tenant.services.database.read() as session:
            return session.scalars(select(SendPause.id).where(SendPause.account_id == self.tenant.id)).one()

    def held(self) -> list[int]:
        """A message that is held after a restore."""
        ids = self.rows.add_send(["ann@example.com"])
        self.rows.change(ids, state="held", held_state="queued")
        return ids

    def held_webhook(self) -> int:
        """A webhook that is held after a restore, with an event."""
        moment = this_second()
        webhook = self.tenant.add(Webhook, url=URL, creation_time=moment, due_time=moment)
        event = self.tenant.add(Event, webhook_id=webhook, payload='{"event":"x"}')
        with self.tenant.services.database.write() as transaction:
            transaction.get_one(Webhook, webhook).held_to = event
        return webhook

    def automation(self, **values: object) -> tuple[int, int]:
        """An automation, and a run of it."""
        list_id, contact = self.contacts()
        automation = add_automation(self.tenant.services, self.tenant.id, list_id, {"name": "Auto", **AUTOMATION})
        query = select(AutomationVersion.id).where(AutomationVersion.automation_id == automation)
        with self.tenant.services.database.read() as session:
            version = session.scalars(query).one()
        row = {"automation_id": automation, "version_id": version, "list_id": list_id, "contact_id": contact}
        state = {"entry_key": 0, "trigger_time": this_second(), "state": "waiting", "step": "a while"}
        return automation, self.rows.add(AutomationRun, **{**row, **state, "due_time": now(), **values})

    def definition(self, *, is_new: bool = False) -> str:
        """The path of a definition: of a new automation, or with another wait than the one that there is."""
        if not is_new:
            self.automation()
        steps = [{"name": "a while", "wait": "2 hours"}, {"name": "end", "stop": True}]
        return self.file(
            "auto.yaml", yaml.safe_dump({**AUTOMATION, "name": "Auto", "list": "Customers", "steps": steps})
        )


@pytest.fixture
def world(bare: Cli, tenant: Tenant, tmp_path: Path) -> World:
    return World(bare, tenant, Rows(tenant.services, tenant.id), tmp_path)


def after(*lines: str) -> Callable[[World], str]:
    """The last line, once those before it were run."""

    def prepare(world: World) -> str:
        names = {"account": world.tenant.name, "domain": f"{unique('d')}.example", "new": unique("new")}
        *before, last = (line.format(**names) for line in lines)
        for line in before:
            world.run(line)
        return last

    return prepare


CUSTOMERS = "lists create Customers --field Email:Email --field Plan:'Text Field'"
CONTACT = "contacts create email=ann@example.com --list Customers"
MESSAGE = "messages create Welcome --type email --subject Hello"
TRANSPORT = "transports create {new} --type email --url smtp://relay.example"
ROUTE = "transports routes create {new} {new} --type email --account {account}"

REPEATED: dict[str, Callable[[World], str]] = {
    "accounts create": after("accounts create {new}"),
    "accounts update": after("accounts update {account} --owner-email owner@new.example --allow-network 192.0.2.0/24"),
    "accounts delete": after("accounts create {new}", "accounts delete {new} --yes"),
    "keys create": after("keys create backend --level standard"),
    "keys update": after("keys create backend --level standard", CUSTOMERS, "keys update backend --list Customers"),
    "keys revoke": after("keys create backend --level standard", "keys revoke backend"),
    "keys restore": after("keys create backend --level standard", "keys revoke backend", "keys restore backend"),
    "domains add": after("domains add {domain}"),
    "domains update": after("domains add {domain} --trust", "domains update {domain} --tracking-host links.{domain}"),
    "domains rotate": after("domains add {domain} --trust --selector s1", "domains rotate {domain} --selector s2"),
    "domains remove-key": after(
        "domains add {domain} --trust --selector s1",
        "domains rotate {domain} --selector s2",
        "domains remove-key {domain} s2",
    ),
    "domains delete": after("domains add {domain}", "domains delete {domain}"),
    "senders create": after("senders create ACME --kind alphanumeric"),
    "senders update": after("senders create ACME --kind alphanumeric", "senders update ACME --rate 5"),
    "senders delete": after("senders create ACME --kind alphanumeric", "senders delete ACME"),
    "lists create": after(CUSTOMERS),
    "lists update": after(CUSTOMERS, "lists update Customers --stop-word HALT --allow-duplicates"),
    "lists delete": after(CUSTOMERS, "lists delete Customers --yes"),
    "lists add-field": after(CUSTOMERS, "lists add-field Customers Score Number"),
    "contacts update": after(CUSTOMERS, CONTACT, "contacts update ann@example.com plan=gold --list Customers"),
    "contacts delete": after(CUSTOMERS, CONTACT, "contacts delete ann@example.com --list Customers"),
    "messages create": after(MESSAGE),
    "messages update": after(MESSAGE, "messages update Welcome --subject Bye"),
    "messages delete": after(MESSAGE, "messages delete Welcome"),
    "messages restore": after(MESSAGE, "messages update Welcome --subject Bye", "messages restore Welcome --version 1"),
    "webhooks update": after(f"webhooks create {URL}", f"webhooks update {URL} --event recipient.sent"),
    "webhooks remove-secret": after(
        f"webhooks create {URL}", f"webhooks rotate {URL}", f"webhooks remove-secret {URL} k1"
    ),
    "webhooks delete": after(f"webhooks create {URL}", f"webhooks delete {URL}"),
    "suppressions unsubscribe": after(CUSTOMERS, "suppressions unsubscribe ann@example.com --list Customers"),
    "suppressions resubscribe": after(
        "suppressions unsubscribe ann@example.com", "suppressions resubscribe ann@example.com"
    ),
    "suppressions block": after("suppressions block ann@example.com"),
    "suppressions unblock": after("suppressions block ann@example.com", "suppressions unblock ann@example.com"),
    "sends retry": lambda world: f"sends retry {world.failed()}",
    "sends cancel": lambda world: f"sends cancel {world.scheduled()}",
    "sends pause": after("sends pause"),
    "sends resume": after("sends pause", "sends resume"),
    "holds release messages": lambda world: (world.held(), "holds release messages --yes")[1],
    "holds drop messages": lambda world: (world.held(), "holds drop messages --as sent --yes")[1],
    "holds release runs": lambda world: (
        world.automation(state="held", reason=RESTORE_REASON),
        "holds release runs --yes",
    )[1],
    "holds drop runs": lambda world: (world.automation(state="held", reason=RESTORE_REASON), "holds drop runs --yes")[
        1
    ],
    "holds release events": lambda world: (world.held_webhook(), "holds release events --yes")[1],
    "holds drop events": lambda world: (world.held_webhook(), "holds drop events --yes")[1],
    "automations create": lambda world: (world.contacts(), f"automations create {world.definition(is_new=True)}")[1],
    "automations update": lambda world: f"automations update {world.definition()}",
    "automations rename": lambda world: f"automations rename {world.automation()[0]} Other",
    "automations delete": lambda world: f"automations delete {world.automation()[0]} --yes",
    "automations pause": lambda world: f"automations pause {world.automation()[0]}",
    "automations resume": lambda world: (
        world.run(f"automations pause {(automation := world.automation()[0])}"),
        f"automations resume {automation}",
    )[1],
    "automations run cancel": lambda world: f"automations run cancel {world.automation()[1]}",
    "transports create": after(TRANSPORT),
    "transports update": after(TRANSPORT, "transports update {new} --rate 5 --allow-account {account}"),
    "transports delete": after(TRANSPORT, "transports delete {new}"),
    "transports routes create": after(TRANSPORT, ROUTE),
    "transports routes update": after(TRANSPORT, ROUTE, "transports routes update {new} {new} --priority high"),
    "transports routes delete": after(TRANSPORT, ROUTE, "transports routes delete {new}"),
    "contacts import": lambda world: (
        world.run(CUSTOMERS),
        f"contacts import {world.file('people.csv', PEOPLE)} --list Customers",
    )[1],
    "test-account refresh": after("keys create tests --level standard --test", CUSTOMERS, "test-account refresh"),
    "test-account delete": after("keys create tests --level standard --test", "test-account delete --yes"),
    "seed": lambda world: f"seed {world.file('seed.yaml', SEED.format(name=unique('seeded')))}",
}
"""Command -> what to run twice: the second time it changes nothing, or is refused."""
PEOPLE = "email\nbob@example.com\n"
SEED = """
accounts:
  - name: {name}
    lists: [{{name: L, fields: [{{name: Email, type: Email}}]}}]
    unsubscribers: [{{email: ann@example.com}}]
"""
CHANGES_EACH_TIME = {
    "keys rotate": "each makes a key",
    "webhooks create": "each makes a webhook",
    "webhooks rotate": "each makes a secret",
    "webhooks test": "each sends an event",
    "webhooks redeliver": "each sends the events",
    "webhooks replay": "each sends the events",
    "contacts create": "each makes a contact",
    "contacts forget": "it is recorded before it begins",
    **dict.fromkeys(
        ("contacts export", "contacts export-person", "suppressions export", "sends export"), "each hands out data"
    ),
    "transports test": "each sends a message",
    "console login": "each makes a link",
    "backup": "each writes a file",
}
ONCE = {
    "domains verify": "tests/cli/test_domains.py: the ORM notices the first time alone",
    "domains import-key": "tests/cli/test_domains.py: the same key is no new one",
    "sends bulk-actions cancel": "tests/cli/test_sends.py: refused for one that has ended",
    "history drop-month": "refused for a month that is not there",
    "console forget": "tests/cli/test_console.py: refused for a person who is not there",
    "console sign-out": "tests/cli/test_console.py: of a session that has ended nothing is left",
    "secrets rotate": "tests/restore/test_secret_rotation.py: only if there is something to encrypt",
    "secrets retire": "refused for a key that is not there",
    "secrets adopt": "tests/restore/test_installation_key.py: a key is adopted once",
    **dict.fromkeys(("db upgrade", "db downgrade"), "tests/cli/test_db.py: only if the revision changes"),
    "init": "what it creates is noticed as it is created",
    "restore": "refused for a database that is not empty",
}
"""What this test does not do twice, and why it has one entry."""


@pytest.mark.parametrize("command", REPEATED)
def test_a_command_that_is_repeated_has_no_second_entry(world: World, command: str) -> None:
    line = REPEATED[command](world)
    before = world.entries(command)
    world.run(line)
    once = world.entries(command)
    assert once > before, line
    world.run(line)
    assert world.entries(command) == once


def test_every_audited_command_is_repeated_or_says_why_not() -> None:
    audited = [f"{noun} {name}".strip() for noun, names in AUDITED_COMMANDS.items() for name in names]
    assert sorted([*REPEATED, *CHANGES_EACH_TIME, *ONCE]) == sorted(audited)


Form = tuple[str, Mapping[str, str | list[str]]]
"""Where a form leads to, and what it says."""


def console(path: str, *lines: str, **form: str) -> Callable[[World], Form]:
    """The form of a page of the account, once the commands were run."""

    def prepare(world: World) -> Form:
        names = {"account": world.tenant.name, "id": str(world.tenant.id), "domain": f"{unique('d')}.example"}
        names["new"] = unique("new")
        for line in lines:
            world.run(line.format(**names))
        return path.format(**names), {name: text.format(**names) for name, text in form.items()}

    return prepare


def row_form(path: str, *before: str, show: str, key: str = "id", **form: str) -> Callable[[World], Form]:
    """The form of the page of a row, once the commands `before` were run. The command `show` prints the row."""

    def prepare(world: World) -> Form:
        domain = f"{unique('d')}.example"
        for line in before:
            world.run(line.format(domain=domain))
        answer = world.cli.json(*shlex.split(show.format(domain=domain)), "--account", world.tenant.name)
        row = answer[0] if isinstance(answer, list) else answer
        return path.format(row[key]), {name: text.format(domain=domain) for name, text in form.items()}

    return prepare


def contact_form(rest: str = "", **form: str) -> Callable[[World], Form]:
    """A form of a contact."""

    def prepare(world: World) -> Form:
        list_id, contact = world.contacts()
        return f"lists/{list_id}/contacts/{contact}{rest}", form

    return prepare


def message_form(action: str, *lines: str, reason: str = "expired") -> Callable[[World], Form]:
    """The button of a message that has failed."""

    def prepare(world: World) -> Form:
        for line in lines:
            world.run(line)
        return f"messages/{world.failed(reason)}/{action}", {}

    return prepare


def file_of(text: str) -> dict[str, str]:
    """What a preview sends back of a file."""
    return {"content": base64.urlsafe_b64encode(text.encode()).decode()}


KEY = "keys create backend --level standard"
CONSOLE: dict[str, Callable[[World], Form]] = {
    "accounts": console("accounts", name="{new}"),
    "accounts/<account_id>": console("accounts/{id}", name="{account}", owner_email="owner@new.example"),
    "accounts/<account_id>/refresh": console(
        "accounts/{id}/refresh", "keys create tests --level standard --test", CUSTOMERS
    ),
    "automations/<automation_id>/pause": lambda world: (f"automations/{world.automation()[0]}/pause", {}),
    "automations/<automation_id>/resume": lambda world: (
        world.run(f"automations pause {(automation := world.automation()[0])}"),
        (f"automations/{automation}/resume", {"held": "send"}),
    )[1],
    "automations/<automation_id>/runs/<run_id>/cancel": lambda world: (
        "automations/{}/runs/{}/cancel".format(*world.automation()),
        {},
    ),
    "domains": console("domains", name="{domain}", trust="1"),
    "domains/<domain_id>/delete": row_form(
        "domains/{}/delete", "domains add {domain} --trust", show="domains show {domain}"
    ),
    "domains/<domain_id>/hosts": row_form(
        "domains/{}/hosts",
        "domains add {domain} --trust",
        show="domains show {domain}",
        tracking_host="links.{domain}",
        return_path_host="",
    ),
    "domains/<domain_id>/rotate": row_form(
        "domains/{}/rotate", "domains add {domain} --trust", show="domains show {domain}"
    ),
    "senders": console("senders", address="ACME", kind="alphanumeric"),
    "senders/<sender_id>/delete": lambda world: (
        f"senders/{world.tenant.add_sender('ACME', 'alphanumeric')}/delete",
        {},
    ),
    "keys": console("keys", name="backend", level="standard"),
    "keys/networks": console("keys/networks", networks="192.0.2.0/24 10.0.0.0/8"),
    "keys/<key_id>/list": row_form(
        "keys/{}/list", KEY, CUSTOMERS, show="keys create other --level report", list="Customers"
    ),
    "keys/<key_id>/restore": row_form("keys/{}/restore", KEY, "keys revoke backend", show="keys list"),
    "keys/<key_id>/revoke": row_form("keys/{}/revoke", KEY, show="keys create other --level report"),
    "lists": console("lists", name="Customers", field="email"),
    "lists/<list_id>": lambda world: (
        f"lists/{world.contacts()[0]}",
        {"name": "Customers", "stop_words": "HALT"},
    ),
    "lists/<list_id>/delete": lambda world: (f"lists/{world.contacts()[0]}/delete", {"confirmation": "Customers"}),
    "lists/<list_id>/fields": lambda world: (
        f"lists/{world.contacts()[0]}/fields",
        {"name": "Note", "type": "Text Field", "options": ""},
    ),
    "lists/<list_id>/import": lambda world: (
        f"lists/{world.contacts()[0]}/import",
        {**file_of(PEOPLE), "column": "email", "shown": ["email", "false", "1", "0"]},
    ),
    "lists/<list_id>/contacts": lambda world: (f"lists/{world.contacts()[0]}/contacts", {"email": "bob@example.com"}),
    "lists/<list_id>/contacts/<contact_id>": contact_form(first_name="Ann"),
    "lists/<list_id>/contacts/<contact_id>/delete": contact_form("/delete"),
    "lists/<list_id>/contacts/<contact_id>/subscription": contact_form(
        "/subscription", kind="email", subscribed="false"
    ),
    "messages/<uuid>/cancel": lambda world: (f"messages/{world.scheduled()}/cancel", {}),
    "messages/<uuid>/resubscribe": message_form("resubscribe", "suppressions unsubscribe ann@example.com"),
    "messages/<uuid>/retry": message_form("retry"),
    "messages/<uuid>/unblock": message_form("unblock", "suppressions block ann@example.com"),
    "queues/pauses": console("queues/pauses", kind="account", account="{account}"),
    "queues/pauses/<pause_id>/end": lambda world: (f"queues/pauses/{world.pause()}/end", {}),
    "queues/transports/<transport_name>": console("queues/transports/{new}", TRANSPORT, enabled="0"),
    "stored-messages": console("stored-messages", name="Welcome", type="sms"),
    "stored-messages/<message_id>": row_form(
        "stored-messages/{}", MESSAGE, show="messages show Welcome", name="Welcome", subject="Bye"
    ),
    "stored-messages/<message_id>/delete": row_form("stored-messages/{}/delete", MESSAGE, show="messages show Welcome"),
    "stored-messages/<message_id>/versions/<version_number>/restore": row_form(
        "stored-messages/{}/versions/1/restore",
        MESSAGE,
        "messages update Welcome --subject Bye",
        show="messages show Welcome",
    ),
    "suppressions": console("suppressions", address="ann@example.com", state="unsubscribed"),
    "suppressions/import": lambda _: (
        "suppressions/import",
        {**file_of(PEOPLE), "file_state": "blocked", "shown": ["email", "false", "1", "0"]},
    ),
    "webhooks/<webhook_id>/choice": row_form(
        "webhooks/{}/choice", f"webhooks create {URL}", show=f"webhooks show {URL}", event="recipient.sent", lists=""
    ),
    "webhooks/<webhook_id>/delete": row_form(
        "webhooks/{}/delete", f"webhooks create {URL}", show=f"webhooks show {URL}"
    ),
    "webhooks/<webhook_id>/remove-secret": row_form(
        "webhooks/{}/remove-secret",
        f"webhooks create {URL}",
        f"webhooks rotate {URL}",
        show=f"webhooks show {URL}",
        key_id="k1",
    ),
}
"""Path below `/console` -> what to send twice: the second time it changes nothing, or is refused."""
FORMS_THAT_CHANGE_EACH_TIME = {
    **dict.fromkeys(("sign-in", "login/<token>"), "each begins a session"),
    "keys/<key_id>/rotate": "each makes a key",
    "webhooks": "each makes a webhook",
    "webhooks/<webhook_id>/deliveries/<delivery_id>/redeliver": "each sends the events",
    **dict.fromkeys((f"webhooks/<webhook_id>/{action}" for action in ("replay", "test")), "each sends events"),
    "webhooks/<webhook_id>/rotate": "each makes a secret",
    **dict.fromkeys(
        ("bulk-actions", "cancellations", "holds", "suppressions/unblock"), "each makes an action, until one is done"
    ),
    "people/export": "each hands out data",
    "people/forget": "it is recorded before it begins",
}
FORMS_DONE_ONCE = {
    "roles": "tests/api/test_console_provider.py: the role that holds is not begun again",
    "sign-out": "of a session that has ended nothing is left",
    "bulk-actions/<action_id>/cancel": "tests/api/test_console_bulk_actions.py: refused for one that has ended",
    "domains/<domain_id>/check": "tests/api/test_console_domains.py: the ORM notices the first time alone",
    "suppressions/<state>/<suppression_id>/remove": "the page of what was removed is gone",
}


@pytest.mark.parametrize("route", CONSOLE)
def test_a_form_that_is_sent_again_has_no_second_entry(world: World, route: str) -> None:
    path, form = CONSOLE[route](world)
    browser, via = operator(world.tenant.app), f"POST /console/{route}"
    account_query = "" if path.startswith("accounts") else f"?account={world.tenant.id}"
    before = world.entries(via)
    browser.confirm(f"/console/{path}{account_query}", **form)
    once = world.entries(via)
    assert once > before, (path, form)
    browser.confirm(f"/console/{path}{account_query}", **form)
    assert world.entries(via) == once


def test_every_audited_form_is_sent_again_or_says_why_not() -> None:
    audited = {route.removeprefix("POST /console/") for route in AUDITED_ROUTES if route.startswith("POST /console/")}
    assert sorted([*CONSOLE, *FORMS_THAT_CHANGE_EACH_TIME, *FORMS_DONE_ONCE]) == sorted(audited)


@pytest.mark.parametrize("action", ["pause", "resume"])
def test_a_request_that_changes_nothing_has_no_entry(world: World, action: str) -> None:
    automation, _ = world.automation()
    path, via = f"/v1/automations/{automation}", "POST /v1/automations/<automation_id>/"
    if action == "resume":
        world.tenant.api.post(f"{path}/pause", {})
    before = world.entries(f"{via}{action}")
    assert [world.tenant.api.post(f"{path}/{action}", {}).status_code for _ in range(2)] == [200, 200]
    assert world.entries(f"{via}{action}") == before + 1


def test_contacts_that_are_gone_are_not_deleted_twice(world: World) -> None:
    list_id, contact = world.contacts()
    path, via = f"/v1/lists/{list_id}/contacts", "DELETE /v1/lists/<list_id>/contacts"
    before = world.entries(f"{via}/<contact_id>"), world.entries(via)
    for _ in range(2):
        world.tenant.api.delete(f"{path}/{contact}")
        world.tenant.api.delete(f"{path}?id={contact}")
    assert (world.entries(f"{via}/<contact_id>"), world.entries(via)) == (before[0] + 1, before[1])
