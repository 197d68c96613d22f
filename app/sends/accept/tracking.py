"""Open and click tracking of a send: as the request says, else as the account is set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.sends.accept.content import Content
from app.sends.accept.draft import SendDraft
from app.sends.accept.references import SendingAccount
from app.tracking.secret_links import exempt_none, has_secret
from app.tracking.stored_links import link_rows


@dataclass(frozen=True, slots=True)
class TrackingOptions:
    """Whether opens of a send's messages and clicks on their links are tracked."""

    opens: bool
    clicks: bool
    secret_links: bool = False
    """Whether links that look as if they contained a secret are also tracked: only if the request itself says so."""

    @classmethod
    def of(cls, draft: SendDraft, account: SendingAccount) -> TrackingOptions:
        """The options of the request, with those of the account as defaults; text messages are not tracked."""
        if draft.type == "sms":
            return cls(opens=False, clicks=False)
        return cls(
            opens=account.track_opens if draft.track_opens is None else draft.track_opens,
            clicks=account.track_clicks if draft.track_clicks is None else draft.track_clicks,
            secret_links=draft.track_clicks is True,
        )

    def link_rows(self, content: Content) -> list[dict[str, Any]]:
        """The rows of the links to track."""
        if not self.clicks:
            return []
        return link_rows(content.body_html, content.body_text, exempt_none if self.secret_links else has_secret)
