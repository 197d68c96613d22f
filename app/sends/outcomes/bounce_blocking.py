"""Bounces and addresses: a hard bounce that speaks of its address blocks it, and so do five soft ones in a row
(docs/contacts.md#blocked-addresses).

All addresses of many outcomes at once, in a fixed number of statements, always in the same order, so that two workers
cannot wait for each other. Blocking changes the contacts that have the address; the caller records their events with
its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from sqlalchemy import bindparam, case, delete, or_, select, update

from app.addresses import ADDRESS_KIND_BY_TYPE, AccountAddress, AddressKind, all_forms
from app.automations.run_states import end_waits
from app.clock import now
from app.contacts.blocked import PERMANENT_BOUNCE, TEMPORARY_BOUNCES, Block, ChangedContacts, block_addresses
from app.contacts.events import contact_events
from app.db.bulk import upsert
from app.db.counters import count_in_group
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import Recipient, SoftBounces, table_of
from app.events.outbox import record
from app.recipients.row import RecipientRow, add_steps, delete_queue_entries, update_recipients
from app.recipients.states import UNSETTLED_STATES, RecipientState
from app.recipients.timeline import TimelineStep
from app.sends.outcomes.transitions import COUNTED_AS_DELIVERED, Bounce, Transition

SOFT_BOUNCES_THAT_BLOCK = 5
"""Soft bounces of an address, without a delivery in between, after which it is blocked."""


def apply_to_addresses(transaction: Transaction, transitions: Sequence[Transition]) -> ChangedContacts:
    """Blocks addresses and counts their soft bounces, as the transitions say; a delivery resets the count."""
    resets = {
        _address_of(transition): transition.recipient.id
        for transition in transitions
        if transition.soft_bounces == "reset"
    }
    _reset(transaction, resets)
    soft = [
        (_address_of(transition), _block(TEMPORARY_BOUNCES, transition))
        for transition in transitions
        if transition.soft_bounces == "count"
    ]
    latest, full = dict(soft), _count(transaction, Counter(address for address, _ in soft))
    hard = {
        _address_of(transition): _block(PERMANENT_BOUNCE, transition)
        for transition in transitions
        if transition.blocks_address
    }
    return block_addresses(transaction, {address: latest[address] for address in full} | hard)


def _block(reason: str, transition: Transition) -> Block:
    return Block(reason, transition.detail, transition.recipient.uuid)


def add_soft_bounces(transaction: Transaction, bounces: Counter[AccountAddress]) -> ChangedContacts:
    """Adds soft bounces that were counted apart, and blocks the addresses that have too many together."""
    return block_addresses(transaction, dict.fromkeys(_count(transaction, bounces), Block(TEMPORARY_BOUNCES)))


def apply_bounce(transaction: Transaction, recipient: RecipientRow, bounce: Bounce) -> ChangedContacts:
    """Applies a late bounce to the address: blocks it, or counts a soft bounce. The message had counted as delivered,
    which reset the count of soft bounces: the earlier ones count again."""
    address = account_address(recipient)
    cause = bounce.diagnostic, recipient.uuid
    if bounce.blocks:
        return block_addresses(transaction, {address: Block(PERMANENT_BOUNCE, *cause)})
    if not bounce.is_soft:
        return {}
    full = _count(transaction, Counter([address]), recipient.id)
    return block_addresses(transaction, dict.fromkeys(full, Block(TEMPORARY_BOUNCES, *cause)))


def forget_soft_bounces(transaction: Transaction, recipient: RecipientRow) -> None:
    """Resets the count permanently: a receipt confirms that the recipient's message was delivered."""
    _delete(transaction, list(_counts_of(transaction, {account_address(recipient)})))


def account_address(recipient: RecipientRow, address: str | None = None) -> AccountAddress:
    """The recipient's address, or the given one that its message was sent to, as blocked addresses are stored."""
    requested = recipient.email if recipient.type == "email" else recipient.mobile
    return AccountAddress.of(recipient.account_id, ADDRESS_KIND_BY_TYPE[recipient.type], address or requested or "")


def _address_of(transition: Transition) -> AccountAddress:
    return account_address(transition.recipient, transition.attempt_result.address)


def _from_row(account_id: int, kind: str, key: str) -> AccountAddress:
    return AccountAddress.of(account_id, cast(AddressKind, kind), key)


