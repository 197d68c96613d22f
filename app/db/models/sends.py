"""Sends, their recipients, their attachments and each recipient's timeline."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, ForeignKeyConstraint, Index, LargeBinary, String, UniqueConstraint, false, text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import IMPERSONAL, AccountId, Base, BigInt, Identity, Impersonal, partial_index, personal
from app.db.types import BigId, Json

STORAGE_OF_SENDS = {"autovacuum_vacuum_scale_factor": 0, "autovacuum_vacuum_threshold": 20_000}
"""PostgreSQL's settings of the table. Purging empties the bodies of one day in hundreds, so the table is vacuumed by
the number of rows, not by their share: new bodies get the place of those that are gone."""


def _address_index(column: str) -> Index:
    """For forgetting people (docs/privacy.md): of the sends that have an address there, which are all that it costs."""
    columns = "account_id", text(f"lower({column})"), "id"
    return partial_index(f"ix_sends_{column}", *columns, where=f"{column} IS NOT NULL")


class Send(Base):
    """One accepted request with a copy of its content: later changes of a saved message do not affect it."""

    __tablename__ = "sends"
    __table_args__ = (
        Index("ix_sends_account", "account_id", "id"),
        _address_index("reply_to"),
        _address_index("bcc_address"),
        {"sqlite_autoincrement": True, "postgresql_with": STORAGE_OF_SENDS},
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    request_id: Mapped[Impersonal]
    creation_time: Mapped[datetime]
    type: Mapped[Impersonal]
    list_id: Mapped[BigInt | None]
    group_id: Mapped[BigInt]
    """The report: of a group, or of the step of an automation."""
    group_name: Mapped[Impersonal]
    """Empty in a send of an automation, which has no group: SQLite would have to build the whole table anew to allow
    nulls."""
    automation_id: Mapped[BigInt | None]
    step_id: Mapped[BigInt | None]
    message_id: Mapped[BigInt | None]
    unsubscribe_type: Mapped[Impersonal | None]
    subject: Mapped[str | None] = mapped_column(info=personal("recipients"))
    from_name: Mapped[Impersonal | None]
    from_address: Mapped[Impersonal]
    reply_to: Mapped[str | None] = mapped_column(info=personal("named_in_sends"))
    bcc_address: Mapped[str | None] = mapped_column(info=personal("named_in_sends"))
    body_html: Mapped[str | None] = mapped_column(info=personal("recipients"))
    body_text: Mapped[str | None] = mapped_column(info=personal("recipients"))
    priority: Mapped[Impersonal] = mapped_column(default="normal", server_default="normal")
    """`high` or `normal`."""
    transport: Mapped[Impersonal | None]
    """Name of the transport, where the request names one (docs/sending.md#choosing-a-transport)."""
    include_unsubscribed: Mapped[bool] = mapped_column(default=False)
    recipient_data_html_encoded: Mapped[bool] = mapped_column(default=True)
    track_opens: Mapped[bool] = mapped_column(default=False, server_default=false())
    track_clicks: Mapped[bool] = mapped_column(default=False, server_default=false())
    track_secrets: Mapped[bool] = mapped_column(default=False, server_default=false())
    """Whether links that appear to contain a secret are tracked, too."""
    send_at: Mapped[datetime | None]
    """When it is to be sent; null: at once (docs/scheduling.md)."""
    literal: Mapped[bool] = mapped_column(default=False, server_default=false())
    """Whether subject and bodies leave as they are, without wildcards (docs/smtp-submission.md#the-mail)."""
    headers: Mapped[dict[str, str] | None] = mapped_column(Json, info=personal("recipients"))
    """Header fields of the mails, which the request adds (docs/mail-headers.md), or the author of a submitted mail has
    written."""
    content_purged_time: Mapped[datetime | None]
    """When subject, bodies, attachments and the values of the recipients were purged, which are empty since."""


class SendLink(Base):
    """A link of a send's bodies as written: the target of tracked links."""

    __tablename__ = "send_links"
    __table_args__ = (UniqueConstraint("send_id", "link_type", "url"), {"sqlite_autoincrement": True})

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    send_id: Mapped[int] = mapped_column(BigId, ForeignKey("sends.id", ondelete="CASCADE"))
    link_type: Mapped[Impersonal]
    """`html_email` or `text_email`."""
    url: Mapped[str] = mapped_column(info=personal("recipients"))


SENT_CONTACTS = "message_id IS NOT NULL AND sent_time IS NOT NULL"
SENT_FILTERS = {
    "by_contact": ("contact_id", ("sent_time", "id"), SENT_CONTACTS),
    "by_list": ("list_id", ("sent_time", "contact_id", "id"), SENT_CONTACTS),
    "by_group": ("group_id", ("sent_time", "contact_id", "id"), SENT_CONTACTS),
    "by_open_type": ("open_type", ("sent_time", "contact_id", "id"), SENT_CONTACTS),
    "by_opening": ("first_open_time", ("id",), f"{SENT_CONTACTS} AND first_open_time IS NOT NULL"),
}
"""Name of an index for a filter of sent contacts -> its column, what follows, and the rows. Recipients of sends that
refer to no message have no entry."""
PAGE_ORDER = ("creation_time", "id")
FILTERS = {
    "by_email": ("lower(email)", PAGE_ORDER, "email IS NOT NULL"),
    "by_mobile": ("mobile", PAGE_ORDER, "mobile IS NOT NULL"),
    "by_contact": ("contact_id", PAGE_ORDER, "contact_id IS NOT NULL"),
    "by_list": ("list_id", PAGE_ORDER, "list_id IS NOT NULL"),
    "by_group": ("group_id", PAGE_ORDER, None),
    "by_message": ("message_id", PAGE_ORDER, "message_id IS NOT NULL"),
    "by_outcome": ("state", PAGE_ORDER, "state <> 'queued'"),
    "by_send_time": ("sent_time", ("id",), "sent_time IS NOT NULL"),
}
"""Indexes for the filters of the collection of recipients, in the order of its pages: each has the rows of an account
that have a value. A recipient is written twice, so a row gets an entry only once its value is there."""


def _filter_index(name: str, column: str, rest: tuple[str, ...], condition: str | None) -> Index:
    columns = ("account_id", text(column) if "(" in column else column, *rest)
    name = f"ix_recipients_{name}"
    return partial_index(name, *columns, where=condition) if condition else Index(name, *columns)


class Recipient(Base):
    """One recipient of a send: written when it is accepted and once more when it is settled.

    `state` is queued until then, and afterwards sent, delivered, bounced or failed (docs/delivery.md#recipient-states).
    What happens in between is in its queue entry (app/db/models/send_queue.py); reports show both
    (app/recipients/conditions.py). Ids of list, group, message and contact have no foreign keys, because a report
    outlives them. On PostgreSQL in ranges of ids (docs/decisions/019-history-in-ranges.md).
    """

    __tablename__ = "recipients"
    __table_args__ = (
        partial_index(
            "ix_recipients_sent_contacts",
            "message_id",
            "sent_time",
            "contact_id",
            where="message_id IS NOT NULL AND sent_time IS NOT NULL",
        ),
        # A unique index of a table in ranges would have to contain the id, by which the ranges are.
        UniqueConstraint("uuid").ddl_if(dialect="sqlite"),
        Index("ix_recipients_uuid", "uuid").ddl_if(dialect="postgresql"),
        *(
            partial_index(f"ix_recipients_sent_{name}", *("message_id", column, *rest), where=condition)
            for name, (column, rest, condition) in SENT_FILTERS.items()
        ),
        Index("ix_recipients_page", "account_id", *PAGE_ORDER),
        *(_filter_index(name, *parts) for name, parts in FILTERS.items()),
        Index("ix_recipients_send", "send_id"),
        partial_index("ix_recipients_gateway_id", "gateway_id", where="gateway_id IS NOT NULL"),
        partial_index("ix_recipients_last_sms", "mobile", "sent_time", where="type = 'sms' AND sent_time IS NOT NULL"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    uuid: Mapped[Impersonal]
    """Version 4: no two are alike by their 122 random bits. On SQLite a unique index tells so, too."""
    account_id: Mapped[AccountId]
    send_id: Mapped[int] = mapped_column(BigId, ForeignKey("sends.id", ondelete="CASCADE"))
    group_id: Mapped[BigInt]
    message_id: Mapped[BigInt | None]
    list_id: Mapped[BigInt | None]
    contact_id: Mapped[BigInt | None]
    type: Mapped[Impersonal]
    email: Mapped[str | None] = mapped_column(info=personal("recipients"))
    mobile: Mapped[str | None] = mapped_column(info=personal("recipients"))
    values: Mapped[dict[str, Any]] = mapped_column(Json, default=dict, info=personal("recipients"))
    """Wildcard values as text, including numbers. Older rows may contain numbers."""
    state: Mapped[Impersonal]
    reason: Mapped[str | None] = mapped_column(info=personal("recipients"))
    """Why it failed or bounced."""
    creation_time: Mapped[datetime]
    attempts: Mapped[int] = mapped_column(default=0)
    """The number when it was settled."""
    sent_time: Mapped[datetime | None]
    first_open_time: Mapped[datetime | None]
    last_open_time: Mapped[datetime | None]
    open_type: Mapped[Impersonal]
    """`not_opened`, `html`, `text` or `sms`."""
    first_click_time: Mapped[datetime | None]
    rendered_bytes: Mapped[int | None]
    """Size of subject and bodies after rendering."""
    further_visits: Mapped[int] = mapped_column(server_default=text("0"))
    """Opens and clicks beyond those recorded as steps."""
    complaint_time: Mapped[datetime | None]
    segments: Mapped[int | None]
    """Number of parts of a text message."""
    gateway_id: Mapped[str | None] = mapped_column(info=personal("recipients"))
    """The gateway's id of a text message, which its receipts contain."""
    tags: Mapped[list[str] | None] = mapped_column(Json, info=IMPERSONAL)
    """Those of its send (docs/tags.md)."""
    custom_metadata: Mapped[dict[str, str] | None] = mapped_column(Json, info=personal("recipients"))
    """What the API calls `metadata`: that of the send, in which that of the recipient replaces values."""


class RecipientLabel(Base):
    """A tag or an entry of the metadata of a recipient, by which its filter finds the recipient in the order of pages
    (docs/tags.md). A recipient without any has no row here.

    One table on PostgreSQL, too, and not in ranges as the recipients are: a page of a label reads one index. The labels
    of recipients that were dropped with their range are deleted by the hourly cleaning, and find nothing until then.
    """

    __tablename__ = "recipient_labels"
    __table_args__: Any = (
        Index("ix_recipient_labels_page", "account_id", "label", "creation_time", "recipient_id"),
        ForeignKeyConstraint(["recipient_id"], ["recipients.id"], ondelete="CASCADE").ddl_if(dialect="sqlite"),
    )

    recipient_id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    label: Mapped[str] = mapped_column(String, primary_key=True, info=personal("recipients"))
    """As `app.recipients.labels` writes it."""
    account_id: Mapped[AccountId]
    creation_time: Mapped[datetime]
    """That of the recipient."""


class Attachment(Base):
    """A file for all recipients of a send, or for the one in `recipient_id`."""

    __tablename__ = "attachments"
    __table_args__ = (Index("ix_attachments_send", "send_id"), {"sqlite_autoincrement": True})

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    send_id: Mapped[int] = mapped_column(BigId, ForeignKey("sends.id", ondelete="CASCADE"))
    recipient_id: Mapped[BigInt | None]
    position: Mapped[int]
    name: Mapped[str] = mapped_column(info=personal("recipients"))
    mime_type: Mapped[str] = mapped_column(info=personal("recipients"))
    content_id: Mapped[str] = mapped_column(info=personal("recipients"))
    """Without angle brackets, of the form content_<generated id>."""
    content: Mapped[bytes] = mapped_column(LargeBinary, info=personal("recipients"))


class RecipientStep(Base):
    """One step of a recipient's timeline: what happened, when, and the remote server's reply.

    `note` is for the operator alone: it may contain hosts, ports and paths of the installation.

    On PostgreSQL in the same ranges as the recipients (docs/decisions/019-history-in-ranges.md), with neither a foreign
    key to them nor a unique index: a step is written in a transaction that has read its recipient, and a range is
    dropped with its steps under a lock that waits for all such transactions. The ids come from a sequence.
    """

    __tablename__ = "recipient_steps"
    __table_args__ = (
        Index("ix_recipient_steps_recipient", "recipient_id", "id"),
        ForeignKeyConstraint(["recipient_id"], ["recipients.id"], ondelete="CASCADE").ddl_if(dialect="sqlite"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    recipient_id: Mapped[BigInt]
    time: Mapped[datetime]
    step: Mapped[Impersonal]
    detail: Mapped[str | None] = mapped_column(info=personal("recipients"))
    note: Mapped[str | None] = mapped_column(info=personal("recipients"))
    transport: Mapped[Impersonal | None]
    """Name of the transport that was used; null: the one in the settings, or none at all."""
    country: Mapped[str | None] = mapped_column(info=personal("recipients"))
    """The ISO 3166 alpha-2 code, for an open or a click by a person, where it is known."""
