"""Messages to a person, and sends that name one, as places."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Row, func, select, update
from sqlalchemy.orm import Session

from app.db.database import Transaction
from app.db.expressions import between_ids, in_json
from app.db.models import Attachment, CapturedMessage, Recipient, RecipientStep, Send, table_of
from app.db.pages import pages_of
from app.privacy.files import files_of, message_folders
from app.privacy.person import Person
from app.privacy.place import Eraser, Pages, Shown, shown_rows
from app.privacy.recipients import erase_recipients, lock_received
from app.recipients.conditions import has_been_forgotten
from app.sends.outcomes.transitions import RetryRules
from app.sends.secret_values import MASK, may_have_secrets
from app.services import Services

READ = 20
"""Messages that are read at once, with their attachments."""
_OF_SEND = ("group_name", "subject", "from_name", "from_address", "body_html", "body_text", "content_purged_time")


def read_received(services: Services, session: Session, person: Person) -> Pages:
    """The messages, each with its timeline, its content and what test keys have captured."""
    folders, seen = message_folders(services), set[int]()
    for which in person.received:
        columns = (*table_of(Recipient).c, *(table_of(Send).c[name] for name in _OF_SEND))
        statement = select(*columns).join(Send, Send.id == Recipient.send_id)
        of_person = Recipient.account_id == person.account_id, which, ~has_been_forgotten()
        order = Recipient.creation_time, Recipient.id
        for page in pages_of(session, statement.where(*of_person), order, size=READ):
            fresh = [row for row in page if row.id not in seen]
            seen.update(row.id for row in fresh)
            if fresh:
                yield _with_details(session, fresh, folders)


def _with_details(session: Session, rows: Sequence[Row[Any]], folders: Any) -> list[Shown]:
    ids = [row.id for row in rows]
    steps = _by_recipient(session, RecipientStep, ids, "account_id", "recipient_id")
    captured = _by_recipient(session, CapturedMessage, ids, "account_id", "recipient_id")
    attachments = _attachments(session, {row.send_id for row in rows})
    hidden = "account_id", "place_0", "place_1", "content_purged_time"
    return [
        {
            **shown,
            "values": {name: MASK if value is None else value for name, value in row._mapping["values"].items()},
            "timeline": steps[row.id],
            "attachments": [*attachments[row.send_id, None], *attachments[row.send_id, row.id]],
            "captured": _without_secrets(row, captured[row.id]),
            "files": [str(path) for path in files_of(folders, row.uuid)],
        }
        for row, shown in zip(rows, shown_rows(rows, *hidden), strict=True)
    ]


def _without_secrets(recipient: Row[Any], captured: Iterable[Shown]) -> list[Shown]:
    """What was captured, without the content of a message that may have secret values."""
    secret = may_have_secrets(recipient._mapping["values"], recipient.content_purged_time)
    return [{**one, "content": MASK} if secret else one for one in captured]


def _by_recipient(session: Session, model: Any, ids: Sequence[int], *hidden: str) -> Mapping[int, list[Shown]]:
    columns = table_of(model).c
    chosen = in_json(columns.recipient_id, ids), between_ids(columns.recipient_id, ids)
    rows = session.execute(select(table_of(model)).where(*chosen).order_by(columns.id)).all()
    found: dict[int, list[Shown]] = defaultdict(list)
    for row, shown in zip(rows, shown_rows(rows, *hidden), strict=True):
        found[row.recipient_id].append(shown)
    return found


def _attachments(session: Session, send_ids: Iterable[int]) -> Mapping[tuple[int, int | None], list[Shown]]:
    columns: list[Any] = [Attachment.send_id, Attachment.recipient_id]
    columns += [Attachment.name, Attachment.mime_type, Attachment.content]
    statement = select(*columns).where(in_json(Attachment.send_id, send_ids))
    rows = session.execute(statement.order_by(Attachment.position, Attachment.id)).all()
    found: dict[tuple[int, int | None], list[Shown]] = defaultdict(list)
    for row, shown in zip(rows, shown_rows(rows, "send_id", "recipient_id"), strict=True):
        found[row.send_id, row.recipient_id].append(shown)
    return found


def erase_received(eraser: Eraser, person: Person) -> Mapping[str, int]:
    """Erases the messages that are not being handed over at this moment, and drops those that wait."""
    total: Counter[str] = Counter()
    folders, rules = message_folders(eraser.services), RetryRules.of(eraser.services.settings)

    def work(transaction: Transaction, which: ColumnElement[bool], size: int) -> Counter[str]:
        rows = lock_received(transaction, person, which, size)
        if not rows:
            return Counter()
        files = [path for row in rows for path in files_of(folders, row.uuid)]
        for path in files:
            path.unlink(missing_ok=True)
        erased = erase_recipients(transaction, rules, rows)
        return Counter(
            {
                **{"recipients": erased.erased, "messages not sent": erased.dropped, "files": len(files)},
                **{"captured messages": erased.captured, "contents of sends": erased.sends},
            }
        )

    for which in person.received:
        while found := eraser.take(size := eraser.turns.size, partial(work, which=which, size=size)):
            total += found
    return total


def read_replied(_services: Services, session: Session, person: Person) -> Pages:
    """Sends with the address for replies or for a blind copy."""
    for rows in _named_in_sends(session, person):
        yield shown_rows(rows)


def erase_replied(eraser: Eraser, person: Person) -> Mapping[str, int]:
    """Removes the address from the sends."""
    erased = 0
    with eraser.services.database.read() as session:
        for rows in _named_in_sends(session, person):
            eraser.take(len(rows), partial(_remove_from_sends, person=person, ids=[row.id for row in rows]))
            erased += len(rows)
    return {"sends that named the address": erased}


def _named_in_sends(session: Session, person: Person) -> Iterable[Sequence[Row[Any]]]:
    """Page by page, each of the two columns by its index; a send may come twice."""
    if person.kind != "email":
        return
    columns: tuple[Any, ...] = (Send.id, Send.creation_time, Send.reply_to, Send.bcc_address)
    for column in (Send.reply_to, Send.bcc_address):
        key = func.lower(column)
        named = Send.account_id == person.account_id, key.in_(person.forms), column.is_not(None)
        yield from pages_of(session, select(*columns).where(*named), (Send.account_id, key, Send.id))


def _remove_from_sends(transaction: Transaction, person: Person, ids: Sequence[int]) -> None:
    columns = table_of(Send).c
    for name in ("reply_to", "bcc_address"):
        chosen = in_json(columns.id, ids), func.lower(columns[name]).in_(person.forms)
        transaction.connection().execute(update(table_of(Send)).where(*chosen).values({name: None}))
