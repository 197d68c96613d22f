"""The links and addresses by which a recipient or a mail server responds to a message, and putting them into its
bodies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from app.addresses import domain_of
from app.settings import Settings
from app.tracking.links import (
    InlineLink,
    LinkType,
    StoredLink,
    exempt_none,
    link_token,
    replace_in_html,
    replace_in_text,
)
from app.tracking.return_path import return_path, unsubscribe_address
from app.tracking.sender_hosts import NO_HOSTS, SenderHosts, settings_for
from app.tracking.tokens import OPEN, SMS_RECEIPT, recipient_token
from app.tracking.unsubscribe import unsubscribe_link

LinkIds = Mapping[tuple[str, str], int]
"""Type and URL of a stored link -> its id."""

NO_LINKS: LinkIds = {}

OWN_PAGES = ("u", "o", "c")
"""First segments of this service's own links, which are not tracked: opting out is not a click."""

_PIXEL = re.compile(
    r'<img src="[^"\s]{1,2000}/o/[A-Za-z0-9_-]{1,64}\.gif" width="1" height="1" alt="" '
    r'style="border:0;height:1px;width:1px">'
)
_BODY_END = re.compile("</body", re.IGNORECASE)


class Instrumenter(NamedTuple):
    """Adds the pixel and the tracked links of this service."""

    public_url: str
    secret_key: str

    @classmethod
    def of(cls, settings: Settings) -> Instrumenter:
        return cls(settings.public_url, settings.secret_key)

    def with_pixel(self, html: str, recipient_id: int) -> str:
        """The HTML with an invisible image before the end of its body."""
        token = recipient_token(self.secret_key, OPEN, recipient_id)
        pixel = (
            f'<img src="{self.public_url}/o/{token}.gif" width="1" height="1" alt="" '
            'style="border:0;height:1px;width:1px">'
        )
        end = max((found.start() for found in _BODY_END.finditer(html)), default=len(html))
        return html[:end] + pixel + html[end:]

    @staticmethod
    def without_pixel(html: str) -> str:
        """The HTML without that image, to be looked at: nothing in it is asked for."""
        return _PIXEL.sub("", html)

    def with_links(
        self,
        body: str,
        link_type: LinkType,
        recipient_id: int,
        links: LinkIds,
        is_exempt: Callable[[str], bool] = exempt_none,
    ) -> str:
        """The body with its links replaced by tracked ones; exempt links stay."""

        def replace(url: str) -> str | None:
            if self._is_own(url) or is_exempt(url):
                return None
            link_id = links.get((link_type, url))
            stored = None if link_id is None else StoredLink(recipient_id, link_id)
            token = link_token(self.secret_key, stored or InlineLink(recipient_id, link_type, url))
            return token and f"{self.public_url}/c/{token}"

        return replace_in_html(body, replace) if link_type == "html_email" else replace_in_text(body, replace)

    def _is_own(self, url: str) -> bool:
        return url.startswith(self.public_url) and url.startswith(
            tuple(f"{self.public_url}/{page}/" for page in OWN_PAGES)
        )


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
