"""Helpers for tests of sends: valid bodies, and the rows of accepted sends."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sqlalchemy import select
from werkzeug.test import TestResponse

from app.db.models import Attachment, Base, Group, Recipient, Send
from tests.support.client import SENDS
from tests.support.rows import current
from tests.support.tenants import FULL_FIELDS, Tenant, new_email, new_mobile, unique

Body = dict[str, Any]


def file(name: str = "a.txt", type_: str = "text/plain", content: bytes = b"a") -> dict[str, str]:
    """An attachment as a request has it."""
    return {"type": type_, "name": name, "content": base64.b64encode(content).decode()}


@dataclass
class SendsApi:
    """Sends of one account: valid bodies to modify, and the rows that they write."""

    tenant: Tenant
    fields: tuple[tuple[Any, ...], ...] = field(default=FULL_FIELDS)

    @cached_property
    def list_id(self) -> int:
        """A list with email and mobile; stop words STOP and OPTOUT."""
        return self.tenant.add_list(fields=self.fields)

    @cached_property
    def number(self) -> str:
        """A virtual number that is assigned to no list."""
        return self.add_number()

    def add_number(self, kind: str = "virtual_number", list_id: int | None = None) -> str:
        """Adds an approved number."""
        number = new_mobile()
        self.tenant.add_sender(number, kind, list_id)
        return number

    def email(self, **changes: Any) -> Body:
        """A valid email send to one new person; keyword arguments replace or, with None, remove attributes."""
        body = {
            "type": "email",
            "list_id": self.list_id,
            "group_name": unique("group"),
            "subject": "A subject",
            "from_name": "Acme",
            "from_address": f"hello@{self.tenant.domain}",
            "body_text": "A plain body",
            "recipients": [{"email": new_email()}],
        }
        return _changed(body, changes)

    def sms(self, **changes: Any) -> Body:
        """A valid sms send to one new person of the list."""
        body = {
            "type": "sms",
            "list_id": self.list_id,
            "group_name": unique("group"),
            "from_address": self.number,
            "unsubscribe_type": "word",
            "body_text": "Your code is 1234. Reply STOP",
            "recipients": [{"mobile": new_mobile()}],
        }
        return _changed(body, changes)

    def post(self, body: Body, **options: Any) -> TestResponse:
        """Posts the body as it is."""
        return self.tenant.api.post(SENDS, body, **options)

    def send(self, body: Body, **options: Any) -> AcceptedSend:
        """Posts a send that must be accepted; returns it with its rows."""
        response = self.post(body, **options)
        assert response.status_code == 202, response.text
        return AcceptedSend(self.tenant, response.get_json())

    def rows(self, model: type[Base]) -> list[Any]:
        """All rows of the account, oldest first."""
        return rows_of(self.tenant, model)


def _changed(body: Body, changes: Body) -> Body:
    return {name: value for name, value in {**body, **changes}.items() if value is not None}


def rows_of(tenant: Tenant, model: type[Base], **columns: Any) -> list[Any]:
    """The account's rows with these values, oldest first."""
    statement = select(model).filter_by(account_id=tenant.id, **columns).order_by(model.__table__.c.id)
    with tenant.services.database.read() as session:
        return list(session.scalars(statement))


@dataclass(frozen=True)
class AcceptedSend:
    """The response to a send, and its rows."""

    tenant: Tenant
    body: Body

    @property
    def uuids(self) -> list[str]:
        """The uuid of each recipient, in the order of the request."""
        return [recipient["uuid"] for recipient in self.body["_embedded"]["recipients"]]

    @property
    def recipients(self) -> list[Any]:
        """The rows of the recipients with their queue entries, in the order of the request."""
        with self.tenant.services.database.read() as session:
            rows = session.scalars(select(Recipient).filter_by(account_id=self.tenant.id)).all()
            by_uuid = {row.uuid: current(session, row) for row in rows if row.uuid in self.uuids}
        return [by_uuid[uuid] for uuid in self.uuids]

    @property
    def recipient(self) -> Any:
        """The row of the only recipient."""
        (row,) = self.recipients
        return row

    @property
    def send(self) -> Any:
        """The row of the send."""
        (row,) = rows_of(self.tenant, Send, id=self.recipients[0].send_id)
        return row

    @property
    def group(self) -> Any:
        """The row of its group."""
        (row,) = rows_of(self.tenant, Group, id=self.send.group_id)
        return row

    @property
    def attachments(self) -> list[Any]:
        """The rows of its attachments."""
        return rows_of(self.tenant, Attachment, send_id=self.send.id)
