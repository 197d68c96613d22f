"""What is rendered for one recipient. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from app.content.render import Rendered, RenderingTooLong, size_of
from app.content.values import WildcardValues
from app.content.wildcards import AttachmentReference, Wildcard
from app.sends.delivery.size_limits import MessageTooLarge

Render = Callable[[WildcardValues, Mapping[str, str], int], Rendered]
Unfilled = Mapping[str, tuple[Wildcard | AttachmentReference, ...]]
"""Attribute of the send -> what its rendering outputs that has no value."""


class RenderedContent(NamedTuple):
    """Subject and bodies of one message, before tracking is added."""

    subject: str
    html: str | None
    text: str | None

    @property
    def size(self) -> int:
        """Bytes of subject and bodies."""
        return sum(map(size_of, filter(None, self)))


def render_part(name: str, limit: int, render: Render, values: WildcardValues, names: Mapping[str, str]) -> str:
    """One part for one recipient. Raises `MessageTooLarge` for more than `limit` bytes."""
    try:
        return render(values, names, limit).text
    except RenderingTooLong:
        raise MessageTooLarge(f"{name} has more than {limit} bytes once it is filled in") from None
