"""The memory budget of a batch.

Loaded messages stay in memory until they are sent, so a batch is cut where its bodies and attachments would exceed a
budget: the rest goes back into the queue.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from sqlalchemy import String, bindparam, func, select
from sqlalchemy.orm import Session

from app.db.in_json import in_json, json_array
from app.db.models import Attachment, Send
from app.db.prepared import PreparedStatement
from app.sends.delivery.claim import ClaimedRecipient

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
    shared, own = _load_sizes(session, {recipient.send_id for recipient in claimed})
    total, counted_sends, fitting = 0, set[int](), list[ClaimedRecipient]()
    for recipient in claimed:
        total += own[recipient.id] + (0 if recipient.send_id in counted_sends else shared[recipient.send_id])
        counted_sends.add(recipient.send_id)
        if total > MEMORY_BUDGET and fitting:
            break
        fitting.append(recipient)
    return fitting


def _load_sizes(session: Session, send_ids: Collection[int]) -> tuple[dict[int, int], dict[int, int]]:
    """The size of what each send shares, and of what each recipient has of its own."""
    send_ids_json = json_array(send_ids)
    shared: dict[int, int] = defaultdict(int, BODY_SIZES.rows(session, send_ids=send_ids_json))
    own: dict[int, int] = defaultdict(int)
    for send_id, recipient_id, size in ATTACHMENT_SIZES.rows(session, send_ids=send_ids_json):
        if recipient_id is None:
            shared[send_id] += int(size)
        else:
            own[recipient_id] += int(size)
    return shared, own
