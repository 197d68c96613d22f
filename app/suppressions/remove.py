"""Taking suppressions off by a query (docs/suppressions.md#taking-off): exactly the entries that it names, and what
the person has wished only with a confirmation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, select

from app.addresses import (
    ADDRESS_KINDS,
    AccountAddress,
    NormalizedAddress,
    address_forms,
    is_valid_email,
    is_valid_mobile,
    normalize_address,
)
from app.audit.record import record
from app.clock import this_second
from app.contacts.blocked import COMPLAINT, unblock_entries
from app.contacts.events import record_contact_events
from app.contacts.subscriptions import delete_unsubscriber_entries, lock_subscriptions
from app.contacts.suppress import forget_soft_bounces
from app.db.address_forms import find_digests
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import BlockedAddress, Unsubscriber
from app.errors import ServiceError
from app.ids import copied_id
from app.infrastructure.digests import address_digest
from app.query.parameters import parameter_error, printable
from app.query.values import fits_64_bits, read_integer
from app.query.writes import parse_write
from app.suppressions.acts import suppression_act
from app.suppressions.filters import SUPPRESSIONS
from app.suppressions.states import BLOCKED, STATES, UNSUBSCRIBED

CONFIRMATIONS = {BLOCKED: "complaint", UNSUBSCRIBED: "unsubscribe"}
"""State -> what confirms that somebody means to take off such an entry, though the person wished it: of the blocked
addresses those that have complained."""
ANY_LIST = object()


@dataclass(frozen=True, slots=True)
class Removal:
    """The entries of an address that a query names: with a state, or any for None, and of a list, which is None for the
    whole account; and what is confirmed."""

    address: NormalizedAddress
    state: str | None
    list_id: Any
    confirmed: frozenset[str]

    def is_about(self, state: str) -> bool:
        """Whether entries with that state are named: a block is of no list."""
        return self.state in (None, state) and (state == UNSUBSCRIBED or self.list_id is ANY_LIST)


# The query.


def _read_address(kind: str, is_valid: Callable[[str], bool], noun: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if not is_valid(text):
            detail = f"{kind}: {printable(text)!r} is not {noun}. Write a plus in a query as %2B."
            raise parameter_error("invalid_query_syntax", kind, detail)
        return text

    return read


def _read_state(text: str) -> str:
    if text not in STATES:
        detail = f"state: {printable(text)!r} is not one of {', '.join(STATES)}."
        raise parameter_error("invalid_query_syntax", "state", detail)
    return text


def _read_list_id(text: str) -> int | None:
    try:
        list_id = read_integer(text) if text else None
    except ValueError:
        detail = f"list_id: {printable(text)!r} is not an integer. It is empty for the entry of the whole account."
        raise parameter_error("invalid_query_syntax", "list_id", detail) from None
    return 0 if list_id is not None and not fits_64_bits(list_id) else list_id


def _read_confirmations(text: str) -> frozenset[str]:
    words = text.split(",")
    for word in words:
        if word not in CONFIRMATIONS.values():
            detail = f"confirm: {printable(word)!r} is not one of {', '.join(CONFIRMATIONS.values())}."
            raise parameter_error("invalid_query_syntax", "confirm", detail)
    return frozenset(words)


READERS: Mapping[str, Callable[[str], Any]] = {
    "email": _read_address("email", is_valid_email, "an email address"),
    "mobile": _read_address("mobile", is_valid_mobile, "a mobile number such as 61411111111"),
    "state": _read_state,
    "list_id": _read_list_id,
    "confirm": _read_confirmations,
}
"""Parameter -> the function that reads its value."""


def parse_removal(pairs: Sequence[tuple[str, str]]) -> Removal:
    """The query of a `DELETE`. Raises the errors of its parameters, and `filter_id_required` without an address."""
    values = parse_write(pairs, SUPPRESSIONS, **READERS)
    addresses = [normalize_address(kind, values[kind]) for kind in ADDRESS_KINDS if kind in values]
    if len(addresses) > 1:
        raise parameter_error("invalid_query_syntax", "mobile", "mobile: name one address, by email or by mobile.")
    if values.get("state") == BLOCKED and "list_id" in values:
        raise parameter_error("invalid_query_syntax", "list_id", "list_id: a block is of no list. Leave it out.")
    if not addresses:
        detail = "Name the address, as in ?email=ann@example.com or ?mobile=61411111111."
        raise ServiceError("filter_id_required", field="email", detail=detail)
    list_id = values.get("list_id", ANY_LIST)
    return Removal(addresses[0], values.get("state"), list_id, values.get("confirm", frozenset()))


# The entries.


def remove_suppressions(transaction: Transaction, secret_key: str, account_id: int, removal: Removal) -> int:
    """Takes off the entries that are named, also those that were kept when the address was forgotten; returns how many
    they were. Raises `conflict`, and changes nothing, if a confirmation is missing."""
    lock_subscriptions(transaction, account_id)
    stored = [*address_forms(removal.address.key), *find_digests(transaction, [removal.address])]
    lists = _unsubscribed_lists(transaction, account_id, removal, stored)
    reasons = _block_reasons(transaction, account_id, removal, stored)
    _require_confirmations(removal, lists, reasons)
    changed = delete_unsubscriber_entries(transaction, account_id, removal.address, lists, this_second())
    if reasons:
        _, blocked = unblock_entries(transaction, in_json(BlockedAddress.id, list(reasons)))
        forget_soft_bounces(transaction, AccountAddress(account_id, *removal.address))
        changed += blocked.get(account_id, ())
    record_contact_events(transaction, account_id, "updated", sorted(changed), this_second())
    digest = address_digest(secret_key, removal.address)
    for list_id in dict.fromkeys(lists.values()):
        record(transaction, suppression_act("suppression.removed", account_id, digest, UNSUBSCRIBED, list_id))
    for reason in list(reasons.values())[:1]:
        act = suppression_act("suppression.removed", account_id, digest, BLOCKED)
        if reason == COMPLAINT:
            act.changes.append({"field": "reason", "old": COMPLAINT})
        record(transaction, act)
    return len(lists) + len(reasons)


def _unsubscribed_lists(
    transaction: Transaction, account_id: int, removal: Removal, stored: Sequence[str]
) -> dict[int, int | None]:
    """The ids of the entries of the unsubscribers list that are named, with their lists."""
    if not removal.is_about(UNSUBSCRIBED):
        return {}
    entries = select(Unsubscriber.id, Unsubscriber.list_id).where(
        *_has_address(Unsubscriber, account_id, removal.address, stored)
    )
    if removal.list_id is None:
        entries = entries.where(Unsubscriber.list_id.is_(None))
    elif removal.list_id is not ANY_LIST:
        entries = entries.where(Unsubscriber.list_id.in_([removal.list_id, copied_id(removal.list_id)]))
    return {row.id: row.list_id for row in transaction.execute(entries.order_by(Unsubscriber.id))}


def _block_reasons(
    transaction: Transaction, account_id: int, removal: Removal, stored: Sequence[str]
) -> dict[int, str]:
    """The ids of the blocks that are named, with their reasons, locked."""
    if not removal.is_about(BLOCKED):
        return {}
    has_address = _has_address(BlockedAddress, account_id, removal.address, stored)
    blocks = select(BlockedAddress.id, BlockedAddress.reason).where(*has_address).order_by(BlockedAddress.id)
    return {row.id: row.reason for row in transaction.execute(blocks.with_for_update())}


def _has_address(
    model: type[Unsubscriber | BlockedAddress], account_id: int, address: NormalizedAddress, stored: Sequence[str]
) -> tuple[ColumnElement[bool], ...]:
    return model.account_id == account_id, model.kind == address.kind, model.address.in_(stored)


def _require_confirmations(removal: Removal, lists: Mapping[int, int | None], reasons: Mapping[int, str]) -> None:
    wishes = {BLOCKED: COMPLAINT in reasons.values(), UNSUBSCRIBED: bool(lists)}
    needed = [CONFIRMATIONS[state] for state in STATES if wishes[state]]
    missing = [word for word in needed if word not in removal.confirmed]
    if not missing:
        return
    texts = {
        CONFIRMATIONS[BLOCKED]: "it was blocked by a complaint",
        CONFIRMATIONS[UNSUBSCRIBED]: "the person has unsubscribed",
    }
    said = " and ".join(texts[word] for word in missing)
    detail = (
        f"Nothing is taken off, because {said}. If the person wants your messages again, add "
        f"confirm={','.join(needed)}."
    )
    if reasons and not wishes[BLOCKED]:
        detail += " To take off the block alone, add state=blocked."
    raise ServiceError("conflict", field="confirm", detail=detail)
