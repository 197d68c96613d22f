"""How much of a chunk is read at once.

What is read is held in memory until it is sent, so a chunk is cut where its bodies and attachments would grow beyond a
budget: the rest goes back into the queue.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from sqlalchemy import String, bindparam, func, select
from sqlalchemy.orm import Session

from app.db.in_json import in_json, json_array
from app.db.models import Attachment, Send
from app.db.prepared import Prepared
from app.sends.delivery.claim import ClaimedRecipient

BUDGET = 32 * 1024 * 1024
"""Characters of bodies and bytes of attachments of one chunk. One recipient alone may exceed it."""

WEIGHTS = Prepared(
    select(
        Send.id,
        (func.coalesce(func.length(Send.body_html), 0) + func.coalesce(func.length(Send.body_text), 0)).label("weight"),
    ).where(in_json(Send.id, bindparam("send_ids", type_=String)))
)
FILE_WEIGHTS = Prepared(
    select(Attachment.send_id, Attachment.recipient_id, func.sum(func.length(Attachment.content)).label("weight"))
    .where(in_json(Attachment.send_id, bindparam("send_ids", type_=String)))
    .group_by(Attachment.send_id, Attachment.recipient_id)
)


def within_budget(session: Session, claimed: Sequence[ClaimedRecipient]) -> list[ClaimedRecipient]:
    """The first of the chunk, as many as fit into the budget and at least one; two selects for more than one."""
    if len(claimed) < 2:
        return list(claimed)
    shared, own = _weights(session, {one.send_id for one in claimed})
    total, counted, kept = 0, set[int](), list[ClaimedRecipient]()
    for one in claimed:
        total += own[one.id] + (0 if one.send_id in counted else shared[one.send_id])
        counted.add(one.send_id)
        if total > BUDGET and kept:
            break
        kept.append(one)
    return kept


def _weights(session: Session, send_ids: Collection[int]) -> tuple[dict[int, int], dict[int, int]]:
    """The weight of each send, and of what each recipient has of its own."""
    wanted = json_array(send_ids)
    shared: dict[int, int] = defaultdict(int, WEIGHTS.rows(session, send_ids=wanted))
    own: dict[int, int] = defaultdict(int)
    for send_id, recipient_id, weight in FILE_WEIGHTS.rows(session, send_ids=wanted):
        if recipient_id is None:
            shared[send_id] += int(weight)
        else:
            own[recipient_id] += int(weight)
    return shared, own
