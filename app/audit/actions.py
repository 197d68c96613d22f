"""All actions of the audit log, by the kind of thing that is acted on (docs/audit.md#actions)."""

from __future__ import annotations

ACTIONS_BY_OBJECT: dict[str, tuple[str, ...]] = {
    "account": ("created", "updated", "deleted", "seeded"),
    "test_account": ("refreshed", "deleted"),
    "key": ("created", "updated", "rotated", "revoked", "deleted"),
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
    "recipient": ("retried", "exported", "released", "dropped"),
    "bulk_action": ("asked", "cancelled", "ended"),
    "secret_key": ("rotated", "retired"),
    "history": ("dropped",),
    "backup": ("taken", "restored"),
    "database": ("upgraded", "downgraded"),
}
"""Kind of thing -> what is done to it, as in `list.updated`."""
OBJECTS = tuple(ACTIONS_BY_OBJECT)
ACTIONS = tuple(f"{kind}.{verb}" for kind, verbs in ACTIONS_BY_OBJECT.items() for verb in verbs)
