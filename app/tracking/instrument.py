"""Open and click instrumentation of a message: the pixel and the tracked links. Pure; runs once per message.

Bodies have been rendered already, so `%%` markers have no meaning here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from app.settings import Settings
from app.tracking.link_tokens import InlineLink, StoredLink, link_token
from app.tracking.links import LinkType, replace_in_html, replace_in_text
from app.tracking.secret_links import exempt_none
from app.tracking.tokens import OPEN, recipient_token

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
