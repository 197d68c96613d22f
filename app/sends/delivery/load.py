"""Reading everything that a chunk of claimed recipients needs, in a fixed number of selects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Select,
    String,
    bindparam,
    case,
    exists,
    func,
    literal_column,
    not_,
    null,
    or_,
    select,
    union_all,
)
from sqlalchemy.orm import Session

from app.addresses import domain_of
from app.db.engine import release_after
from app.db.in_json import in_json, json_array
from app.db.models import Account, Attachment, BlockedAddress, DkimKey, Domain, ListField, Send, Unsubscriber
from app.db.prepared import Prepared
from app.lists.fields import ADDRESS_KEYS
from app.sends.delivery.bounds import RenderQuota
from app.sends.delivery.claim import ClaimedRecipient
from app.sends.delivery.compose import Addressee, CompiledMessage, SendContent
from app.sends.delivery.contact_values import GIVES_WAY
from app.sends.delivery.contacts import contacts_of
from app.sends.delivery.sign import StoredKey
from app.sends.delivery.suppression import ContactState, Suppressions, Target, destination, skip_reason, target
from app.tracking.stored_links import find_links
from app.transports.email import mime


def _parameter(name: str) -> BindParameter[Any]:
    return bindparam(name, type_=String)


def _entries_on(model: type[BlockedAddress | Unsubscriber], list_id: Any) -> Select[Any]:
    """Entries whose account and address occur among those asked for, if not always together."""
    what: ColumnElement[str] = literal_column(f"'{model.__tablename__}'").label("what")
    return select(what, model.account_id, model.kind, model.address, list_id.label("list_id")).where(
        in_json(model.account_id, _parameter("accounts")),
        in_json(model.kind, _parameter("kinds")),
        in_json(model.address, _parameter("addresses")),
    )


# Fields of the list that attributes of its contacts give way to.
_SHADOWING = (
    select(func.sum(case(GIVES_WAY, value=ListField.key, else_=0)))
    .where(ListField.list_id == Send.list_id, not_(in_json(ListField.type, ADDRESS_KEYS)))
    .scalar_subquery()
)
_NOT_OF_SENDS = {"time_zone": Account.time_zone, "shadowing": _SHADOWING}
_COLUMNS: list[Any] = [_NOT_OF_SENDS.get(one.name, Send.__table__.c.get(one.name)) for one in fields(SendContent)]


# Built once: to build them takes longer than to run them, and every message waits for all of them.
_OF_SENDS = in_json(Attachment.send_id, _parameter("send_ids"))
FILES = Prepared(
    select(
        Attachment.send_id,
        Attachment.recipient_id,
        Attachment.name,
        Attachment.mime_type,
        Attachment.content,
        Attachment.content_id,
    )
    .where(
        _OF_SENDS, or_(Attachment.recipient_id.is_(None), in_json(Attachment.recipient_id, _parameter("recipients")))
    )
    .order_by(Attachment.position, Attachment.id)
)
SENDS = Prepared(
    select(
        *_COLUMNS,
        exists().where(Attachment.send_id == Send.id).label("has_files"),
    )
    .join(Account, Account.id == Send.account_id)
    .where(in_json(Send.id, _parameter("send_ids")))
)
KEYS = Prepared(
    select(Domain.account_id, DkimKey.id, Domain.name, DkimKey.selector, DkimKey.private_key)
    .join(Domain, Domain.id == DkimKey.domain_id)
    .where(in_json(Domain.account_id, _parameter("accounts")), in_json(Domain.name, _parameter("domains")))
    .order_by(DkimKey.algorithm.desc(), DkimKey.id)
)
_UNSUBSCRIBED = _entries_on(Unsubscriber, Unsubscriber.list_id)
# Entries of a list and account-wide ones have an index each: asked for apart, both are found by it.
ENTRIES = Prepared(
    union_all(
        _entries_on(BlockedAddress, null()),
        _UNSUBSCRIBED.where(Unsubscriber.list_id.is_not(None)),
        _UNSUBSCRIBED.where(Unsubscriber.list_id.is_(None)),
    )
)


class PreparedRecipient(NamedTuple):
    """A recipient ready to be rendered and sent; with a `skip` reason it is not sent to."""

    recipient: ClaimedRecipient
    letter: CompiledMessage
    addressee: Addressee
    skip: str | None
    is_large: bool
    """Whether it takes long to make the message."""
    allowance: RenderQuota | None = None
    """What the message is counted against, where its send can reach its bound."""


def load(session: Session, claimed: Sequence[ClaimedRecipient]) -> list[PreparedRecipient]:
    """A parcel for each claimed recipient, in the same order; six selects at most, three where nothing is tracked or
    attached and nobody is a contact."""
    contacts = contacts_of(session, claimed)
    suppressions = _suppressions(session, claimed, contacts)
    sends, with_files = _sends(session, claimed)
    keys = _keys(session, claimed, sends)
    links = find_links(session, [send.id for send in sends if send.track_clicks])
    shared_files, own_files = _files(session, claimed, with_files)
    letters = {send.id: CompiledMessage(send, shared_files[send.id], keys[send.id], links[send.id]) for send in sends}
    return [
        _parcel(one, letters[one.send_id], contacts.get(one.id), suppressions, own_files[one.id]) for one in claimed
    ]


def _parcel(
    recipient: ClaimedRecipient,
    letter: CompiledMessage,
    contact: ContactState | None,
    suppressions: Suppressions,
    files: Sequence[mime.EncodedAttachment],
) -> PreparedRecipient:
    skip = skip_reason(recipient, contact, suppressions, include_unsubscribed=letter.send.include_unsubscribed)
    address = destination(recipient, contact) or ""
    addressee = Addressee(recipient.id, recipient.uuid, address, contact, recipient.values, files)
    return PreparedRecipient(recipient, letter, addressee, skip, letter.sizes.is_large(_known(recipient, contact)))


def _known(recipient: ClaimedRecipient, contact: ContactState | None) -> Iterable[object]:
    return (*recipient.values.values(), *(contact.values.values() if contact else ()))


def _sends(session: Session, claimed: Iterable[ClaimedRecipient]) -> tuple[list[SendContent], set[int]]:
    """The sends, and which of them have attachments."""
    rows = SENDS.rows(session, send_ids=json_array({one.send_id for one in claimed}))
    return [SendContent(*row[:-1]) for row in rows], {row.id for row in rows if row.has_files}


def _keys(
    session: Session, claimed: Iterable[ClaimedRecipient], sends: Iterable[SendContent]
) -> dict[int, Sequence[StoredKey]]:
    """The keys of each send, RSA first, because that is what every receiver can check; one select."""
    accounts = {one.send_id: one.account_id for one in claimed}
    senders = {send.id: (accounts[send.id], domain_of(send.from_address)) for send in sends}
    wanted = {
        "accounts": json_array(set(accounts.values())),
        "domains": json_array({name for _, name in senders.values()}),
    }
    found: dict[tuple[int, str], list[StoredKey]] = defaultdict(list)
    for account_id, key_id, domain, selector, private_key in KEYS.rows(session, **wanted):
        found[account_id, domain].append(StoredKey(key_id, domain, selector, private_key))
    return {send_id: found.get(sender, ()) for send_id, sender in senders.items()}


def _suppressions(
    session: Session, claimed: Iterable[ClaimedRecipient], contacts: dict[int, ContactState]
) -> Suppressions:
    """The entries on the addresses of these recipients; one select."""
    targets = {to for one in claimed if (to := target(one, contacts.get(one.id)))}
    wanted = {
        "accounts": json_array({to.account_id for to in targets}),
        "kinds": json_array({to.kind for to in targets}),
        "addresses": json_array({to.address for to in targets}),
    }
    entries = ENTRIES.tuples(session, **wanted)
    return Suppressions(
        blocked=frozenset(Target(*found) for what, *found, _ in entries if what == BlockedAddress.__tablename__),
        unsubscribed=frozenset(
            (Target(*found), list_id) for what, *found, list_id in entries if what == Unsubscriber.__tablename__
        ),
    )


def _files(
    session: Session, claimed: Sequence[ClaimedRecipient], with_files: Collection[int]
) -> tuple[dict[int, list[mime.EncodedAttachment]], dict[int, list[mime.EncodedAttachment]]]:
    """Attachments by send, and those of single recipients by recipient, each in the order of the request."""
    shared: dict[int, list[mime.EncodedAttachment]] = defaultdict(list)
    own: dict[int, list[mime.EncodedAttachment]] = defaultdict(list)
    if not with_files:
        return shared, own
    wanted = {
        "send_ids": json_array(with_files),
        "recipients": json_array([one.id for one in claimed if one.send_id in with_files]),
    }
    total = 0
    for send_id, recipient_id, name, mime_type, content, content_id in FILES.rows(session, **wanted):
        total += len(content)
        encoded = mime.encode_attachment(mime.Attachment(name, mime_type, content, content_id))
        if recipient_id is None:
            shared[send_id].append(encoded)
        else:
            own[recipient_id].append(encoded)
    release_after(session, total)
    return shared, own
