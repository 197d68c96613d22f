"""States of a recipient, as its row and the API name them (docs/delivery.md). Pure."""

from __future__ import annotations

import enum


class RecipientState(enum.StrEnum):
    """State of one recipient, in the order of its life."""

    QUEUED = "queued"
    SENDING = "sending"
    UNCERTAIN = "uncertain"
    """The message may have arrived: resolved once its `due_time` has passed."""
    HELD = "held"
    """Restored from a backup, and maybe sent since that was made: an operator releases or drops it."""
    PAUSED = "paused"
    """Put aside, because its account, its list or the domain of its address is paused."""
    SENT = "sent"
    """A text message that the gateway has accepted and no receipt has confirmed."""
    DELIVERED = "delivered"
    BOUNCED = "bounced"
    FAILED = "failed"


SHOWN_AS_QUEUED = (RecipientState.HELD, RecipientState.PAUSED)
"""Of such a recipient clients see that it is `queued`: it is accepted, and not sent yet."""
SHOWN = tuple(state for state in RecipientState if state not in SHOWN_AS_QUEUED)
"""The states that clients see."""
UNSETTLED = (RecipientState.QUEUED, RecipientState.SENDING, RecipientState.UNCERTAIN, *SHOWN_AS_QUEUED)
"""States of a recipient that has an entry in the send queue; any other is an outcome."""
