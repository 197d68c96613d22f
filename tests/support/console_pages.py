"""The pages of the console, from the routes of the application, and an account with one row of everything that their
paths can name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from functools import cached_property
from typing import Any

from flask import Flask
from sqlalchemy import func, select

from app.accounts.auth import MANAGER, SCOPES
from app.accounts.sessions import OPERATOR
from app.clock import now, this_second, timestamp
from app.db.models import (
    ApiKey,
    AuditEntry,
    Base,
    BlockedAddress,
    BulkAction,
    Domain,
    Event,
    SendPause,
    Webhook,
    WebhookAttempt,
    WebhookSecret,
)
from app.http.api import PUBLIC, scopes_of
from app.privacy.files import folders_of_transports
from app.routing.table import DEFAULT_TRANSPORT
from app.suppressions.states import BLOCKED
from tests.support.automations import runs_of
from tests.support.browser import HOME, Browser, linked, operator, signed_in
from tests.support.captured import capture
from tests.support.definitions import STANDARD, create
from tests.support.sends import SendsApi, file
from tests.support.tenants import FULL_FIELDS, RUN, Tenant, add_key, new_email, new_mobile, unique
from tests.support.testing import refreshed

PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")
LEVELS = tuple(level for level in SCOPES if level != MANAGER)
"""The levels of keys that can sign in."""
PIXEL = b"\x89PNG\r\n\x1a\n0000"
INSTALLATION_PARAMETERS = frozenset({"account_id", "entry_id", "transport_name"})
"""What paths name that belongs to no account."""
PERSONAL = frozenset({"console_sessions", "console_links"})
"""Tables that signing in writes to."""


@dataclass(frozen=True, slots=True)
class Page:
    """One method of one route. A session needs one of the scopes."""

    method: str
    rule: str
    scopes: frozenset[str]

    @property
    def names(self) -> list[str]:
        """The names of the parameters in the path."""
        return PARAMETER.findall(self.rule)

    @property
    def is_file(self) -> bool:
        """Whether it is a table as a file."""
        return self.rule.endswith(".csv")

    def path(self, ids: Mapping[str, Any]) -> str:
        """The path of the page with these values of its parameters."""
        return PARAMETER.sub(lambda match: str(ids[match[1]]), self.rule)


def private_pages(app: Flask) -> list[Page]:
    """All pages, files and forms that need a session."""
    pages = [
        Page(method, rule.rule, frozenset(scopes_of(app, rule.endpoint, method)))
        for rule in app.url_map.iter_rules()
        for method in sorted((rule.methods or set()) - {"OPTIONS", "HEAD"})
        if rule.rule == HOME or rule.rule.startswith(f"{HOME}/")
    ]
    return [page for page in pages if PUBLIC not in page.scopes]


def names_in(text: str) -> set[str]:
    """What the text holds of what `unique` has made."""
    return set(re.findall(rf"\w+-{RUN}-\d+", text))


class Estate:
    """An account with one row of everything."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        testing = refreshed(tenant)
        self.ids = {
            **{"state": BLOCKED, "version_number": 1, "account_id": tenant.id, "transport_name": DEFAULT_TRANSPORT},
            "captured_id": capture(testing, new_email(), content=_mail()),
            **self._ids_of_sends(),
            **self._ids_of_automations(),
            **self._ids_of_webhooks(),
            **self._alone(),
        }

    @cached_property
    def sessions(self) -> dict[str, Browser]:
        """Whoever can be signed in to the account -> their browser."""
        levels = {level: signed_in(self.tenant, level) for level in LEVELS}
        return {**levels, "link": linked(self.tenant), OPERATOR: operator(self.tenant.app)}

    def rows(self) -> dict[str, list[str]]:
        """All that is stored of the account."""
        tables = [
            table
            for table in Base.metadata.sorted_tables
            if "account_id" in table.columns and table.name not in PERSONAL
        ]
        with self.tenant.services.database.read() as session:
            return {
                table.name: sorted(
                    map(repr, session.execute(select(table).where(table.c.account_id == self.tenant.id)))
                )
                for table in tables
            }

    def names(self) -> set[str]:
        """What only rows of the account are called."""
        return names_in(repr(self.rows()))

    def _newest(self, model: type[Any]) -> int:
        with self.tenant.services.database.read() as session:
            newest = select(func.max(model.id)).where(model.account_id == self.tenant.id)
            return int(session.scalars(newest).one())

    def _ids_of_sends(self) -> dict[str, Any]:
        sends = SendsApi(self.tenant)
        body = sends.email(
            body_html='<p>Hi <img src="%%attachment:dot.png%%"></p>', attachments=[file("dot.png", "image/png", PIXEL)]
        )
        sent = sends.send(body)
        with self.tenant.services.database.read() as session:
            folders = folders_of_transports(session, self.tenant.services.settings)
        folder = next(folder for folder in folders if folder.name == "mail")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{sent.uuids[0]}.eml").write_bytes(_mail())
        return {"uuid": sent.uuids[0], "group_id": sent.group.id}

    def _ids_of_automations(self) -> dict[str, Any]:
        list_id, message_id = self.tenant.add_list("People", FULL_FIELDS), self.tenant.add_message(name="Welcome")
        automation_id = create(self.tenant, {**STANDARD, "list": "People"})
        contact = self.tenant.new_contact(list_id, email=new_email())
        (run,) = runs_of(self.tenant.services, automation_id)
        content_ids = {"list_id": list_id, "contact_id": contact["id"], "message_id": message_id}
        return {**content_ids, "automation_id": automation_id, "run_id": run.id}

    def _ids_of_webhooks(self) -> dict[str, Any]:
        moment = this_second()
        url = f"https://hooks.example/{unique()}"
        webhook_id = self.tenant.add(Webhook, url=url, creation_time=moment, due_time=moment)
        self.tenant.add(WebhookSecret, webhook_id=webhook_id, key_id="k1", secret="x", creation_time=moment)
        payload = f'{{"object":"contact","event":"created","id":7,"timestamp":"{timestamp(moment)}"}}'
        event = self.tenant.add(Event, webhook_id=webhook_id, payload=payload)
        request = {"batch_id": unique("jti"), "time": moment, "events": 1, "status": 200, "outcome": "delivered"}
        sent = {"milliseconds": 12, "after_event": event - 1, "last_event": event}
        return {
            "webhook_id": webhook_id,
            "delivery_id": self.tenant.add(WebhookAttempt, webhook_id=webhook_id, **request, **sent),
        }

    def _alone(self) -> dict[str, Any]:
        moment, add = now(), self.tenant.add
        add_key(self.tenant, "report")
        blocked = {"kind": "email", "address": new_email(), "reason": "x", "creation_time": this_second()}
        pause = {"kind": "domain", "domain": f"{unique()}.example", "paused_by": "somebody", "creation_time": moment}
        action = {"action": "retry", "query": "state=failed", "asked_by": "somebody", "state": "cancelled"}
        times = dict.fromkeys(("creation_time", "due_time", "end_time", "newest_time"), moment)
        counts = {"messages": 1, "newest_id": 1, "done": 0, "left_out": {}}
        return {
            "suppression_id": add(BlockedAddress, **blocked),
            "pause_id": add(SendPause, **pause),
            "action_id": add(BulkAction, **action, **times, **counts),
            "sender_id": self.tenant.add_sender(new_mobile()),
            "key_id": self._newest(ApiKey),
            "domain_id": self._newest(Domain),
            "entry_id": self._newest(AuditEntry),
        }


def _mail() -> bytes:
    """A mail with HTML that shows an attached image."""
    mail = EmailMessage()
    mail["Subject"] = "Hi"
    mail.set_content("Hi")
    mail.add_alternative('<p>Hi <img src="cid:dot@example.com"></p>', subtype="html")
    html = list(mail.iter_parts())[1]
    assert isinstance(html, EmailMessage)
    html.add_related(PIXEL, "image", "png", cid="<dot@example.com>", filename="dot.png")
    return mail.as_bytes()
