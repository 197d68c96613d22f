"""A message that its transport has certainly not taken, so that the next one of its route sends it
(docs/transports.md#failover)."""

from __future__ import annotations

from typing import NamedTuple

from app.sends.delivery.build import BuiltMessage
from app.transports.base import DeliveryResult


class PassedOn(NamedTuple):
    """The message, the name of the transport, and its answer: None if it was not asked, because it is backed off."""

    built: BuiltMessage
    transport: str
    result: DeliveryResult | None = None

    @property
    def recipient_id(self) -> int:
        return self.built.recipient.id

    @property
    def why(self) -> str:
        """For the operator."""
        if self.result is None:
            return f"not over {self.transport}: it is backed off"
        return f"not over {self.transport}: {self.result.note or self.result.reply}"
