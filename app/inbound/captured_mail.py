"""What a mail program finds in a captured mail: the pixel, the tracked links, the link that unsubscribes. Pure.

A mail without the one cannot be opened, without the others not be clicked, in a simulation as in life.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from email import message_from_bytes
from email.message import Message
from itertools import islice

MOST_LINKS = 100
"""Links that are looked at: a body may have been written with any number that are not genuine."""
_PIXEL = re.compile(r"/o/([A-Za-z0-9_-]{15,24})\.gif")
_LINK = re.compile(r"/c/([A-Za-z0-9_-]{15,3000})")
_OPT_OUT = re.compile(r"/u/([A-Za-z0-9_-]{15,24})>")


@dataclass(frozen=True, slots=True)
class CapturedLinks:
    """Tokens of links in their order, genuine or not. `links` has those of the HTML, or of the text without one."""

    pixels: tuple[str, ...]
    links: tuple[str, ...]
    opt_outs: tuple[str, ...]
    """Of the header that mail programs show as a button (RFC 8058)."""


def captured_links(mail: bytes) -> CapturedLinks:
    """The tokens in a mail that this service has composed."""
    message = message_from_bytes(mail)
    html, text = _body(message, "text/html"), _body(message, "text/plain")
    one_click = "List-Unsubscribe-Post" in message
    return CapturedLinks(
        pixels=_tokens(_PIXEL, html),
        links=_tokens(_LINK, html or text),
        opt_outs=_tokens(_OPT_OUT, str(message.get("List-Unsubscribe", ""))) if one_click else (),
    )


def _body(message: Message, content_type: str) -> str:
    """The first part of the type that is not attached; empty if there is none."""
    part = next(_parts(message, content_type), None)
    content = part.get_payload(decode=True) if part else None
    return content.decode("utf-8", "replace") if isinstance(content, bytes) else ""


def _parts(message: Message, content_type: str) -> Iterator[Message]:
    return (
        part
        for part in message.walk()
        if part.get_content_type() == content_type and part.get_content_disposition() != "attachment"
    )


def _tokens(form: re.Pattern[str], text: str) -> tuple[str, ...]:
    return tuple(islice((found[1] for found in form.finditer(text)), MOST_LINKS))
