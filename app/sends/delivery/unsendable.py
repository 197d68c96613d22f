"""Messages that turn out to be unsendable once they are rendered for a recipient. Pure."""

from __future__ import annotations

from typing import ClassVar

from app.recipients.reasons import FailReason


class Unsendable(Exception):
    """A message that must not be sent; the text explains why, and `reason` is the `fail_reason` of its recipient."""

    reason: ClassVar[FailReason]


class EmptyMessage(Unsendable):
    """A text message without a text (docs/delivery.md#skipped-recipients)."""

    reason = FailReason.CONTENT_MISSING
