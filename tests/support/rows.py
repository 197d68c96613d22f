"""Rows as accepted sends have them: the start of delivery, without the API."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from app.addresses import email_key
from app.clock import now, this_second
from app.content.attachments import new_content_id
from app.db.bulk import draw_ids, insert_rows
from app.db.counters import CONTACT_COUNTS, count
from app.db.database import Transaction
from app.db.models import (
    Attachment,
    Base,
    Contact,
    Domain,
    Event,
    Group,
    List,
    QueueEntry,
    Recipient,
    RecipientStep,
    Send,
    SendPause,
    SmsSender,
    Webhook,
    table_of,
)
from app.services import Services
from tests.support.tenants import Tenant, unique

FROM = "hello@acme.example"
NUMBER = "61400000001"
DOMAINS = ("acme.example", "news.acme.example", "second.example", "other.example", "slow.example", "d.example")
"""The domains of senders and blind copies."""
File = tuple[str, str, bytes]
"""Name, type and content of an attachment."""


def resume_all(services: Services) -> None:
    """Nothing is paused afterwards."""
    with services.database.write() as transaction:
        transaction.execute(delete(SendPause))


def permit_senders(transaction: Transaction, account_id: int) -> None:
    """Gives an account what the rows of these tests need to be sent: the domains, without keys, and the sender of text
    messages."""
    moment = this_second()
    for name in DOMAINS:
        transaction.add(Domain(account_id=account_id, name=name, creation_time=moment, verified_time=moment))
    sender = {"address": NUMBER, "kind": "virtual_number", "list_id": None, "creation_time": moment}
    transaction.add(SmsSender(account_id=account_id, **sender))
    transaction.flush()


@dataclass
class Rows:
    """Adds rows to one account and reads them back."""

    services: Services
    account_id: int

    @classmethod
    def of(cls, tenant: Tenant) -> Rows:
        """The rows of a tenant, which may send from the addresses that the rows use."""
        with tenant.services.database.write() as transaction:
            permit_senders(transaction, tenant.id)
        return cls(tenant.services, tenant.id)

    def add(self, model: type[Base], **values: Any) -> int:
        """Adds one row; returns its id."""
        with self.services.database.write() as transaction:
            (row_id,) = draw_ids(transaction, model, 1)
            transaction.execute(insert(model).values(id=row_id, account_id=self.account_id, **values))
            if model is Contact:
                count(transaction, CONTACT_COUNTS, self.account_id, (values["list_id"],), contacts=1)
        return row_id

    def add_list(self, name: str | None = None) -> int:
        """A list."""
        moment = this_second()
        times = {"creation_time": moment, "last_modified_time": moment}
        return self.add(List, name=name or unique("list"), system=False, allow_duplicates=False, stop_words=[], **times)

    def add_contact(self, list_id: int, email: str | None = None, mobile: str | None = None, **values: Any) -> int:
        """A contact."""
        moment = this_second()
        columns: dict[str, Any] = {
            "email": email,
            "email_key": email and email_key(email),
            "mobile": mobile,
            "subscribed_email": True,
            "subscribed_mobile": True,
            "is_active": True,
            "double_opt_in": False,
            "values": {},
            "creation_time": moment,
            "last_modified_time": moment,
        }
        return self.add(Contact, list_id=list_id, **{**columns, **values})

    def add_group(self, type_: str = "email") -> int:
        """A group."""
        moment = this_second()
        return self.add(Group, type=type_, name=unique("group"), creation_time=moment, own_last_sent_time=moment)

    def add_webhook(self) -> int:
        """A webhook, so that events are kept."""
        moment = now()
        return self.add(
            Webhook, url=f"https://{unique('hook')}.example/", creation_time=moment, due_time=moment, failures=0,
            dropped_events=0,
        )  # fmt: skip

    def add_send(
        self,
        recipients: Sequence[str | Mapping[str, Any]],
        *,
        attachments: Sequence[File] = (),
        group_id: int | None = None,
        due_in: float = 0,
        accepted: datetime | None = None,
        **content: Any,
    ) -> list[int]:
        """Adds a send; returns the ids of its recipients. A recipient is an address, or columns with its own
        `attachments`.

        `accepted` is the time of acceptance.
        """
        columns = _send_columns(content)
        type_, moment = columns["type"], accepted or now()
        group_id = group_id or self.add_group(type_)
        send_id = self.add(
            Send, group_id=group_id, group_name=f"group {group_id}", request_id=unique("request"),
            creation_time=moment.replace(microsecond=0), **columns,
        )  # fmt: skip
        shared = {
            "account_id": self.account_id,
            "send_id": send_id,
            "group_id": group_id,
            "list_id": columns["list_id"],
            "message_id": columns["message_id"],
            "type": type_,
            "state": "queued",
            "creation_time": moment,
            "attempts": 0,
            "open_type": "sms" if type_ == "sms" else "not_opened",
        }
        due_time = moment + timedelta(seconds=due_in)
        entry = {"due_time": due_time, "ready_time": max(due_time, now()), "priority": columns["priority"]}
        with self.services.database.write() as transaction:
            ids = draw_ids(transaction, Recipient, len(recipients))
            given = [_recipient_columns(recipient, type_) for recipient in recipients]
            files: list[tuple[int | None, File]] = [(None, file) for file in attachments]
            for number, recipient_columns in zip(ids, given, strict=True):
                files += [(number, file) for file in recipient_columns.pop("attachments")]
            rows = [
                {**shared, **recipient_columns, "id": number}
                for number, recipient_columns in zip(ids, given, strict=True)
            ]
            insert_rows(transaction, Recipient, rows)
            insert_rows(transaction, QueueEntry, [{**entry, **_entry(row)} for row in rows if row["state"] == "queued"])
            self._attach(transaction, send_id, files)
        return ids

    def _attach(self, transaction: Transaction, send_id: int, files: Sequence[tuple[int | None, File]]) -> None:
        rows = [
            {
                "account_id": self.account_id,
                "send_id": send_id,
                "recipient_id": recipient_id,
                "position": position,
                "name": name,
                "mime_type": mime_type,
                "content_id": new_content_id(),
                "content": content,
            }
            for position, (recipient_id, (name, mime_type, content)) in enumerate(files)
        ]
        insert_rows(transaction, Attachment, rows)

    def change(self, ids: Sequence[int], **values: Any) -> None:
        """Sets columns of recipients, or of their queue entries; a recipient that gets an outcome loses its entry."""
        with self.services.database.write() as transaction:
            change_recipients(transaction, ids, **values)

    def schedule(self, ids: Sequence[int], send_at: datetime) -> None:
        """Schedules the messages of these recipients, which are all of their sends."""
        self.change(ids, state="scheduled", due_time=send_at, ready_time=send_at)
        with self.services.database.write() as transaction:
            send_ids = select(Recipient.send_id).where(Recipient.id.in_(ids))
            transaction.execute(update(table_of(Send)).where(table_of(Send).c.id.in_(send_ids)).values(send_at=send_at))

    def make_due(self, ids: Sequence[int]) -> None:
        """Makes the next attempt due."""
        self.change(ids, due_time=now())

    def recipient(self, recipient_id: int) -> Any:
        """The current columns of a recipient, and those of its queue entry if it has one."""
        with self.services.database.read() as session:
            return current(session, session.get_one(Recipient, recipient_id))

    def states(self, ids: Sequence[int]) -> list[str]:
        """The states of recipients, in the given order."""
        return [self.recipient(recipient_id).state for recipient_id in ids]

    def group_of(self, recipient_id: int) -> Group:
        """The group of a recipient."""
        group_id = self.recipient(recipient_id).group_id
        with self.services.database.read() as session:
            return session.get_one(Group, group_id)

    def steps(self, recipient_id: int) -> list[tuple[str, str | None]]:
        """The recipient's timeline."""
        statement = select(RecipientStep).where(RecipientStep.recipient_id == recipient_id).order_by(RecipientStep.id)
        with self.services.database.read() as session:
            return [(step.step, step.detail) for step in session.scalars(statement)]

    def payloads(self) -> list[str]:
        """The waiting events of the account's webhooks, oldest first, parsed."""
        statement = select(Event.payload).where(Event.account_id == self.account_id).order_by(Event.id)
        with self.services.database.read() as session:
            return list(session.scalars(statement))