def _reset(transaction: Transaction, delivered: Mapping[AccountAddress, int]) -> None:
    """Resets the counts, unless the recipient whose message was delivered bounces after all."""
    counts = _counts_of(transaction, delivered)
    rows = [{"row": row, "recipient": delivered[address]} for row, address in counts.items()]
    if rows:
        columns = table_of(SoftBounces).c
        statement = update(table_of(SoftBounces)).where(columns.id == bindparam("row"), columns.reset_by.is_(None))
        transaction.connection().execute(statement.values(reset_by=bindparam("recipient")), rows)


def _counts_of(transaction: Transaction, addresses: Collection[AccountAddress]) -> dict[int, AccountAddress]:
    """Rows that count soft bounces of the addresses, by id. Nearly always there are none, so this selects before
    anything is written: a select takes no lock."""
    if not addresses:
        return {}
    columns = select(SoftBounces.id, SoftBounces.account_id, SoftBounces.kind, SoftBounces.address)
    chosen = columns.where(
        SoftBounces.account_id.in_({address.account_id for address in addresses}),
        SoftBounces.kind.in_({address.kind for address in addresses}),
        in_json(SoftBounces.address, all_forms(address.key for address in addresses)),
    )
    addresses_by_id = {row.id: _from_row(*row[1:]) for row in transaction.execute(chosen.order_by(SoftBounces.id))}
    return {row: address for row, address in addresses_by_id.items() if address in addresses}


def _count(
    transaction: Transaction, bounces: Counter[AccountAddress], recipient_id: int | None = None
) -> list[AccountAddress]:
    """Adds soft bounces; returns the addresses that have reached the limit, whose count starts anew."""
    if not bounces:
        return []
    rows = [_counter_row(address, bounces[address]) for address in sorted(bounces)]
    counts_still = or_(SoftBounces.reset_by.is_(None), SoftBounces.reset_by == (recipient_id or 0))
    earlier = case((counts_still, SoftBounces.bounces), else_=0)
    counted = upsert(
        transaction,
        SoftBounces,
        rows,
        index=["account_id", "kind", "address"],
        update=lambda refused: {"bounces": earlier + refused.bounces, "reset_by": None},
    ).returning(
        SoftBounces.id,
        SoftBounces.account_id,
        SoftBounces.kind,
        SoftBounces.address,
        SoftBounces.bounces,
    )
    full = [row for row in transaction.execute(counted).all() if row.bounces >= SOFT_BOUNCES_THAT_BLOCK]
    _delete(transaction, [row.id for row in full])
    return [_from_row(*row[1:4]) for row in full]


def _counter_row(address: AccountAddress, count: int) -> dict[str, Any]:
    return {
        "account_id": address.account_id,
        "kind": address.kind,
        "address": address.key,
        "bounces": count,
    }


def _delete(transaction: Transaction, ids: list[int]) -> None:
    if ids:
        statement = delete(SoftBounces).where(SoftBounces.id.in_(ids))
        transaction.execute(statement, execution_options={"synchronize_session": False})


# A bounce that is reported after the attempt, by a DSN or the receipt of a text message.


def write_late_bounce(transaction: Transaction, recipient: RecipientRow, bounce: Bounce) -> None:
    """Writes what a transition to `bounced` writes; if the group counted the message as delivered, that is subtracted,
    in the hour in which it was counted. The caller holds the locks of the recipient and of its queue entry, if there is
    one."""
    moment, account_id = now(), recipient.account_id
    bounced = {"state": RecipientState.BOUNCED, "reason": bounce.diagnostic, "attempts": recipient.attempts}
    update_recipients(transaction, [recipient.id], **bounced)
    if recipient.state in UNSETTLED_STATES:
        delete_queue_entries(transaction, [recipient.id])
    changed = apply_bounce(transaction, recipient, bounce)
    event = recipient.event("bounced", moment, bounce.event_fields)
    record(transaction, account_id, [event, *contact_events("updated", changed.get(account_id, ()), moment)])
    add_steps(transaction, [recipient.step(TimelineStep.BOUNCED, bounce.diagnostic or None, moment)])
    if recipient.step_id is not None:
        end_waits(transaction, {"bounced": [recipient.id]})
    count_in_group(transaction, account_id, recipient.group_id, moment, recipient.tags, bounced=1)
    if recipient.state in COUNTED_AS_DELIVERED:
        sent_time = transaction.scalar(select(Recipient.sent_time).where(Recipient.id == recipient.id))
        hour, tags = sent_time or moment, recipient.tags
        count_in_group(transaction, account_id, recipient.group_id, hour, tags, delivered=-1)
