"""Limits of what a batch may send, render and hold in memory."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import String, bindparam, func, select
from sqlalchemy.orm import Session

from app.clock import now
from app.db.expressions import in_json, json_array
from app.db.models import Attachment, QueueEntry, Recipient, Send
from app.db.prepared import PreparedStatement
from app.recipients.states import RecipientState
from app.sends.delivery.recipient import ClaimedRecipient
from app.sends.delivery.sizes import RenderQuota, SizeLimits
from app.sends.limits import MAX_RECIPIENTS

QUOTA_DELAY_RANGE = (0.3, 0.6)
"""Seconds that recipients wait for results of their send. Random within these, or two workers would collide again."""

_random = secrets.SystemRandom()

ROWS_OF_SENDS = PreparedStatement(
    select(
        Recipient.send_id,
        Recipient.id,
        QueueEntry.state,
        func.coalesce(QueueEntry.rendered_bytes, Recipient.rendered_bytes).label("rendered_bytes"),
    )
    .outerjoin(QueueEntry, QueueEntry.recipient_id == Recipient.id)
    .where(in_json(Recipient.send_id, bindparam("send_ids", type_=String)))
)


RenderedRows = Mapping[int, Sequence[Any]]
"""Id of a send -> its recipients, with the bytes that were rendered for each."""


def load_rendered(session: Session, batch: Iterable[ClaimedRecipient], limits: SizeLimits) -> RenderedRows:
    """The rows of the sends of the batch that can reach the limit; no select if there is none, else one."""
    sizes = {recipient.compiled.send.id: recipient.compiled.sizes for recipient in batch}
    large = [
        send_id
        for send_id, send_sizes in sizes.items()
        if send_sizes.max_bytes(limits.body) * MAX_RECIPIENTS > limits.send
    ]
    rows: dict[int, list[Any]] = defaultdict(list)
    for row in ROWS_OF_SENDS.rows(session, send_ids=json_array(large)) if large else ():
        rows[row.send_id].append(row)
    return rows


def beyond_quota(
    recipients: Iterable[ClaimedRecipient],
    batch: Iterable[ClaimedRecipient],
    rendered: RenderedRows,
    limits: SizeLimits,
) -> dict[int, datetime]:
    """The new due times of those of the batch that may not be rendered now, by id."""
    if not rendered:
        return {}
    batch_ids, by_send = {recipient.id for recipient in batch}, defaultdict[int, list[ClaimedRecipient]](list)
    for recipient in recipients:
        if recipient.compiled.send.id in rendered:
            by_send[recipient.compiled.send.id].append(recipient)
    due_time = now() + timedelta(seconds=_random.uniform(*QUOTA_DELAY_RANGE))
    others = (
        recipient
        for send_id, some in by_send.items()
        for recipient in _beyond(some, rendered[send_id], batch_ids, limits)
    )
    return {recipient.id: due_time for recipient in others}


def _beyond(
    recipients: Sequence[ClaimedRecipient], rows: Sequence[Any], batch_ids: Collection[int], limits: SizeLimits
) -> Sequence[ClaimedRecipient]:
    """The recipients of one send that may not be rendered now."""
    max_bytes = recipients[0].compiled.sizes.max_bytes(limits.body)
    rendered = {row.id: row.rendered_bytes for row in rows if row.rendered_bytes is not None}
    elsewhere = sum(
        row.state == RecipientState.SENDING and row.id not in batch_ids and row.id not in rendered for row in rows
    )
    new = [recipient for recipient in recipients if recipient.id not in rendered]
    remaining = limits.send - sum(rendered.values())
    if elsewhere:
        return new[max(0, remaining - elsewhere * max_bytes) // max_bytes :]
    quota = RenderQuota(limits.send, remaining)
    for recipient in new:
        recipient.quota = quota
    return ()


MEMORY_BUDGET = 32 * 1024 * 1024
"""Characters of bodies and bytes of attachments of one batch. One recipient alone may exceed it."""

BODY_SIZES = PreparedStatement(
    select(
        Send.id,
        (func.coalesce(func.length(Send.body_html), 0) + func.coalesce(func.length(Send.body_text), 0)).label("size"),
    ).where(in_json(Send.id, bindparam("send_ids", type_=String)))
)
ATTACHMENT_SIZES = PreparedStatement(
    select(Attachment.send_id, Attachment.recipient_id, func.sum(func.length(Attachment.content)).label("size"))
    .where(in_json(Attachment.send_id, bindparam("send_ids", type_=String)))
    .group_by(Attachment.send_id, Attachment.recipient_id)
)


def within_budget(session: Session, claimed: Sequence[ClaimedRecipient]) -> list[ClaimedRecipient]:
    """The first recipients of the batch, as many as fit into the budget and at least one; two selects, none for one."""
    if len(claimed) < 2:
        return list(claimed)
    shared, recipient_sizes = _load_sizes(session, {recipient.send_id for recipient in claimed})
    total, counted_sends, fitting = 0, set[int](), list[ClaimedRecipient]()
    for recipient in claimed:
        total += recipient_sizes[recipient.id] + (
            0 if recipient.send_id in counted_sends else shared[recipient.send_id]
        )
        counted_sends.add(recipient.send_id)
        if total > MEMORY_BUDGET and fitting:
            break
        fitting.append(recipient)
    return fitting


def _load_sizes(session: Session, send_ids: Collection[int]) -> tuple[dict[int, int], dict[int, int]]:
    """The size of what each send shares, and of what each recipient has of its own."""
    send_ids_json = json_array(send_ids)
    shared: dict[int, int] = defaultdict(int, BODY_SIZES.rows(session, send_ids=send_ids_json))
    recipient_sizes: dict[int, int] = defaultdict(int)
    for send_id, recipient_id, size in ATTACHMENT_SIZES.rows(session, send_ids=send_ids_json):
        if recipient_id is None:
            shared[send_id] += int(size)
        else:
            recipient_sizes[recipient_id] += int(size)
    return shared, recipient_sizes