UNSETTLED = ("scheduled", "queued", "sending", "uncertain", "held", "paused")
ENTRY_COLUMNS = ("state", "due_time", "lease_time", "worker", "attempts", "priority", "held_state", "pause_id")
"""Columns of a queue entry that tests set and read as the recipient's."""


def current(session: Session, recipient: Recipient) -> Any:
    """The columns of the recipient, and those of its queue entry if it has one."""
    entry = session.get(QueueEntry, recipient.id)
    columns = {column.name: getattr(recipient, column.name) for column in table_of(Recipient).columns}
    entry_columns = {name: getattr(entry, name) for name in ENTRY_COLUMNS} if entry else {}
    return SimpleNamespace(**{**dict.fromkeys(ENTRY_COLUMNS), **columns, **entry_columns})


def change_recipients(transaction: Transaction, ids: Sequence[int], **values: Any) -> None:
    """Sets columns of recipients, or of their queue entries; a recipient that gets an outcome loses its entry."""
    entry_values = {name: value for name, value in values.items() if name in ENTRY_COLUMNS}
    recipient_values = {name: value for name, value in values.items() if name in table_of(Recipient).columns}
    entries = table_of(QueueEntry)
    if entry_values:
        entry_values["ready_time"] = values.get("ready_time") or max(now(), values.get("due_time") or now())
    if values.get("state", "queued") in UNSETTLED:
        recipient_values = {name: value for name, value in recipient_values.items() if name not in entry_values}
        if "state" in values:
            _enter_queue(transaction, ids)
        if entry_values:
            transaction.execute(update(entries).where(entries.c.recipient_id.in_(ids)).values(**entry_values))
    else:
        transaction.execute(delete(entries).where(entries.c.recipient_id.in_(ids)))
    if recipient_values:
        transaction.execute(
            update(table_of(Recipient)).where(table_of(Recipient).c.id.in_(ids)).values(**recipient_values)
        )


