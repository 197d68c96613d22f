"""The text alternative of a mail that has only HTML: readers without HTML see it, and spam filters look for it.

The library does the reading; what it is told here keeps the text true and its size within a few times that of the HTML:
it takes no measures from styles, and the cells of a table stand behind one another instead of in columns, which would
pad every row to the width of the widest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from inscriptis import get_text
from inscriptis.css_profiles import STRICT_CSS_PROFILE
from inscriptis.html_properties import Display
from inscriptis.model.config import ParserConfig
from inscriptis.model.html_document_state import HtmlDocumentState
from inscriptis.model.html_element import HtmlElement
from inscriptis.model.tag import CustomHtmlTagHandlerMapping
from inscriptis.model.tag.a_tag import a_start_handler
from inscriptis.model.tag.list_tag import ol_start_handler, ul_start_handler

from app.content.encoding import decode, encode

Attributes = Mapping[str, str]
Start = Callable[[HtmlDocumentState, Attributes], None]

DEEPEST_LIST = 8
"""Lists within lists that are indented; a deeper one stands below the one that it is in."""
GAP = "\x01"
"""Stands between two cells until the text is finished; the library would make one space of several."""
BLOCKS = ("table", "caption", "tr", "section", "form", "fieldset", "dl", "dt", "dd", "hr", "details", "summary")

_AMPERSAND = re.compile(r"&(?:#?\w{1,32};)?")
_LINE_ENDS = re.compile(r"[\t\r\n]+")  # browsers drop them
_SPACES = re.compile(r"\s")
_GAPS = re.compile(rf" *{GAP}[ {GAP}]*")
_HIDDEN = re.compile(r"display\s*:\s*none", re.IGNORECASE)
_BLANK_LINES = re.compile(r"\n{3,}")
_OWN_NAME = re.compile(r"\[([^\[\]\s]+)\]\(\1\)")


def plain_text(html: str) -> str:
    """What a reader sees of `html`; links are written as `[text](address)`. Empty when there is nothing to read."""
    text = get_text(_AMPERSAND.sub(_guarded, html.replace(GAP, "")), _config())
    text = "\n".join(_GAPS.sub("  ", line).rstrip() for line in text.split("\n"))
    return _BLANK_LINES.sub("\n\n", _OWN_NAME.sub(r"\1", text)).strip("\n")


def _guarded(ampersand: re.Match[str]) -> str:
    """What it stands for, encoded once more: the library decodes twice, and would read `&copy=` in a link as `©=`."""
    return encode(encode(decode(ampersand[0])))


def _config() -> ParserConfig:
    """One for each text: the library keeps the text that it is writing in the style of `body`, so with a shared one the
    threads that send would write into each other's mails."""
    css = {**_CSS, "body": HtmlElement()}
    config = ParserConfig(css, display_links=True, custom_html_tag_handler_mapping=_TAGS)
    config.attribute_handler.attribute_mapping = {"style": _style, "hidden": _hidden}
    return config


def _style(value: str, element: HtmlElement) -> None:
    if _HIDDEN.search(value):
        element.display = Display.none


def _hidden(_value: str, element: HtmlElement) -> None:
    element.display = Display.none


def _nothing(_state: HtmlDocumentState, _attributes: Attributes | None = None) -> None:
    """In place of what lays a table out."""


def _cell(state: HtmlDocumentState, _attributes: Attributes) -> None:
    cell = state.tags[-1]
    if not cell.canvas.current_block.is_empty():
        cell.write(GAP)


def _image(state: HtmlDocumentState, attributes: Attributes) -> None:
    """What is shown where images are not; it is often all the text that a link has."""
    state.tags[-1].write(attributes.get("alt", ""))


def _link(state: HtmlDocumentState, attributes: Attributes) -> None:
    """Its address in one piece: programs that make links of a text end them at a space."""
    address = _LINE_ENDS.sub("", attributes.get("href", "").strip())
    a_start_handler(state, {"href": _SPACES.sub("%20", address)})


def _list(start: Start) -> Start:
    def handler(state: HtmlDocumentState, attributes: Attributes) -> None:
        if len(state.li_counter) >= DEEPEST_LIST:
            state.tags[-1].padding_inline = 0
        start(state, attributes)

    return handler


_CSS = STRICT_CSS_PROFILE | {tag: HtmlElement(display=Display.block) for tag in BLOCKS}
_TAGS = CustomHtmlTagHandlerMapping(
    start_tag_mapping={
        **dict.fromkeys(("table", "tr"), _nothing),
        **dict.fromkeys(("td", "th"), _cell),
        **{"a": _link, "ul": _list(ul_start_handler), "ol": _list(ol_start_handler), "img": _image},
    },
    end_tag_mapping=dict.fromkeys(("table", "td", "th"), _nothing),
)
