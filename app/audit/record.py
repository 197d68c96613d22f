"""Recording acts: what a transaction has done is inserted right before its commit, in one statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from app.audit.actor import current_actor
from app.audit.values import Change, without_addresses
from app.clock import this_second
from app.db.bulk import insert_rows_last
from app.db.database import Database, Transaction
from app.db.models import AuditEntry
from app.db.prepared import DriverStatement

# All actions of the audit log, by the kind of thing that is acted on (docs/audit.md#actions).

ACTIONS_BY_OBJECT: dict[str, tuple[str, ...]] = {
    "account": ("created", "updated", "deleted", "seeded"),
    "test_account": ("refreshed", "deleted"),
    "key": ("created", "updated", "rotated", "revoked", "restored", "deleted"),
    "domain": ("created", "updated", "verified", "deleted"),
    "sender": ("created", "updated", "deleted"),
    "list": ("created", "updated", "deleted", "imported", "exported"),
    "contact": ("created", "updated", "deleted"),
    "person": ("exported", "forgotten"),
    "suppression": ("added", "removed", "imported", "exported"),
    "message": ("created", "updated", "deleted"),
    "webhook": (
        *("created", "updated", "deleted", "tested", "replayed"),
        *("redelivered", "released", "dropped"),
    ),
    "automation": ("created", "updated", "paused", "resumed", "deleted", "released", "dropped"),
    "run": ("cancelled",),
    "session": ("offered", "started", "ended"),
    "transport": ("created", "updated", "deleted", "tested"),
    "route": ("created", "updated", "deleted"),
    "pause": ("created", "ended"),
    "recipient": ("retried", "cancelled", "exported", "released", "dropped"),
    "bulk_action": ("asked", "cancelled", "ended"),
    "secret_key": ("rotated", "retired", "adopted"),
    "history": ("dropped",),
    "backup": ("taken", "restored"),
    "database": ("upgraded", "downgraded"),
}
"""Kind of thing -> what is done to it, as in `list.updated`."""
OBJECTS = tuple(ACTIONS_BY_OBJECT)
ACTIONS = tuple(f"{kind}.{verb}" for kind, verbs in ACTIONS_BY_OBJECT.items() for verb in verbs)


PENDING_KEY = "audit"

ObjectKey = tuple[str, str]
"""Kind and id of what was acted on."""


@dataclass(slots=True)
class Act:
    """One act. `object_kind` is the first part of the action unless it is given."""

    action: str
    account_id: int | None = None
    object_id: int | str | None = None
    name: str | None = None
    object_kind: str = ""
    address_digest: str | None = None
    changes: list[Change] = field(default_factory=list)
    counts: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise ValueError(f"{self.action!r} is no action of the audit log")
        self.object_kind = self.object_kind or self.action.partition(".")[0]

    @property
    def key(self) -> ObjectKey | None:
        """What was acted on, if it has an id."""
        return None if self.object_id is None else (self.object_kind, str(self.object_id))

    def row(self) -> dict[str, Any]:
        """The columns of the act, without those that all acts of a transaction share."""
        return {
            "account_id": self.account_id,
            "action": self.action,
            "object": self.object_kind,
            "object_id": None if self.object_id is None else str(self.object_id),
            "object_name": None if self.name is None else without_addresses(self.name),
            "address_digest": self.address_digest,
            "changes": self.changes,
            "counts": dict(self.counts),
        }


def record(transaction: Transaction, act: Act) -> None:
    """Records an act in the transaction of its change. Where the ORM notices changes of the same thing, they become
    part of it."""
    pending_of(transaction).recorded.append(act)


def record_at_once(database: Database, act: Act) -> None:
    """Records an act in a transaction of its own. One that takes many transactions or hands out data is recorded before
    it begins: so it is in the log, however it ends."""
    with database.write() as transaction:
        record(transaction, act)


@contextmanager
def recorded_as_one(transaction: Transaction, act: Act) -> Iterator[None]:
    """Records the changes inside the block as this one act, if there are any."""
    transaction.flush()
    pending = pending_of(transaction)
    kept, pending.noticed = pending.noticed, {}
    try:
        yield
        transaction.flush()
        if pending.noticed:
            pending.recorded.append(act)
    finally:
        pending.noticed = kept


class PendingActs:
    """The acts of a transaction; called at its end, it inserts them."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self.recorded: list[Act] = []
        self.noticed: dict[ObjectKey, Act] = {}
        """What the ORM has written, one act for each thing."""

    def __call__(self) -> list[DriverStatement]:
        acts = self._merged()
        if not acts:
            return []
        actor = current_actor()
        shared = {
            **{"time": this_second(), "actor_kind": actor.kind, "actor": without_addresses(actor.name)},
            **{"key_id": actor.key_id, "source": actor.source, "via": actor.via, "request_id": actor.request_id},
        }
        return insert_rows_last(self._transaction, AuditEntry, [act.row() for act in acts], shared)

    def _merged(self) -> list[Act]:
        noticed = dict(self.noticed)
        for act in self.recorded:
            same = noticed.get(act.key) if act.key else None
            if same is not None and same.action.endswith(".updated"):
                act.changes = [*same.changes, *act.changes]
                act.name = act.name or same.name
                del noticed[(act.object_kind, str(act.object_id))]
        return [*noticed.values(), *self.recorded]


def pending_of(transaction: Transaction) -> PendingActs:
    """The acts of the transaction so far."""
    pending = transaction.at_commit.get(PENDING_KEY)
    if not isinstance(pending, PendingActs):
        pending = transaction.at_commit[PENDING_KEY] = PendingActs(transaction)
    return pending
