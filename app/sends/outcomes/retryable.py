"""Which recipients can be retried, and why others cannot: one rule for one recipient and for many."""

from __future__ import annotations

import enum
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, cast

from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from app.addresses import ADDRESS_KIND_BY_TYPE, AccountAddress, AddressKind, all_forms
from app.clock import timestamp
from app.db.address_digests import find_digests
from app.db.id_bounds import between_ids
from app.db.in_json import in_json
from app.db.models import BlockedAddress, RecipientStep
from app.recipients.reasons import NOT_RETRYABLE
from app.recipients.states import RecipientState
from app.recipients.timeline import TimelineStep

RETRYABLE = (RecipientState.BOUNCED, RecipientState.FAILED, RecipientState.UNCERTAIN)


class LeftOut(enum.StrEnum):
    """Why a recipient is not retried, as bulk actions count it (docs/console.md#bulk-actions)."""

    STATE = "state"
    FORGOTTEN = "forgotten"
    NO_CONTACT = "no_contact"
    BLOCKED = "blocked"
    CONTENT_PURGED = "content_purged"
    SECRET_VALUES_GONE = "secret_values_gone"  # noqa: S105 - a reason, no secret
    CHANGED = "changed"


class Refusal(NamedTuple):
    """Why a recipient is not retried: as it is counted, and in words."""

    reason: LeftOut
    detail: str


class Known(NamedTuple):
    """What the rule needs to know of a recipient: its row, its state with that of its queue entry, and its send."""

    row: Row[Any]
    state: RecipientState
    send: Row[Any] | None

    @property
    def id(self) -> int:
        """Of the recipient."""
        return int(self.row.id)

    @property
    def priority(self) -> str:
        """That of its send."""
        return "normal" if self.send is None else str(self.send.priority)

    @property
    def address(self) -> AccountAddress:
        """As blocked addresses have it."""
        text = self.row.email or self.row.mobile
        return AccountAddress.of(self.row.account_id, ADDRESS_KIND_BY_TYPE[self.row.type], text or "")


def refusals(session: Session, found: Sequence[Known], states: Collection[RecipientState]) -> dict[int, Refusal]:
    """Those that cannot be retried. They are of one account, and their number does not change that of the
    statements."""
    forgotten = _forgotten(session, [one.id for one in found])
    blocked = _blocked(session, found)
    refused = {one.id: _refusal(one, states, forgotten, blocked) for one in found}
    return {recipient_id: refusal for recipient_id, refusal in refused.items() if refusal is not None}


def _refusal(
    one: Known, states: Collection[RecipientState], forgotten: Collection[int], blocked: Collection[int]
) -> Refusal | None:
    """The first reason that applies."""
    row, purged = one.row, None if one.send is None else one.send.content_purged_time
    if one.state not in states:
        return Refusal(LeftOut.STATE, f"is {one.state}; only a bounced, failed or uncertain recipient can be retried")
    if one.id in forgotten:
        return Refusal(LeftOut.FORGOTTEN, "its recipient was forgotten; there is nobody to send to")
    if row.reason in NOT_RETRYABLE:
        return Refusal(LeftOut.NO_CONTACT, f"failed with {row.reason}; a retry cannot help")
    if one.id in blocked:
        return Refusal(LeftOut.BLOCKED, f"{one.address.key} is blocked; unblock it first")
    if purged is not None:
        detail = f"its content was purged at {timestamp(purged)} (RETAIN_CONTENT); make a new send"
        return Refusal(LeftOut.CONTENT_PURGED, detail)
    if one.state is not RecipientState.UNCERTAIN and row.secrets is not None and None in row.secrets.values():
        return Refusal(LeftOut.SECRET_VALUES_GONE, "its secret values were deleted with its outcome; make a new send")
    return None


def _forgotten(session: Session, ids: Collection[int]) -> Collection[int]:
    column = RecipientStep.recipient_id
    of_ids = in_json(column, ids), between_ids(column, ids), RecipientStep.step == TimelineStep.FORGOTTEN
    return set(session.scalars(select(column).where(*of_ids)))


def _blocked(session: Session, found: Sequence[Known]) -> Collection[int]:
    """The recipients whose address is blocked, also one that was forgotten: then a digest stands in its place."""
    addresses = {one.address for one in found}
    digests = find_digests(session, addresses)
    rows = select(BlockedAddress.account_id, BlockedAddress.kind, BlockedAddress.address).where(
        in_json(BlockedAddress.account_id, {address.account_id for address in addresses}),
        in_json(BlockedAddress.kind, {address.kind for address in addresses}),
        in_json(BlockedAddress.address, {*digests, *all_forms(address.key for address in addresses)}),
    )
    blocked = {
        digests.get(key) or AccountAddress.of(account_id, cast(AddressKind, kind), key)
        for account_id, kind, key in session.execute(rows)
    }
    return {one.id for one in found if one.address in blocked}
