"""Messages that are not sent for what they turn out to be once they are made for a recipient. Pure."""

from __future__ import annotations

from typing import ClassVar


class Unsendable(Exception):
    """A message that is not sent; the text says why, and `reason` is the `fail_reason` of its recipient."""

    reason: ClassVar[str]


class EmptyMessage(Unsendable):
    """A text message without a text (docs/delivery.md#skipped-recipients)."""

    reason = "content_missing"
