"""What the HTML of a mail has in it: links with their texts, images, and how much text. Pure, and linear in its
length."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.content.encoding import decode
from app.content.plain_text import Tag, parse_html

MOST_LINKS = 200
MOST_TEXT = 200
"""Characters of the text of a link."""


@dataclass(slots=True)
class HtmlLink:
    """A link as a reader sees it; an image in it counts by its `alt`."""

    target: str
    text: str = ""


@dataclass(slots=True)
class HtmlFacts:
    """`words` counts those of the text; `remote_images` are loaded from elsewhere."""

    links: list[HtmlLink] = field(default_factory=list)
    images: int = 0
    remote_images: int = 0
    without_alt: int = 0
    words: int = 0


def html_facts(html: str) -> HtmlFacts:
    """The facts of the HTML, with its first links."""
    facts, inside = HtmlFacts(), None
    for piece in parse_html(html):
        if isinstance(piece, str):
            facts.words += len(piece.split())
            _add_text(inside, decode(piece))
        elif piece.name == "a":
            inside = None if piece.closing else _link(facts, piece)
        elif piece.name == "img" and not piece.closing:
            _add_text(inside, _image(facts, piece))
    for one in facts.links:
        one.text = " ".join(one.text.split())
    return facts


def _link(facts: HtmlFacts, tag: Tag) -> HtmlLink | None:
    target = tag.attributes().get("href", "").strip()
    if not target or len(facts.links) >= MOST_LINKS:
        return None
    facts.links.append(HtmlLink(target))
    return facts.links[-1]


def _image(facts: HtmlFacts, tag: Tag) -> str:
    attributes = tag.attributes()
    facts.images += 1
    facts.remote_images += attributes.get("src", "").strip().lower().startswith(("http:", "https:", "//"))
    facts.without_alt += "alt" not in attributes
    return attributes.get("alt", "")


def _add_text(link: HtmlLink | None, text: str) -> None:
    if link is not None and len(link.text) < MOST_TEXT:
        link.text = (link.text + text)[:MOST_TEXT]
