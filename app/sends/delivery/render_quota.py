"""The bound of all that one send renders, kept across chunks and workers (docs/delivery.md#size-limits).

Nearly always nothing has to be counted: what the send's recipients can become at most, all together, is within the
bound. Where it is not, what each recipient was rendered to stands in its row from its first outcome on, and is never
counted twice, however often it is tried. Rows that are being sent elsewhere and have no outcome yet count as large as
they can become; whoever fits beside them goes, and the others wait for their outcomes. So no two workers ever spend the
same bytes, nobody is refused for what another one did not need, and a dead worker leaves nothing to put right.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import String, bindparam, select
from sqlalchemy.orm import Session

from app.clock import now
from app.db.in_json import in_json, json_array
from app.db.models import Recipient
from app.db.prepared import Prepared
from app.sends.delivery.bounds import RenderQuota, SizeLimits
from app.sends.delivery.claim import SENDING
from app.sends.delivery.load import PreparedRecipient

MOST_RECIPIENTS = 100
"""Of one send (docs/delivery.md#size-limits)."""
PAUSE = (0.3, 0.6)
"""Seconds that recipients wait for outcomes of their send. Not the same for all: two workers would meet again."""

_chance = secrets.SystemRandom()

OF_SENDS = Prepared(
    select(Recipient.send_id, Recipient.id, Recipient.state, Recipient.rendered_bytes).where(
        in_json(Recipient.send_id, bindparam("send_ids", type_=String))
    )
)


class Apportioned(NamedTuple):
    """Who may be rendered now, and until when the others wait, by recipient id."""

    parcels: list[PreparedRecipient]
    later: dict[int, datetime]


def apply_render_quota(session: Session, parcels: Sequence[PreparedRecipient], bounds: SizeLimits) -> Apportioned:
    """Looks after the bounds of the sends of a chunk: no select where none can be reached, else one."""
    by_send: dict[int, list[PreparedRecipient]] = defaultdict(list)
    for parcel in parcels:
        by_send[parcel.letter.send.id].append(parcel)
    large = {send_id for send_id, those in by_send.items() if _most(those, bounds) * MOST_RECIPIENTS > bounds.send}
    if not large:
        return Apportioned(list(parcels), {})
    rows: dict[int, list[_Row]] = defaultdict(list)
    for row in OF_SENDS.rows(session, send_ids=json_array(large)):
        rows[row.send_id].append(_Row(row.id, row.state, row.rendered_bytes))
    shared = {send_id: _shares(by_send[send_id], rows[send_id], bounds) for send_id in large}
    allowed = {parcel.recipient.id: parcel for those in shared.values() for parcel in those}
    soon = now() + timedelta(seconds=_chance.uniform(*PAUSE))
    found = Apportioned([], {})
    for parcel in parcels:
        if parcel.letter.send.id not in large:
            found.parcels.append(parcel)
        elif parcel.recipient.id in allowed:
            found.parcels.append(allowed[parcel.recipient.id])
        else:
            found.later[parcel.recipient.id] = soon
    return found


class _Row(NamedTuple):
    id: int
    state: str
    rendered: int | None


def _most(parcels: Sequence[PreparedRecipient], bounds: SizeLimits) -> int:
    """Bytes that any recipient of the send can become."""
    return parcels[0].letter.sizes.most_bytes(bounds.body)


def _shares(parcels: Sequence[PreparedRecipient], rows: Iterable[_Row], bounds: SizeLimits) -> list[PreparedRecipient]:
    """The parcels of one send that may be rendered now."""
    most, own = _most(parcels, bounds), {parcel.recipient.id for parcel in parcels}
    rendered = {row.id: row.rendered for row in rows if row.rendered is not None}
    elsewhere = sum(row.state == SENDING and row.id not in own and row.id not in rendered for row in rows)
    known = [parcel for parcel in parcels if parcel.recipient.id in rendered]
    new = [parcel for parcel in parcels if parcel.recipient.id not in rendered]
    left = bounds.send - sum(rendered.values())
    if not elsewhere:
        allowance = RenderQuota(bounds.send, left)
        return [*known, *(parcel._replace(allowance=allowance) for parcel in new)]
    return [*known, *new[: max(0, left - elsewhere * most) // most]]
