"""Why a run ended or stands still for another cause than the rules (`EndReason` has those). Pure."""

from __future__ import annotations

PAUSED = "paused"
"""Held: it fell due while its automation was paused."""
RESTORED = "restored"
"""Held: it came with a backup that was restored."""
DROPPED = "dropped"
"""Ended: an operator dropped it while it was held after a restore."""
CANCELLED = "cancelled"
"""Ended by hand."""
AUTOMATION_DELETED = "automation deleted"
FAILED = "failed"
"""Put off, and ended at last: a fault of ours keeps it from going on."""
