"""The limit of all bytes that one send renders, enforced across batches and workers (docs/delivery.md#size-limits).

Nearly always nothing needs to be counted: the maximum that all recipients of the send can render together is within the
limit. If it is not, the bytes rendered for each recipient are stored from its first result on, in its queue entry and
later in its row, and are never counted twice, however many attempts it takes. Recipients that other workers are sending
and that have no result yet count with their maximum; recipients that fit beside them are rendered, and the others wait
for those results. So no two workers ever spend the same bytes, no recipient is refused for bytes that another did not
need, and a dead worker leaves nothing to repair.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import String, bindparam, func, select
from sqlalchemy.orm import Session

from app.clock import now
from app.db.in_json import in_json, json_array
from app.db.models import QueueEntry, Recipient
from app.db.prepared import PreparedStatement
from app.recipients.reasons import WaitReason
from app.recipients.states import RecipientState
from app.sends.delivery.compose import PreparedRecipient
from app.sends.delivery.size_limits import RenderQuota, SizeLimits
from app.sends.delivery.transmission_counts import count_deferred
from app.sends.limits import MAX_RECIPIENTS

DELAY = (0.3, 0.6)
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


def apply_render_quota(
    session: Session, recipients: Sequence[PreparedRecipient], limits: SizeLimits
) -> tuple[list[PreparedRecipient], dict[int, datetime]]:
    """The recipients that may be rendered now, and the new due times of the others by id.

    No select if no send of the batch can reach the limit, else one.
    """
    by_send: dict[int, list[PreparedRecipient]] = defaultdict(list)
    for recipient in recipients:
        by_send[recipient.compiled.send.id].append(recipient)
    large = {send_id for send_id, some in by_send.items() if _max_bytes(some, limits) * MAX_RECIPIENTS > limits.send}
    if not large:
        return list(recipients), {}
    rows: dict[int, list[Any]] = defaultdict(list)
    for row in ROWS_OF_SENDS.rows(session, send_ids=json_array(large)):
        rows[row.send_id].append(row)
    allowed = {recipient.id for send_id in large for recipient in _allowed(by_send[send_id], rows[send_id], limits)}
    allowed.update(recipient.id for recipient in recipients if recipient.compiled.send.id not in large)
    due_time = now() + timedelta(seconds=_random.uniform(*DELAY))
    others = [recipient for recipient in recipients if recipient.id not in allowed]
    count_deferred([one.claimed for one in others if not one.compiled.send.is_test], WaitReason.RENDER_QUOTA)
    return (
        [recipient for recipient in recipients if recipient.id in allowed],
        {recipient.id: due_time for recipient in others},
    )


def _max_bytes(recipients: Sequence[PreparedRecipient], limits: SizeLimits) -> int:
    """The maximum that any recipient of the send can render."""
    return recipients[0].compiled.sizes.max_bytes(limits.body)


def _allowed(
    recipients: Sequence[PreparedRecipient], rows: Sequence[Any], limits: SizeLimits
) -> list[PreparedRecipient]:
    """The recipients of one send that may be rendered now."""
    max_bytes, own = _max_bytes(recipients, limits), {recipient.id for recipient in recipients}
    rendered = {row.id: row.rendered_bytes for row in rows if row.rendered_bytes is not None}
    elsewhere = sum(
        row.state == RecipientState.SENDING and row.id not in own and row.id not in rendered for row in rows
    )
    counted = [recipient for recipient in recipients if recipient.id in rendered]
    new = [recipient for recipient in recipients if recipient.id not in rendered]
    remaining = limits.send - sum(rendered.values())
    if elsewhere:
        return [*counted, *new[: max(0, remaining - elsewhere * max_bytes) // max_bytes]]
    quota = RenderQuota(limits.send, remaining)
    for recipient in new:
        recipient.quota = quota
    return list(recipients)
