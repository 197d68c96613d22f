"""How a recipient, or a mail server in its place, reaches this service again; all of it signed for that recipient."""

from __future__ import annotations

from typing import NamedTuple

from app.settings import Settings
from app.tracking.instrument import Instrumenter
from app.tracking.return_path import return_path, unsubscribe_address
from app.tracking.tokens import SMS_RECEIPT, recipient_token
from app.tracking.unsubscribe import unsubscribe_link

COPY = "copy"
"""Where a token would stand: nobody's, because it is not signed."""


class FeedbackChannels(NamedTuple):
    """What one recipient's message carries."""

    unsubscribe_link: str
    unsubscribe_address: str | None
    """None unless mail comes back to this service under BOUNCE_DOMAIN."""
    return_path: str
    """Its envelope sender, to which reports about it go."""
    marker: Instrumenter
    """By which it tells that it is opened and which links are followed."""

    def of_copy(self) -> FeedbackChannels:
        """What a blind copy carries: its link leads to the page of links that do not work, and unsubscribes nobody."""
        return self._replace(unsubscribe_link=f"{self.marker.public_url}/u/{COPY}", unsubscribe_address=None)


def feedback_channels(settings: Settings, recipient_id: int, from_address: str) -> FeedbackChannels:
    """Those of one recipient; `from_address` is the sender of the message."""
    return FeedbackChannels(
        unsubscribe_link(settings, recipient_id),
        unsubscribe_address(settings, recipient_id),
        return_path(settings, recipient_id, from_address),
        Instrumenter.of(settings),
    )


def receipt_url(settings: Settings, recipient_id: int) -> str:
    """The URL at which an SMS gateway reports the receipt of a recipient's text message."""
    token = recipient_token(settings.secret_key, SMS_RECEIPT, recipient_id)
    return f"{settings.public_url}/inbound/kannel/dlr/{token}"
