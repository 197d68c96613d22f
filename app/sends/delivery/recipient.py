"""What delivery knows of one recipient besides its row: the content of its send, what was rendered for it, and how far
it has come on its route. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from app.content.render import Rendered, RenderingTooLong, size_of
from app.content.values import WildcardValues
from app.content.wildcards import AttachmentReference, Wildcard
from app.sends.delivery.sizes import MessageTooLarge


@dataclass(frozen=True, slots=True)
class SendContent:
    """A send as it was accepted."""

    id: int
    request_id: str
    creation_time: datetime
    type: str
    list_id: int | None
    unsubscribe_type: str | None
    subject: str | None
    from_name: str | None
    from_address: str
    reply_to: str | None
    bcc_address: str | None
    priority: str
    transport: str | None
    """The name of the transport that the request names."""
    body_html: str | None
    body_text: str | None
    include_unsubscribed: bool
    recipient_data_html_encoded: bool
    track_opens: bool
    track_clicks: bool
    track_secrets: bool
    time_zone: str
    """The account's time zone (docs/personalisation.md#time-zone)."""
    owner_confirmed: bool
    """Whether the account's owner has confirmed the address, as sending requires."""
    is_test: bool
    """Whether its account is a test account: its messages are captured instead of sent."""
    has_digests: bool
    """Whether its account keeps suppressions under digests (docs/privacy.md#what-is-kept)."""
    hidden_attributes: int | None
    """Attributes of contacts that fields of the list hide: a sum of `wildcard_values.HIDEABLE`."""
    relay_refuses: bool
    """Whether a transport refuses everything of its account."""
    routing_version: str | None
    """The version of the routes when the send was loaded; None while there are none."""


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


MAX_NOTE = 2000


@dataclass(slots=True)
class RouteProgress:
    """The names of the transports that may still be tried, and what became of the message at those before."""

    upcoming: list[str]
    passed: list[str] = field(default_factory=list)

    def note(self, own: str | None) -> str | None:
        """The operator's note on the attempt: which transports did not take the message, and why."""
        notes = [*self.passed, *([own] if own else [])]
        return "; ".join(notes)[:MAX_NOTE] if notes else None
