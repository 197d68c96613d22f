"""Loading everything that a batch of claimed recipients needs, in a fixed number of selects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import BindParameter, String, and_, bindparam, case, exists, func, not_, or_, select
from sqlalchemy.orm import Session

from app.addresses import AccountAddress, domain_of
from app.contacts.row import HIDEABLE_ATTRIBUTES, ContactRow
from app.db.engine import release_after
from app.db.expressions import in_json, json_array
from app.db.models import Account, Attachment, DkimKey, Domain, ListField, QueueEntry, RelayRefusal, Send
from app.db.prepared import PreparedStatement
from app.infrastructure.tracing import span
from app.lists.fields import ADDRESS_KEYS
from app.recipients.states import FailReason, MissingRequirement
from app.routing.table import VERSION
from app.secret_keys import SecretKeys, SecretUnreadable
from app.sends.delivery.recipient import (
    ClaimedRecipient,
    CompiledMessage,
    SendContent,
    SendingDomain,
    StoredKey,
)
from app.sends.outcomes.relay_refusals import IS_NOTICED
from app.sends.secret_values import SecretValues
from app.sends.skipping import Suppressions, delivery_address, load_contacts, load_suppressions, skips, suppression_key
from app.settings import Settings
from app.tracking.links import find_links
from app.tracking.sender_hosts import NO_HOSTS, SenderHosts
from app.transports.email import mime


def _parameter(name: str) -> BindParameter[Any]:
    return bindparam(name, type_=String)


# Attributes of contacts that fields of the list hide.
_HIDDEN_ATTRIBUTES = (
    select(func.sum(case(HIDEABLE_ATTRIBUTES, value=ListField.key, else_=0)))
    .where(ListField.list_id == Send.list_id, not_(in_json(ListField.type, ADDRESS_KEYS)))
    .scalar_subquery()
)
_JOINED_COLUMNS = {
    "begin_time": func.coalesce(Send.send_at, Send.creation_time),
    "time_zone": Account.time_zone,
    "owner_confirmed": Account.owner_confirmed,
    "is_test": Account.test_of.is_not(None),
    "has_digests": Account.has_digests,
    "hidden_attributes": _HIDDEN_ATTRIBUTES,
    "relay_refuses": exists().where(RelayRefusal.account_id == Send.account_id, *IS_NOTICED),
    "routing_version": VERSION.label("routing_version"),
}
_COLUMNS: list[Any] = [
    _JOINED_COLUMNS.get(field.name, Send.__table__.c.get(field.name)) for field in fields(SendContent)
]


# Built once: building them takes longer than running them, and every message waits for all of them.
_SEND_FILTER = in_json(Attachment.send_id, _parameter("send_ids"))
ATTACHMENTS = PreparedStatement(
    select(
        Attachment.send_id,
        Attachment.recipient_id,
        Attachment.name,
        Attachment.mime_type,
        Attachment.content,
        Attachment.content_id,
    )
    .where(
        _SEND_FILTER, or_(Attachment.recipient_id.is_(None), in_json(Attachment.recipient_id, _parameter("recipients")))
    )
    .order_by(Attachment.position, Attachment.id)
)
SENDS = PreparedStatement(
    select(
        *_COLUMNS,
        exists().where(Attachment.send_id == Send.id).label("has_attachments"),
    )
    .join(Account, Account.id == Send.account_id)
    .where(in_json(Send.id, _parameter("send_ids")))
)
DOMAINS = PreparedStatement(
    select(
        Domain.account_id,
        Domain.name,
        Domain.verified_time.is_not(None),
        case((Domain.tracking_host_ready, Domain.tracking_host)),
        case((Domain.return_path_host_ready, Domain.return_path_host)),
        DkimKey.id,
        DkimKey.selector,
        DkimKey.private_key,
    )
    .outerjoin(DkimKey, and_(DkimKey.domain_id == Domain.id, DkimKey.state == "active"))
    .where(
        in_json(Domain.account_id, _parameter("accounts")),
        in_json(Domain.name, _parameter("domains")),
    )
    .order_by(DkimKey.algorithm.desc(), DkimKey.id)
)


STORED_SECRET_VALUES = PreparedStatement(
    select(QueueEntry.recipient_id, QueueEntry.secret_values).where(
        in_json(QueueEntry.recipient_id, bindparam("ids", type_=String))
    )
)


def load_secret_values(session: Session, settings: Settings, claimed: Iterable[ClaimedRecipient]) -> None:
    """Adds their secret values to the recipients; one select, and none if no value is secret. One whose secret values
    cannot be read fails with that reason."""
    lacking = [recipient for recipient in claimed if None in recipient.values.values()]
    if not lacking:
        return
    stored = dict(STORED_SECRET_VALUES.tuples(session, ids=json_array([recipient.id for recipient in lacking])))
    keys = settings.secret_keys
    for recipient in lacking:
        _decrypt(keys, recipient, stored.get(recipient.id))


def _decrypt(secret_keys: SecretKeys, recipient: ClaimedRecipient, stored: str | None) -> None:
    names = [name for name, value in recipient.values.items() if value is None]
    try:
        if stored is None:
            raise SecretUnreadable("there are none")
        recipient.fill_in(SecretValues.decrypted(secret_keys, recipient.uuid, stored, names))
    except SecretUnreadable:
        recipient.reason = FailReason.UNREADABLE_VALUES


def load(session: Session, claimed: list[ClaimedRecipient], settings: Settings) -> list[ClaimedRecipient]:
    """Completes each recipient with what its message is composed from, and returns them; at most six selects, three if
    nothing is tracked or attached and no recipient is a contact, and one more if values are secret."""
    with span("load", tms__recipients=len(claimed)):
        load_secret_values(session, settings, claimed)
        contacts = load_contacts(session, claimed)
        sends, with_attachments = _sends(session, claimed)
        keys = {row.id: suppression_key(row, contacts.get(row.id)) for row in claimed}
        has_digests = any(send.has_digests for send in sends)
        suppressions = load_suppressions(session, keys.values(), has_digests=has_digests)
        domains = load_domains(session, claimed, sends)
        links = find_links(session, [send.id for send in sends if send.track_clicks])
        shared, recipient_attachments = _attachments(session, claimed, with_attachments)
    compiled = {send.id: CompiledMessage(send, shared[send.id], domains[send.id], links[send.id]) for send in sends}
    for row in claimed:
        prepare_recipient(
            row,
            compiled[row.send_id],
            contacts.get(row.id),
            keys[row.id],
            suppressions,
            attachments=recipient_attachments[row.id],
        )
    return claimed


def prepare_recipient(
    recipient: ClaimedRecipient,
    compiled: CompiledMessage,
    contact: ContactRow | None,
    key: AccountAddress | None,
    suppressions: Suppressions,
    *,
    attachments: Sequence[mime.EncodedAttachment],
) -> None:
    """Completes the recipient with what its message is composed from, or why there is none: also that of a dry run.
    `key` is its `suppression_key`."""
    send = compiled.send
    recipient.compiled, recipient.contact, recipient.attachments = compiled, contact, attachments
    possible_skips = skips(
        key,
        contact,
        suppressions,
        list_id=recipient.list_id,
        names_contact=recipient.contact_id is not None,
        include_unsubscribed=send.include_unsubscribed,
        is_test=send.is_test,
        stored_reason=recipient.reason,
    )
    recipient.skip, recipient.detail = possible_skips[0].reason if possible_skips else None, None
    recipient.address = delivery_address(recipient, contact) or ""
    recipient.is_large = compiled.sizes.is_large(_wildcard_values(recipient, contact))
    recipient.quota, recipient.route, recipient.is_built = None, None, False


def _wildcard_values(claimed: ClaimedRecipient, contact: ContactRow | None) -> Iterable[object]:
    return (*claimed.values.values(), *(contact.values.values() if contact else ()))


def _sends(session: Session, claimed: Iterable[ClaimedRecipient]) -> tuple[list[SendContent], set[int]]:
    """The sends, and the ids of those with attachments."""
    rows = SENDS.rows(session, send_ids=json_array({row.send_id for row in claimed}))
    return [SendContent(*row[:-1]) for row in rows], {row.id for row in rows if row.has_attachments}


def load_domains(
    session: Session, claimed: Iterable[ClaimedRecipient], sends: Iterable[SendContent]
) -> dict[int, SendingDomain]:
    """What the sending domain of each send has: its active DKIM keys, RSA first, because every receiver can verify it,
    and its hosts; and what a domain that it needs lacks. One select."""
    accounts = {row.send_id: row.account_id for row in claimed}
    needed = {send.id: [(accounts[send.id], name) for name in _domains_of(send)] for send in sends}
    parameters = {
        "accounts": json_array(set(accounts.values())),
        "domains": json_array({name for some in needed.values() for _, name in some}),
    }
    keys: dict[tuple[int, str], list[StoredKey]] = defaultdict(list)
    hosts: dict[tuple[int, str], SenderHosts] = {}
    verified: dict[tuple[int, str], bool] = {}
    for account_id, domain, is_verified, tracking, return_path, *key in DOMAINS.tuples(session, **parameters):
        verified[account_id, domain], hosts[account_id, domain] = bool(is_verified), SenderHosts(tracking, return_path)
        key_id, selector, private_key = key
        if key_id is not None:
            keys[account_id, domain].append(StoredKey(key_id, domain, selector, private_key))
    sending_domains = {}
    for send_id, some in needed.items():
        lacking = next(
            (MissingRequirement.for_domain(key[1], verified.get(key)) for key in some if not verified.get(key)), None
        )
        sending_domains[send_id] = SendingDomain(keys.get(some[0], ()), hosts.get(some[0], NO_HOSTS), lacking)
    return sending_domains


def _domains_of(send: SendContent) -> list[str]:
    """The domain of its sender, and that of its blind copies."""
    return [domain_of(address) for address in (send.from_address, send.bcc_address) if address]


def _attachments(
    session: Session, claimed: Sequence[ClaimedRecipient], with_attachments: Collection[int]
) -> tuple[dict[int, list[mime.EncodedAttachment]], dict[int, list[mime.EncodedAttachment]]]:
    """Attachments by send, and those of single recipients by recipient, each in the order of the request."""
    shared: dict[int, list[mime.EncodedAttachment]] = defaultdict(list)
    by_recipient: dict[int, list[mime.EncodedAttachment]] = defaultdict(list)
    if not with_attachments:
        return shared, by_recipient
    parameters = {
        "send_ids": json_array(with_attachments),
        "recipients": json_array([row.id for row in claimed if row.send_id in with_attachments]),
    }
    size = 0
    for send_id, recipient_id, name, mime_type, content, content_id in ATTACHMENTS.rows(session, **parameters):
        size += len(content)
        encoded = mime.encode_attachment(mime.Attachment(name, mime_type, content, content_id))
        if recipient_id is None:
            shared[send_id].append(encoded)
        else:
            by_recipient[recipient_id].append(encoded)
    release_after(session, size)
    return shared, by_recipient
