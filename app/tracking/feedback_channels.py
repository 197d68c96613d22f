"""How a recipient, or a mail server in its place, reaches this service again; each way is signed for that recipient."""

from __future__ import annotations

from typing import NamedTuple

from app.settings import Settings
from app.tracking.instrument import Instrumenter
from app.tracking.return_path import return_path, unsubscribe_address
from app.tracking.tokens import SMS_RECEIPT, recipient_token
from app.tracking.unsubscribe import unsubscribe_link

COPY = "copy"
"""Stands in place of a token; names no recipient, because it is not signed."""


class FeedbackChannels(NamedTuple):
    """Links and addresses of one recipient's message, and its instrumentation."""

    unsubscribe_link: str
    unsubscribe_address: str | None
    """None unless mail comes back to this service under BOUNCE_DOMAIN."""
    return_path: str
    """Its envelope sender, to which reports about it go."""
    instrumenter: Instrumenter

    def of_copy(self) -> FeedbackChannels:
        """Those of a blind copy: its link leads to the page of invalid links, and unsubscribes nobody."""
        return self._replace(unsubscribe_link=f"{self.instrumenter.public_url}/u/{COPY}", unsubscribe_address=None)


def feedback_channels(settings: Settings, recipient_id: int, from_address: str) -> FeedbackChannels:
    """`from_address` is the sender of the message."""
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
