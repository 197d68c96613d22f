"""The links and addresses by which a recipient or a mail server responds to a message, signed for that recipient."""

from __future__ import annotations

from typing import NamedTuple

from app.addresses import domain_of
from app.settings import Settings
from app.tracking.instrument import Instrumenter
from app.tracking.return_path import return_path, unsubscribe_address
from app.tracking.sender_hosts import NO_HOSTS, SenderHosts, settings_for
from app.tracking.tokens import SMS_RECEIPT, recipient_token
from app.tracking.unsubscribe import unsubscribe_link

COPY = "copy"
"""Replaces the token in a blind copy. It is not signed, so it identifies no recipient."""
DRY_RUN = "dry-run-00000000000"
"""Replaces the token in a message that is only shown, and is as long as one. It is not signed either."""


class FeedbackChannels(NamedTuple):
    """Links and addresses of one recipient's message, and its instrumentation."""

    unsubscribe_link: str
    unsubscribe_address: str | None
    """None without BOUNCE_DOMAIN, where this service receives mail."""
    return_path: str
    """The envelope sender, to which mail servers send reports."""
    instrumenter: Instrumenter

    def of_copy(self) -> FeedbackChannels:
        """The channels of the blind copy: its unsubscribe link is invalid, and unsubscribes nobody."""
        return self._replace(unsubscribe_link=f"{self.instrumenter.public_url}/u/{COPY}", unsubscribe_address=None)

    def of_dry_run(self) -> FeedbackChannels:
        """The channels of a message that is only shown: like those of a blind copy, nobody can unsubscribe by them. Its
        pixel and tracked links are as long as others, but nobody's: their signatures are none."""
        address, public_url = self.unsubscribe_address, self.instrumenter.public_url
        return self._replace(
            unsubscribe_link=f"{public_url}/u/{DRY_RUN}",
            unsubscribe_address=address and f"unsubscribe+{DRY_RUN}@{domain_of(address)}",
            instrumenter=Instrumenter(public_url, DRY_RUN),
        )


class SenderChannels:
    """The channels of the recipients of one sender, whose domain may have hosts of its own. What they have in common is
    made once."""

    def __init__(self, settings: Settings, from_address: str, hosts: SenderHosts = NO_HOSTS) -> None:
        self._settings = settings_for(settings, hosts)
        self._from_address = from_address
        self._instrumenter = Instrumenter.of(self._settings)

    def of_recipient(self, recipient_id: int) -> FeedbackChannels:
        """The channels of one recipient's message."""
        return FeedbackChannels(
            unsubscribe_link(self._settings, recipient_id),
            unsubscribe_address(self._settings, recipient_id),
            return_path(self._settings, recipient_id, self._from_address),
            self._instrumenter,
        )


def receipt_url(settings: Settings, recipient_id: int) -> str:
    """The URL at which an SMS gateway reports the receipt of a recipient's text message."""
    token = recipient_token(settings.secret_key, SMS_RECEIPT, recipient_id)
    return f"{settings.public_url}/inbound/kannel/dlr/{token}"
