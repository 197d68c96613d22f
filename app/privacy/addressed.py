"""Places whose rows have the address of a person in a column with an index: contacts, suppressions, and the small ones.

Of suppressions the address goes, a digest stays where it had opted out or was blocked, so that nothing sends to it when
a file brings it back (docs/privacy.md#what-is-kept).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from app.clock import this_second
from app.contacts.blocked import COMPLAINT, PERMANENT_BOUNCE, TEMPORARY_BOUNCES
from app.contacts.delete import delete_contacts
from app.contacts.subscriptions import SUBSCRIBED_COLUMNS, lock_subscriptions
from app.db.address_forms import find_digests
from app.db.bulk import insert_new_rows
from app.db.database import Transaction
from app.db.expressions import between_ids, in_json
from app.db.models import (
    Account,
    BlockedAddress,
    CapturedMessage,
    Contact,
    DigestKey,
    List,
    Recipient,
    RecipientStep,
    ReplyPart,
    Send,
    SoftBounces,
    Unsubscriber,
    table_of,
)
from app.db.pages import pages_of
from app.infrastructure.digests import new_digest_key
from app.lists.find import get_list
from app.privacy.files import files_of, folders_of_transports
from app.privacy.person import Person
from app.privacy.place import (
    Eraser,
    Rows,
    delete_rows,
    emptied,
    place_of_addresses,
    place_of_rows,
    rows_with_address,
    shown_row,
    with_address,
)
from app.services import Services

SERVICE_REASONS = (PERMANENT_BOUNCE, TEMPORARY_BOUNCES, COMPLAINT)
"""Reasons that are our words; any other may have been written about the person."""
OTHER_REASON = "blocked"
_UNSYNCHRONIZED = {"synchronize_session": False}


ADDRESS_COLUMNS_OF_SEND = tuple(emptied(Send, "named_in_sends"))
"""Columns of a send with the address for replies or for a blind copy."""


def _sends_naming(session: Session, person: Person) -> Iterator[Rows]:
    """Sends with the address, page by page, each of the columns by its index; a send may come twice."""
    if person.kind != "email":
        return
    columns: tuple[Any, ...] = (Send.id, Send.creation_time, *(getattr(Send, name) for name in ADDRESS_COLUMNS_OF_SEND))
    for column in columns[2:]:
        key = func.lower(column)
        named = Send.account_id == person.account_id, key.in_(person.forms), column.is_not(None)
        yield from pages_of(session, select(*columns).where(*named), (Send.account_id, key, Send.id))


def _remove_from_sends(transaction: Transaction, services: Services, person: Person, rows: Rows) -> int:
    """Removes the address from the sends, and what is left of their blind copies to it."""
    columns, ids = table_of(Send).c, [row.id for row in rows]
    _remove_copies(transaction, services, person, ids)
    for name in ADDRESS_COLUMNS_OF_SEND:
        chosen = in_json(columns.id, ids), func.lower(columns[name]).in_(person.forms)
        transaction.connection().execute(update(table_of(Send)).where(*chosen).values({name: None}))
    return len(rows)


def _remove_copies(transaction: Transaction, services: Services, person: Person, send_ids: Sequence[int]) -> None:
    """Deletes the files of blind copies to the person, and the texts of timelines that name it because a relay has
    refused one. The messages themselves stay: they are those of others."""
    copied = in_json(Send.id, send_ids), func.lower(Send.bcc_address).in_(person.forms)
    statement = select(Recipient.id, Recipient.uuid).join(Send, Send.id == Recipient.send_id).where(*copied)
    recipients, folders = transaction.execute(statement).all(), folders_of_transports(transaction, services.settings)
    for path in (path for row in recipients for path in files_of(folders, f"{row.uuid}-bcc")):
        path.unlink(missing_ok=True)
    columns, ids = table_of(RecipientStep).c, [row.id for row in recipients]
    written = in_json(columns.recipient_id, ids), between_ids(columns.recipient_id, ids), columns.detail.is_not(None)
    steps = transaction.execute(select(columns.id, columns.detail).where(*written)).all()
    named = in_json(columns.id, [step.id for step in steps if person.is_named_in(step.detail)])
    transaction.connection().execute(update(table_of(RecipientStep)).where(*written, named).values(detail=None))


def _blind_copies(session: Session, person: Person) -> Iterator[Rows]:
    """The captured copies, without their content, which was written to somebody else."""
    names = "id", "captured_time", "sender", "address", "subject"
    columns = table_of(CapturedMessage).c
    copies = select(*(columns[name] for name in names)).where(*with_address(CapturedMessage, person), columns.is_copy)
    yield session.execute(copies.order_by(columns.id)).all()


# Contacts.


def _contacts(session: Session, person: Person) -> list[Rows]:
    """The contacts that have the address, each with the name of its list."""
    statement = select(List.name.label("list"), table_of(Contact)).join(List, List.id == Contact.list_id)
    return [session.execute(statement.where(*with_address(Contact, person)).order_by(Contact.id)).all()]


def _forget_contacts(transaction: Transaction, services: Services, person: Person, rows: Rows) -> int:
    """Deletes them, with their events and the ends of their runs. If the address is unsubscribed or blocked, that is
    kept in the same transaction."""
    _keep_as_digests(transaction, services, person, rows)
    by_list: dict[int, list[int]] = defaultdict(list)
    chosen = in_json(Contact.id, person.contact_ids), *with_address(Contact, person)
    for list_id, contact_id in transaction.execute(select(Contact.list_id, Contact.id).where(*chosen)):
        by_list[list_id].append(contact_id)
    lists = [(get_list(transaction, person.account_id, list_id), ids) for list_id, ids in sorted(by_list.items())]
    return sum(
        delete_contacts(transaction, contact_list, ids, allow_system=True, has_entry=True)
        for contact_list, ids in lists
    )


# Suppressions.


def unsubscribed(session: Session, person: Person) -> Rows:
    """From which lists, None for the whole account, and since when."""
    return rows_with_address(session, person, Unsubscriber, "list_id", "creation_time")


def blocked(session: Session, person: Person) -> Rows:
    """Why and by which reply, and since when."""
    return rows_with_address(session, person, BlockedAddress, "reason", "reply", "creation_time")


def _unsubscribed_lists(session: Session, person: Person) -> set[int]:
    """Lists with a contact that is marked as unsubscribed, whether there is an entry or not."""
    is_unsubscribed = SUBSCRIBED_COLUMNS[person.kind].is_(False)
    lists = select(Contact.list_id).where(*with_address(Contact, person), is_unsubscribed).distinct()
    return set(session.scalars(lists))


def _prepare_digests(eraser: Eraser, person: Person) -> None:
    """If the address is unsubscribed or blocked: makes the key if there is none, and marks the account as one that has
    digests. In a transaction of its own, some time before the first digest, because a request that has begun before
    would not look for it."""
    with eraser.services.database.read() as session:
        if not (unsubscribed(session, person) or blocked(session, person) or _unsubscribed_lists(session, person)):
            return
    eraser.take(1, _make_digests_known, eraser.services.settings.secret_key, person.account_id)


def _make_digests_known(transaction: Transaction, secret_key: str, account_id: int) -> None:
    insert_new_rows(transaction, DigestKey, [{"id": 1, "key": new_digest_key(secret_key)}])
    marked = update(Account).where(Account.id == account_id, ~Account.has_digests).values(has_digests=True)
    transaction.execute(marked, execution_options=_UNSYNCHRONIZED)


def _keep_as_digests(transaction: Transaction, _services: Services, person: Person, _rows: Rows) -> int:
    """Puts the digest in the place of the address, also where its contacts are unsubscribed; returns from how many
    lists (or the account) it is, and whether it is blocked."""
    lock_subscriptions(transaction, person.account_id)
    digests = find_digests(transaction, [person.address])
    lists = {row.list_id for row in unsubscribed(transaction, person)}
    if None not in lists:
        lists |= _unsubscribed_lists(transaction, person)
    reasons = [row.reason for row in blocked(transaction, person)]
    for model in (Unsubscriber, BlockedAddress):
        transaction.execute(delete(model).where(*with_address(model, person)), execution_options=_UNSYNCHRONIZED)
    if not digests:
        return 0
    written = next(iter(digests))  # that of the normalized form
    common: dict[str, Any] = {"account_id": person.account_id, "kind": person.kind, "creation_time": this_second()}
    insert_new_rows(
        transaction, Unsubscriber, [{**common, "address": written, "list_id": list_id} for list_id in lists]
    )
    if reasons:
        insert_new_rows(transaction, BlockedAddress, [{**common, "address": written, "reason": _kept_reason(reasons)}])
    return len(lists) + len(reasons)


def _kept_reason(reasons: Sequence[str]) -> str:
    """The reason that weighs most, of those of an address that was blocked in several forms."""
    reason = COMPLAINT if COMPLAINT in reasons else reasons[0]
    return reason if reason in SERVICE_REASONS else OTHER_REASON


def kept_digests(session: Session, person: Person) -> dict[str, int]:
    """How many entries are kept under the digests of the address, whatever its form was."""
    digests = list(find_digests(session, [person.address]))
    columns: dict[str, tuple[Any, Any]] = {
        "unsubscribed": (Unsubscriber, func.coalesce(Unsubscriber.list_id, 0)),
        "blocked": (BlockedAddress, BlockedAddress.kind),
    }
    return {
        state: session.scalar(select(func.count(entry.distinct())).where(*with_address(model, person, digests))) or 0
        for state, (model, entry) in columns.items()
    }


# As places.

SMALL_PLACES = (
    place_of_addresses(
        "parts_of_replies",
        "parts of long replies by text message",
        ReplyPart,
        *("id", "number", "mobile", "time", "body"),
    ),
    place_of_addresses(
        "soft_bounces",
        "the count of soft bounces",
        SoftBounces,
        *("id", "address", "bounces"),
        noun="counts of bounces",
    ),
    place_of_rows(
        "blind_copies",
        "blind copies for the person of messages to others, as far as test keys have captured them",
        _blind_copies,
        lambda transaction, _services, _person, rows: delete_rows(
            transaction, table_of(CapturedMessage).c.id, [row.id for row in rows]
        ),
    ),
    place_of_rows(
        "named_in_sends",
        "sends to others with the address for replies or for a blind copy",
        _sends_naming,
        _remove_from_sends,
        noun="sends that named the address",
    ),
)
CONTACTS = place_of_rows(
    "contacts",
    "contacts with their list fields",
    _contacts,
    _forget_contacts,
    show=lambda row: shown_row(row, "account_id", "email_key", "identifier"),
    prepare=_prepare_digests,
)
SUPPRESSIONS = place_of_rows(
    "suppressions",
    "unsubscribed and blocked addresses",
    lambda session, person: [[*unsubscribed(session, person), *blocked(session, person)]],
    _keep_as_digests,
    show=lambda row: {"state": "blocked" if "reason" in row._fields else "unsubscribed", **shown_row(row)},
    prepare=_prepare_digests,
)
