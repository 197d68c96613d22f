"""Waiting for a relay that refuses everything of an account (docs/delivery.md#a-relay-that-refuses-everything).

What makes it one is counted with the outcomes (`app/sends/outcomes/relay_refusals.py`). Loading a batch tells whether
an account has such a relay, so that nothing more is read for all others. Its messages go over the further transports
of their route; those without one are due again at the next try, or for their last attempt at the end of the retry
period, which counts as no attempt. At the next try one message goes as a probe, and the others wait for its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from app.clock import now
from app.db.database import Database, Transaction
from app.db.expressions import in_json
from app.db.models import RelayRefusal
from app.recipients.states import WaitReason
from app.sends.delivery.recipient import Claimed, RouteProgress
from app.sends.delivery.router import Router
from app.sends.delivery.transmission_counts import count_deferred
from app.sends.outcomes.relay_refusals import IS_NOTICED, RelayKey

PROBE_TIMEOUT = timedelta(seconds=60)
"""For how long all other messages wait for the result of the probe."""


class Refusing(NamedTuple):
    """The id of a noticed refusal, and the time of its next try."""

    id: int
    until_time: datetime


Refusals = dict[RelayKey, Refusing]


def load_refusals(session: Session, recipients: Iterable[Claimed]) -> Refusals:
    """The transports that refuse everything of an account of these recipients; no select if there is none."""
    accounts = {one.account_id for one in recipients if _may_be_refused(one)}
    if not accounts:
        return {}
    columns = RelayRefusal.account_id, RelayRefusal.transport, RelayRefusal.id, RelayRefusal.until_time
    rows = session.execute(select(*columns).where(in_json(RelayRefusal.account_id, accounts), *IS_NOTICED))
    return {RelayKey(row.account_id, row.transport): Refusing(row.id, row.until_time) for row in rows}


def wait_for_relays(
    database: Database, router: Router, refusals: Refusals, recipients: Sequence[Claimed], period: float
) -> dict[int, datetime]:
    """The new due times of recipients that wait, by id; of the others, the route leads around what refuses them.
    `period` is the retry period in seconds. A message that was attempted least comes first as a probe: one that is
    refused for itself must not stand for all others each time."""
    concerned = [one for one in recipients if _may_be_refused(one)] if refusals else []
    if not concerned:
        return {}
    with database.write() as transaction:
        waits = _Waits(transaction, router, refusals, timedelta(seconds=period))
        for recipient in sorted(concerned, key=lambda one: one.attempts):
            waits.decide(recipient)
    count_deferred([one for one in concerned if one.id in waits.due_times], WaitReason.RELAY)
    return waits.due_times


def _may_be_refused(recipient: Claimed) -> bool:
    return recipient.compiled.send.relay_refuses and recipient.type == "email" and not recipient.compiled.send.is_test


class _Waits:
    """The decisions on one batch."""

    def __init__(self, transaction: Transaction, router: Router, refusals: Refusals, period: timedelta) -> None:
        self.due_times: dict[int, datetime] = {}
        self._transaction = transaction
        self._router = router
        self._refusals = dict(refusals)
        self._period = period
        self._moment = now()

    def decide(self, recipient: Claimed) -> None:
        """Gives the recipient a due time or, where it must go around something, its route."""
        end = recipient.compiled.send.creation_time + self._period
        if end <= self._moment:
            return
        names = self._router.route(recipient)
        left: list[str] = []
        for name in names:
            if self._is_open(RelayKey(recipient.account_id, name), recipient, is_first=not left):
                left.append(name)
        if names and not left:
            keys = (RelayKey(recipient.account_id, name) for name in names)
            self.due_times[recipient.id] = min(end, *(self._refusals[key].until_time for key in keys))
        elif len(left) < len(names):
            recipient.route = RouteProgress(left)

    def _is_open(self, key: RelayKey, recipient: Claimed, *, is_first: bool) -> bool:
        """Whether the recipient's message may go there: nothing is refused, or it is the probe."""
        refusing = self._refusals.get(key)
        if refusing is None:
            return True
        if not is_first or refusing.until_time > self._moment:
            return False
        until = self._moment + PROBE_TIMEOUT
        self._refusals[key] = refusing._replace(until_time=until)
        return self._claim_probe(refusing, recipient, until)

    def _claim_probe(self, refusing: Refusing, recipient: Claimed, until: datetime) -> bool:
        """Whether this worker is the one that sets the time of the next try, which only one does."""
        claimed = (
            update(RelayRefusal)
            .where(RelayRefusal.id == refusing.id, RelayRefusal.until_time == refusing.until_time, *IS_NOTICED)
            .values(until_time=until, probe_id=recipient.id)
            .returning(RelayRefusal.id)
        )
        return self._transaction.execute(claimed, execution_options={"synchronize_session": False}).first() is not None
