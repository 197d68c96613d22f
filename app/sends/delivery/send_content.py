"""The columns of a send from which its messages are composed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


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
