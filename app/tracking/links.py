"""Finding and replacing the links of a body. Pure, and in time linear in the body's length, whatever it contains.

The number of links per body is limited: a send is searched when it is accepted, and each of its mails when it is built,
while other messages wait.

In HTML a link is the `href` of an `a` or `area`; in text it is a URL that begins with http:// or https://. Other
schemes and relative URLs (mailto:, tel:, #, cid:) are not links.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from app.content.encoding import decode, encode
from app.content.wildcards import DELIMITER

LinkType = Literal["html_email", "text_email"]
Replace = Callable[[str], str | None]
"""Returns the URL that replaces the one found, or None to keep it."""

_TAG = re.compile(r"<(?:a|area)(?=[\s/])", re.IGNORECASE)
_ATTRIBUTE = re.compile(
    r"""[\s/]*([^\s/>=][^\s/>=]*+)(?:\s*+=\s*+(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s>"'][^\s>]*+)))?"""
)
_END = re.compile(r"[\s/]*>")
_WEB = re.compile(r"https?://[^\s/?#]", re.IGNORECASE)
_TEXT_URL = re.compile(r"https?://[^\s<>\"]+", re.IGNORECASE)
_DROPPED_BY_BROWSERS = re.compile(r"[\t\r\n]+")
_PUNCTUATION = ".,;:!?'"
"""Characters at the end of a URL in a text that belong to the surrounding sentence."""
_OPENING = {")": "(", "]": "["}

MAX_SCANNED = 5_000
"""Tags in HTML, URLs in a text. Further ones are not replaced."""


def replace_in_html(body: str, replace: Replace) -> str:
    """The HTML with links replaced; everything else is kept byte for byte."""
    pieces: list[str] = []
    position = 0
    for start, end, url in _links_in_html(body):
        new = replace(url)
        if new is not None:
            pieces += [body[position:start], f'"{encode(new)}"']
            position = end
    pieces.append(body[position:])
    return "".join(pieces)


def replace_in_text(body: str, replace: Replace) -> str:
    """The text with links replaced."""

    def replaced(found: re.Match[str]) -> str:
        url = _without_punctuation(found[0])
        new = replace(url) if _WEB.match(url) else None
        return found[0] if new is None else new + found[0][len(url) :]

    return _TEXT_URL.sub(replaced, body, count=MAX_SCANNED)


def written_links(link_type: LinkType, source: str) -> list[str]:
    """The distinct links of a template as they are written, in their order."""
    found: dict[str, None] = {}

    def note(url: str) -> None:
        found[url] = None

    replace = replace_in_html if link_type == "html_email" else replace_in_text
    replace(source, note)
    return list(found)


def links_in_source(link_type: LinkType, source: str) -> list[str]:
    """The distinct links of a template that are the same for all recipients, in their order.

    A URL with a wildcard differs between recipients.
    """
    return [url for url in written_links(link_type, source) if DELIMITER not in url]


def _links_in_html(body: str) -> list[tuple[int, int, str]]:
    """Start and end of each attribute value with its quotes, and the decoded URL."""
    found: list[tuple[int, int, str]] = []
    position = 0
    for _ in range(MAX_SCANNED):
        tag = _TAG.search(body, position)
        if tag is None:
            break
        position = tag.end()
        href: tuple[int, int, str] | None = None
        while not (end := _END.match(body, position)):
            attribute = _ATTRIBUTE.match(body, position)
            if attribute is None:
                return found  # an unclosed tag: browsers ignore everything after it, too
            position = attribute.end()
            if href is None and attribute[1].lower() == "href":
                href = _value(attribute)
        position = end.end()
        if href and _WEB.match(href[2]):
            found.append(href)
    return found


def _value(attribute: re.Match[str]) -> tuple[int, int, str]:
    """Start, end and URL of an attribute's value; empty if it has none."""
    for name in ("double", "single", "bare"):
        if attribute[name] is not None:
            quotes = 0 if name == "bare" else 1
            url = _DROPPED_BY_BROWSERS.sub("", decode(attribute[name]).strip())
            return attribute.start(name) - quotes, attribute.end(name) + quotes, url
    return attribute.end(), attribute.end(), ""


def _without_punctuation(url: str) -> str:
    """The URL without the punctuation that follows it; a closing bracket belongs to it if the URL opens one."""
    end = len(url.rstrip(_PUNCTUATION + ")]"))
    unclosed = {close: url.count(opening, 0, end) - url.count(close, 0, end) for close, opening in _OPENING.items()}
    while end < len(url) and unclosed.get(url[end], 0) > 0:
        unclosed[url[end]] -= 1
        end += 1
    return url[:end]