def _enter_queue(transaction: Transaction, ids: Sequence[int]) -> None:
    """Adds a queue entry for each recipient that has none."""
    queued_ids = select(QueueEntry.recipient_id).where(QueueEntry.recipient_id.in_(ids))
    settled = transaction.scalars(select(Recipient).where(Recipient.id.in_(ids), Recipient.id.not_in(queued_ids))).all()
    for row in settled:
        shared = {"account_id": row.account_id, "attempts": row.attempts, "state": "queued", "priority": "normal"}
        transaction.execute(insert(QueueEntry).values(recipient_id=row.id, due_time=now(), ready_time=now(), **shared))
        transaction.execute(update(Recipient).where(Recipient.id == row.id).values(state="queued"))


def _entry(recipient: Mapping[str, Any]) -> dict[str, Any]:
    """The queue entry for a recipient's row."""
    return {
        "recipient_id": recipient["id"],
        **{name: recipient[name] for name in ("account_id", "state", "attempts")},
    }


def _send_columns(content: Mapping[str, Any]) -> dict[str, Any]:
    is_sms = content.get("type") == "sms"
    columns: dict[str, Any] = {
        "type": "email",
        "list_id": None,
        "message_id": None,
        "unsubscribe_type": None,
        "subject": None if is_sms else "Hello",
        "from_name": None if is_sms else "Acme",
        "from_address": NUMBER if is_sms else FROM,
        "reply_to": None,
        "bcc_address": None,
        "body_html": None,
        "body_text": "Hello there",
        "priority": "normal",
        "include_unsubscribed": False,
        "recipient_data_html_encoded": True,
    }
    return {**columns, **content}


def _recipient_columns(given: str | Mapping[str, Any], type_: str) -> dict[str, Any]:
    if isinstance(given, str):
        given = {"mobile" if type_ == "sms" else "email": given}
    columns: dict[str, Any] = {
        "uuid": str(uuid.uuid4()),
        "contact_id": None,
        "email": None,
        "mobile": None,
        "values": {},
        "reason": None,
        "attachments": (),
    }
    return {**columns, **given}
