"""Suppressions of a person: the address goes, a digest stays where it had opted out or was blocked, so that nothing
sends to it when a file brings it back (docs/privacy.md#what-is-kept)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, delete, func, select, update
from sqlalchemy.orm import Session

from app.clock import this_second
from app.contacts.blocked import COMPLAINT, PERMANENT, TEMPORARY
from app.contacts.subscriptions import ADDRESS_COLUMNS, SUBSCRIBED_COLUMNS, lock_subscriptions
from app.db.address_forms import find_digests
from app.db.bulk import insert_new_rows
from app.db.database import Transaction
from app.db.models import Account, BlockedAddress, Contact, DigestKey, Unsubscriber
from app.infrastructure.digests import new_digest_key
from app.privacy.person import Person

OWN_REASONS = (PERMANENT, TEMPORARY, COMPLAINT)
"""Reasons that are our words; any other may have been written about the person."""
OTHER_REASON = "blocked"
_UNSYNCHRONIZED = {"synchronize_session": False}


def unsubscribed_entries(session: Session, person: Person) -> Sequence[Row[Any]]:
    """Where the address is unsubscribed: the list, None for the whole account, and since when."""
    columns: tuple[Any, ...] = (Unsubscriber.list_id, Unsubscriber.creation_time)
    statement = select(*columns).where(*_of(Unsubscriber, person))
    return session.execute(statement.order_by(Unsubscriber.id)).all()


def blocked_entries(session: Session, person: Person) -> Sequence[Row[Any]]:
    """Why and by which reply the address is blocked, and since when."""
    columns: tuple[Any, ...] = (BlockedAddress.reason, BlockedAddress.reply, BlockedAddress.creation_time)
    statement = select(*columns).where(*_of(BlockedAddress, person))
    return session.execute(statement.order_by(BlockedAddress.id)).all()


def needs_digest(session: Session, person: Person) -> bool:
    """Whether the address is unsubscribed or blocked."""
    entries = unsubscribed_entries(session, person) or blocked_entries(session, person)
    return bool(entries or _unsubscribed_contacts(session, person))


def make_digests_known(transaction: Transaction, secret_key: str, account_id: int) -> None:
    """Makes the key if there is none, and marks the account as one that has digests: in a transaction of its own, some
    time before the first digest, because a request that has begun before would not look for it."""
    row = {"id": 1, "key": new_digest_key(secret_key)}
    insert_new_rows(transaction, DigestKey, [row])
    marked = update(Account).where(Account.id == account_id, ~Account.has_digests).values(has_digests=True)
    transaction.execute(marked, execution_options=_UNSYNCHRONIZED)


def keep_as_digests(transaction: Transaction, person: Person) -> tuple[int, int]:
    """Puts the digest in the place of the address; returns how many lists (or the account) it is unsubscribed from,
    and whether it is blocked."""
    lock_subscriptions(transaction, person.account_id)
    digests = find_digests(transaction, [person.address])
    lists = {row.list_id for row in unsubscribed_entries(transaction, person)}
    if None not in lists:
        lists |= set(_unsubscribed_contacts(transaction, person))
    blocked = blocked_entries(transaction, person)
    for model in (Unsubscriber, BlockedAddress):
        transaction.execute(delete(model).where(*_of(model, person)), execution_options=_UNSYNCHRONIZED)
    if not digests or not (lists or blocked):
        return 0, 0
    written = next(iter(digests))  # that of the normalized form
    common: dict[str, Any] = {"account_id": person.account_id, "kind": person.kind, "creation_time": this_second()}
    unsubscribed = [{**common, "address": written, "list_id": one} for one in lists]
    insert_new_rows(transaction, Unsubscriber, unsubscribed)
    if blocked:
        reason = _kept_reason([row.reason for row in blocked])
        insert_new_rows(transaction, BlockedAddress, [{**common, "address": written, "reason": reason}])
    return len(lists), len(blocked)


def _kept_reason(reasons: Sequence[str]) -> str:
    """Of an address that was blocked in several forms, the one that weighs most."""
    reason = COMPLAINT if COMPLAINT in reasons else reasons[0]
    return reason if reason in OWN_REASONS else OTHER_REASON


def _unsubscribed_contacts(session: Session, person: Person) -> list[int]:
    """Lists with a contact that is marked as unsubscribed, whether there is an entry or not."""
    flag = SUBSCRIBED_COLUMNS[person.kind]
    of_person = Contact.account_id == person.account_id, ADDRESS_COLUMNS[person.kind].in_(person.forms)
    return list(session.scalars(select(Contact.list_id).where(*of_person, flag.is_(False)).distinct()))


def _of(model: type[Unsubscriber] | type[BlockedAddress], person: Person) -> tuple[Any, ...]:
    return model.account_id == person.account_id, model.kind == person.kind, model.address.in_(person.forms)


def kept_digests(session: Session, person: Person) -> dict[str, int]:
    """How many entries are kept under the digests of the address, whatever its form was."""
    digests = list(find_digests(session, [person.address]))
    columns: dict[str, tuple[Any, Any]] = {
        "unsubscribed": (Unsubscriber, func.coalesce(Unsubscriber.list_id, 0)),
        "blocked": (BlockedAddress, BlockedAddress.kind),
    }
    counts = {}
    for state, (model, entry) in columns.items():
        of_digest = model.account_id == person.account_id, model.kind == person.kind, model.address.in_(digests)
        counts[state] = session.scalar(select(func.count(entry.distinct())).where(*of_digest)) or 0
    return counts
