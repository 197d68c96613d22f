"""Accounts for tests: each test gets new ones, so that tests share a database without seeing each other."""

from __future__ import annotations

import itertools
import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from flask import Flask
from sqlalchemy import insert, update

from app.accounts.auth import SCOPES, hash_token, new_token, token_hint
from app.clock import now, this_second
from app.db.bulk import draw_ids
from app.db.counters import CONTACT_COUNTS, count
from app.db.models import (
    Account,
    ApiKey,
    Base,
    BulkAction,
    Contact,
    Domain,
    List,
    ListField,
    Message,
    SmsSender,
    table_of,
)
from app.http.context import EXTENSION
from app.lists.fields import field_key
from app.services import Services
from tests.support.client import Client

RUN = uuid.uuid4().hex[:8]
COUNTER = itertools.count(1)

PLAIN_FIELDS = (("Email", "Email"), ("Mobile", "Mobile Phone"), ("First Name", "First Name"))
FULL_FIELDS: tuple[tuple[Any, ...], ...] = (
    *PLAIN_FIELDS,
    ("Last Name", "Last Name"),
    ("Plan", "Dropdown", ["free", "gold"]),
    ("Interests", "Checkbox", ["tea", "coffee", "cake"]),
    ("Spend", "Currency"),
    ("Score", "Number"),
    ("Born", "Date of Birth"),
    ("Visit", "Date Picker"),
    ("Reply-To", "Text Field"),
)


def unique(prefix: str = "u") -> str:
    """A text that no other test uses."""
    return f"{prefix}-{RUN}-{next(COUNTER)}"


def new_email(prefix: str = "person") -> str:
    """An address that no other test uses."""
    return f"{unique(prefix)}@example.com"


def new_mobile() -> str:
    """An Australian mobile number that no other test uses."""
    return f"614{10_000_000 + int(RUN, 16) % 80_000_000 + next(COUNTER):08d}"


@dataclass
class Tenant:
    """An account with a key of each access level, one sending domain and what a test adds."""

    app: Flask
    id: int
    name: str
    domain: str
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def services(self) -> Services:
        """The parts of the application's process."""
        services: Services = self.app.extensions[EXTENSION]
        return services

    @property
    def api(self) -> Client:
        """A client with the standard key."""
        return Client(self.app, self.tokens["standard"])

    def client(self, level: str) -> Client:
        """A client with the key of a level."""
        return Client(self.app, self.tokens[level])

    def add(self, model: type[Base], **values: Any) -> int:
        """Inserts one row of the account and returns its id."""
        return self.add_all(model, [values])[0]

    def add_all(self, model: type[Base], rows: list[dict[str, Any]]) -> list[int]:
        """Inserts rows of the account, all with the same columns, and returns their ids."""
        with self.services.database.write() as transaction:
            ids = draw_ids(transaction, model, len(rows))
            stored_rows = [{"id": row_id, "account_id": self.id, **row} for row_id, row in zip(ids, rows, strict=True)]
            transaction.execute(insert(model), stored_rows)
            if model is Contact:
                for row in stored_rows:
                    count(transaction, CONTACT_COUNTS, self.id, (row["list_id"],), contacts=1)
        return ids

    def make_bulk_actions_due(self) -> None:
        """As if the time to cancel them had passed; they run before those that other tests have left."""
        with self.services.database.write() as transaction:
            due = update(BulkAction).where(BulkAction.account_id == self.id)
            transaction.execute(due.values(due_time=now() - timedelta(days=1)))

    def add_list(
        self, name: str | None = None, fields: tuple[tuple[Any, ...], ...] = PLAIN_FIELDS, **values: Any
    ) -> int:
        """A list with these (name, type[, options]) fields; stop words STOP and OPTOUT."""
        moment = this_second()
        values = {"system": False, "allow_duplicates": False, "stop_words": ["STOP", "OPTOUT"], **values}
        values = {"creation_time": moment, "last_modified_time": moment, **values}
        list_id = self.add(List, name=name or unique("list"), **values)
        self.add_all(
            ListField,
            [
                {
                    "list_id": list_id,
                    "position": position,
                    "name": field_name,
                    "key": field_key(field_name),
                    "type": type_,
                    "options": options[0] if options else [],
                }
                for position, (field_name, type_, *options) in enumerate(fields)
            ],
        )
        return list_id

    def add_message(self, **values: Any) -> int:
        """An email message with all fields; keyword arguments replace them."""
        moment = this_second()
        defaults = {
            "name": unique("message"),
            "type": "email",
            "subject": "Hi %%first_name**there%%",
            "from_name": "Acme",
            "from_address": f"hello@{self.domain}",
            "body_html": "<p>Welcome %%first_name**friend%%</p>",
            "body_text": "Welcome %%first_name**friend%%",
            "creation_time": moment,
            "last_modified_time": moment,
        }
        return self.add(Message, **{**defaults, **values})

    def add_sender(self, address: str, kind: str = "virtual_number", list_id: int | None = None) -> int:
        """An approved sms sender."""
        return self.add(SmsSender, address=address, kind=kind, list_id=list_id, creation_time=this_second())

    def new_contact(self, list_id: int, **attributes: Any) -> dict[str, Any]:
        """Creates a contact through the API."""
        response = self.api.post(f"/v1/lists/{list_id}/contacts", attributes)
        assert response.status_code == 201, response.text
        contact: dict[str, Any] = response.get_json()
        return contact


def new_tenant(app: Flask, **values: Any) -> Tenant:
    """A new account; keyword arguments replace columns of the account."""
    services: Services = app.extensions[EXTENSION]
    moment = this_second()
    name = unique("account")
    domain = f"{name}.example"
    columns = {
        "name": name,
        "owner_email": f"owner@{domain}",
        "owner_confirmed": True,
        "allowed_networks": [],
        "default_from_name": "Acme Default",
        "default_from_address": f"default@{domain}",
        "creation_time": moment,
        "last_modified_time": moment,
        **values,
    }
    tokens = {level: new_token() for level in SCOPES}
    with services.database.write() as transaction:
        (account_id,) = draw_ids(transaction, Account, 1)
        # On the tables, which takes half of the time of the models: nearly every test does this first.
        connection = transaction.connection()
        connection.execute(insert(table_of(Account)), {"id": account_id, **columns})
        given = {"account_id": account_id, "name": domain, "creation_time": moment, "verified_time": moment}
        connection.execute(insert(table_of(Domain)), given)
        keys = [{"account_id": account_id, **_key(level, token)} for level, token in tokens.items()]
        connection.execute(insert(table_of(ApiKey)), keys)
    return Tenant(app, account_id, name, domain, tokens)


def add_key(tenant: Tenant, level: str, **values: Any) -> str:
    """A further key of a level."""
    token = new_token()
    tenant.add(ApiKey, **_key(level, token), **values)
    return token


def _key(level: str, token: str) -> dict[str, Any]:
    return {
        "name": unique(level),
        "token_hash": hash_token(token),
        "token_hint": token_hint(token),
        "access_level": level,
        "creation_time": this_second(),
    }
