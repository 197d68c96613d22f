"""The links of a send that are the same for all recipients: stored at acceptance, loaded for delivery."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from functools import lru_cache
from itertools import islice
from typing import Any

from sqlalchemy import String, bindparam, select
from sqlalchemy.orm import Session

from app.db.expressions import in_json, json_array
from app.db.models import SendLink
from app.db.prepared import PreparedStatement
from app.tracking.links import LinkType, links_in_source
from app.tracking.secret_links import exempt_none

MAX_LINKS = 500
"""Links of one body that are stored; further ones are inline in their tokens."""
MAX_URL_BYTES = 2000
"""Bytes of a stored URL; a longer one does not fit into an index entry."""
MAX_CACHED_LENGTH = 100_000
"""Characters of a template whose links are cached, because the same few messages are sent again and again."""

LINKS = PreparedStatement(
    select(SendLink.send_id, SendLink.link_type, SendLink.url, SendLink.id).where(
        in_json(SendLink.send_id, bindparam("send_ids", type_=String))
    )
)


def link_rows(
    body_html: str | None, body_text: str | None, is_exempt: Callable[[str], bool] = exempt_none
) -> list[dict[str, Any]]:
    """Rows of the tracked links of a send's bodies. A text that is generated from the HTML has the links of the
    HTML."""
    of_html = _links("html_email", body_html or "")
    found: dict[LinkType, tuple[str, ...]] = {
        "html_email": of_html,
        "text_email": of_html if body_text is None else _links("text_email", body_text),
    }
    return [
        {"link_type": link_type, "url": url} for link_type, urls in found.items() for url in urls if not is_exempt(url)
    ]


def find_links(session: Session, send_ids: Collection[int]) -> dict[int, dict[tuple[str, str], int]]:
    """The stored links of each send: type and URL -> id; one select, and none for no sends."""
    found: dict[int, dict[tuple[str, str], int]] = defaultdict(dict)
    if not send_ids:
        return found
    for send_id, link_type, url, link_id in LINKS.tuples(session, send_ids=json_array(send_ids)):
        found[send_id][link_type, url] = link_id
    return found


def _links(link_type: LinkType, source: str) -> tuple[str, ...]:
    found = _cached_links if len(source) <= MAX_CACHED_LENGTH else _first_links
    return found(link_type, source)


def _first_links(link_type: LinkType, source: str) -> tuple[str, ...]:
    fitting = (url for url in links_in_source(link_type, source) if len(url.encode()) <= MAX_URL_BYTES)
    return tuple(islice(fitting, MAX_LINKS))


_cached_links = lru_cache(maxsize=64)(_first_links)
