"""Erasing content and recipients, the same whoever asks for it: the caller knows that it may be done.

What is erased is gone: nothing here can be undone. Counts of groups stay.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import delete, update

from app.db.database import Transaction
from app.db.expressions import between_ids, in_json
from app.db.models import Attachment, Recipient, RecipientStep, Send, table_of

NO_CONTENT = {"subject": None, "body_html": None, "body_text": None}
"""Columns of a send without its content. The blind copy's address stays, by which reports about the copy are known."""


def empty_values(transaction: Transaction, recipient_ids: Collection[int]) -> None:
    """Removes the wildcard values of the recipients; those without any are not written."""
    columns = table_of(Recipient).c
    chosen = in_json(columns.id, recipient_ids), between_ids(columns.id, recipient_ids)
    statement = update(table_of(Recipient)).where(*chosen, columns["values"] != {})
    transaction.connection().execute(statement.values({"values": {}}))


def delete_content(
    transaction: Transaction, send_ids: Collection[int], recipient_ids: Collection[int], moment: datetime
) -> None:
    """Removes the content of sends: bodies, attachments, and the values of all of their recipients. Targets of tracked
    links stay."""
    empty_values(transaction, recipient_ids)
    connection, sends, attachments = transaction.connection(), table_of(Send).c, table_of(Attachment).c
    connection.execute(delete(table_of(Attachment)).where(in_json(attachments.send_id, send_ids)))
    values = {**NO_CONTENT, "content_purged_time": moment}
    connection.execute(update(table_of(Send)).where(in_json(sends.id, send_ids)).values(values))


def delete_sends(transaction: Transaction, send_ids: Collection[int], recipient_ids: Collection[int]) -> None:
    """Deletes sends with all of their recipients, timelines, attachments and links."""
    connection, sends = transaction.connection(), table_of(Send).c
    for column in (table_of(RecipientStep).c.recipient_id, table_of(Recipient).c.id):
        chosen = in_json(column, recipient_ids), between_ids(column, recipient_ids)
        connection.execute(delete(column.table).where(*chosen))
    connection.execute(delete(table_of(Send)).where(in_json(sends.id, send_ids)))
