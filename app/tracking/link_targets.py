"""The target of a tracked link: the URL in the message, encoded for a redirect."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

import idna
from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.models import Recipient, SendLink
from app.secret_keys import SecretKeys
from app.tracking.link_tokens import InlineLink, parse_link_token

PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))
"""Characters that stay as they are in a URL; all others are percent-encoded, as browsers do."""
_END_OF_HOST = re.compile(r"[/?#\\]")


@dataclass(frozen=True, slots=True)
class LinkTarget:
    """A link that a recipient follows. `link_type` is `html_email` or `text_email`."""

    recipient_id: int
    link_type: str
    url: str


def find_link_target(session: Session, secret_keys: SecretKeys, token: str) -> LinkTarget | None:
    """The target of a token; None for an invalid token, or one whose send is deleted."""
    link = parse_link_token(secret_keys, token)
    if link is None:
        return None
    if isinstance(link, InlineLink):
        return LinkTarget(link.recipient_id, link.link_type, link.url)
    statement = (
        select(SendLink.link_type, SendLink.url)
        .join(Recipient, Recipient.send_id == SendLink.send_id)
        .where(SendLink.id == link.link_id, Recipient.id == link.recipient_id)
    )
    row = session.execute(statement).one_or_none()
    return None if row is None else LinkTarget(link.recipient_id, row.link_type, row.url)


def location_header(url: str) -> str:
    """The URL for a Location header. One in ASCII without spaces stays as it is. A text that is not a URL is left to
    the browser."""
    start = url.find("//") + 2
    end = _END_OF_HOST.search(url, start)
    place = url[start : end.start() if end else len(url)]
    user, at, host = place.rpartition("@")
    name, colon, port = host.partition(":")
    return quote(url.replace(place, f"{user}{at}{_ascii(name)}{colon}{port}", 1), safe=PRINTABLE, errors="replace")


def _ascii(name: str) -> str:
    try:
        return name if name.isascii() else idna.encode(name, uts46=True).decode("ascii")
    except idna.IDNAError:
        return name
