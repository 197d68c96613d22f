"""Adding and removing suppressions by hand, on the command line, in the console and by the API: a change and its entry
in the audit log, in one transaction (docs/audit.md#actions). What recipients, bounces and reports do has no entry."""

from __future__ import annotations

from collections.abc import Sequence

from app.addresses import NormalizedAddress, is_valid_email, is_valid_mobile, mobile_as_stored, normalize_address
from app.audit.record import Act, record
from app.audit.values import Change
from app.contacts.forgotten import restore_address
from app.contacts.subscriptions import lock_subscriptions
from app.contacts.suppress import resubscribe, unblock
from app.contacts.unsubscriber_entries import lists_of_entries
from app.contacts.values import UNSTORABLE_CHARACTER
from app.db.database import Transaction
from app.errors import ServiceError
from app.ids import shown_id
from app.infrastructure.digests import address_digest
from app.suppressions.add import AddedCounts, NewSuppression, add_suppressions
from app.suppressions.states import BLOCKED, MAX_REASON_LENGTH, REASON_BY_HAND, STATES, UNSUBSCRIBED

# What people write in forms and files.


def address_of(text: str) -> NormalizedAddress:
    """The address that somebody has written, normalized. Raises `invalid_email_address`, or `invalid_mobile_address`,
    for a text that is none."""
    if "@" in text:
        if not is_valid_email(text):
            raise ServiceError("invalid_email_address", field="email", detail=f"{text!r} is not an email address.")
        return normalize_address("email", text)
    number = mobile_as_stored(text)
    if not is_valid_mobile(number):
        detail = f"{text!r} is neither an email address nor a mobile number such as 61411111111."
        raise ServiceError("invalid_mobile_address", field="mobile", detail=detail)
    return normalize_address("mobile", number)


def checked_state(text: str) -> str:
    """The state. Raises `invalid_string` for any other text."""
    if text not in STATES:
        raise ServiceError("invalid_string", field="state", detail=f"{text!r} is not one of {', '.join(STATES)}.")
    return text


def checked_reason(text: str) -> str:
    """The reason of a block; a general one for an empty text. It may have several lines: files of other services have
    replies of mail servers there. Raises `too_long` and `invalid_string`."""
    if len(text) > MAX_REASON_LENGTH:
        raise ServiceError("too_long", field="reason", detail=f"A reason has at most {MAX_REASON_LENGTH} characters.")
    if UNSTORABLE_CHARACTER.search(text):
        detail = "A reason must not contain U+0000 or half a surrogate pair."
        raise ServiceError("invalid_string", field="reason", detail=detail)
    return text or REASON_BY_HAND


# A change of one address.


def suppression_act(action: str, account_id: int, address_digest: str, state: str, list_id: int | None = None) -> Act:
    """The act of adding or removing a suppression: `state` is `blocked`, or `unsubscribed` account-wide or in a list.
    The address is known by its keyed hash alone."""
    changes: list[Change] = [{"field": "state", "new": state}]
    if list_id is not None:
        changes.append({"field": "list_id", "new": shown_id(list_id)})
    return Act(action, account_id, address_digest=address_digest, changes=changes)


def add_suppression(transaction: Transaction, secret_key: str, account_id: int, new: NewSuppression) -> AddedCounts:
    """Adds one entry."""
    added = add_suppressions(transaction, account_id, [new])
    if any(added):
        digest = address_digest(secret_key, new.address)
        record(transaction, suppression_act("suppression.added", account_id, digest, new.state, new.list_id))
    return added


def add_many(transaction: Transaction, account_id: int, new: Sequence[NewSuppression]) -> None:
    """Adds entries, with one entry in the audit log."""
    if added := add_suppressions(transaction, account_id, new).entries:
        record(transaction, Act("suppression.added", account_id, counts={"suppressions": added}))


def remove_unsubscribed(
    transaction: Transaction, secret_key: str, account_id: int, address: NormalizedAddress, list_id: int | None
) -> int:
    """Resubscribes the address: to the list and account-wide, or for None account-wide alone. Returns how many contacts
    have changed."""
    lock_subscriptions(transaction, account_id)
    restore_address(transaction, account_id, address)
    lists = lists_of_entries(transaction, account_id, [address]).get(address, set())
    changed = resubscribe(transaction, account_id, *address, list_id)
    if changed or lists & {None, list_id}:
        digest = address_digest(secret_key, address)
        record(transaction, suppression_act("suppression.removed", account_id, digest, UNSUBSCRIBED, list_id))
    return changed


def remove_blocked(transaction: Transaction, secret_key: str, account_id: int, address: NormalizedAddress) -> bool:
    """Unblocks the address; returns whether it was blocked."""
    was_blocked = unblock(transaction, account_id, *address)
    if was_blocked:
        digest = address_digest(secret_key, address)
        record(transaction, suppression_act("suppression.removed", account_id, digest, BLOCKED))
    return was_blocked
