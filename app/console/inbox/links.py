"""The links of a mail, with what they say and where they lead (docs/console.md#inbox)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.console.inbox.html_facts import MOST_LINKS, HtmlFacts, HtmlLink
from app.db.expressions import in_json
from app.db.models import SendLink
from app.secret_keys import SecretKeys
from app.tracking.links import InlineLink, StoredLink, links_in_source, parse_link_token
from app.transports.email.read_mail import Mail

_TRACKED = re.compile(r"/c/([A-Za-z0-9_-]{15,3000})\Z")
_SHOWN_HOST = re.compile(r"(?:https?://)?([a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,})(?:[/?#:]\S*)?", re.IGNORECASE)
"""A text that a reader takes for the address of a page."""


@dataclass(frozen=True, slots=True)
class MailLink:
    """A link: its text, its URL in the mail, and where it leads, which is elsewhere if it is tracked."""

    text: str
    url: str
    target: str

    @property
    def is_tracked(self) -> bool:
        """Whether it leads by way of this service."""
        return self.url != self.target

    @property
    def misleads(self) -> bool:
        """Whether its text is the address of another site than the one that it leads to."""
        shown = _SHOWN_HOST.fullmatch(self.text)
        if shown is None:
            return False
        said, real = (host.lower().removeprefix("www.") for host in (shown[1], _host(self.target)))
        return said != real and not real.endswith(f".{said}") and not said.endswith(f".{real}")

    @property
    def is_plain_http(self) -> bool:
        """Whether what it leads to is not encrypted on its way."""
        return self.target.lower().startswith("http:")


def links_of(
    session: Session, secret_keys: SecretKeys, account_id: int, mail: Mail, facts: HtmlFacts
) -> Sequence[MailLink]:
    """The first links of the mail: those of the HTML, or of the text without one; one statement."""
    found = facts.links if mail.html is not None else _of_text(mail.text or "")
    parsed = {one.target: _parsed(secret_keys, one.target) for one in found}
    ids = {link.link_id for link in parsed.values() if isinstance(link, StoredLink)}
    stored = _stored(session, account_id, ids) if ids else {}

    def target(url: str) -> str:
        link = parsed[url]
        if isinstance(link, InlineLink):
            return link.url
        return stored.get(link.link_id, url) if link is not None else url

    return [MailLink(one.text, one.target, target(one.target)) for one in found]


def _of_text(text: str) -> list[HtmlLink]:
    return [HtmlLink(url) for url in links_in_source("text_email", text)[:MOST_LINKS]]


def _parsed(secret_keys: SecretKeys, url: str) -> StoredLink | InlineLink | None:
    token = _TRACKED.search(url)
    return None if token is None else parse_link_token(secret_keys, token[1])


def _stored(session: Session, account_id: int, ids: Iterable[int]) -> dict[int, str]:
    of_account = select(SendLink.id, SendLink.url).where(SendLink.account_id == account_id, in_json(SendLink.id, ids))
    return {row.id: row.url for row in session.execute(of_account)}


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
