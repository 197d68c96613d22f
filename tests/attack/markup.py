"""What a browser would make of a page of the console: elements and attributes that none of its templates has were
written by somebody else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

from tests.attack.console import ConsoleAnswer

FORBIDDEN = frozenset({"object", "embed", "applet", "base", "style", "template", "frame", "frameset", "math", "portal"})
LEADING = frozenset({"href", "src", "action", "formaction", "data", "poster", "hx-get", "hx-post", "xlink:href"})
"""Attributes that make a browser ask for something."""
OWN = re.compile(r"(/console|/docs|#|\?)[!-~]*|")
"""What they may say: a path of the console, or a part of the page."""
ASSET = re.compile(r"/console/assets/[0-9a-f]+/[\w.]+")
IMAGES = re.compile(r"https?://[^/\s]+/console/[\w/-]+/image")
"""The addresses of the images of one mail."""
CLIMBING = re.compile(r"[\\\s]|/(\.|%2e){1,2}(/|\Z)|(?<!:)//", re.IGNORECASE)
"""What browsers read as another path."""


class Reader(HTMLParser):
    """Reads a page as a browser does."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.faults: list[str] = []
        self.fields: dict[str, str] = {}
        """Names and values of the fields of forms."""
        self._in_script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in FORBIDDEN or (tag == "iframe" and "sandbox" not in given):
            self.faults.append(f"<{tag}>")
        if tag == "script" and not ASSET.fullmatch(given.get("src", "")):
            self.faults.append(f"a script from {given.get('src')!r}")
        refreshes = tag == "meta" and given.get("http-equiv", "").lower() == "refresh"
        if refreshes and given.get("content") not in ("0", WAITING):
            self.faults.append(f"it leads to {given.get('content')!r}")
        if tag in ("input", "select", "textarea") and "name" in given:
            self.fields[given["name"]] = given.get("value", "")
        self._in_script = tag == "script"
        self.faults += [f"<{tag} {name}={value!r}>" for name, value in given.items() if not _is_meant(name, value)]

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False

    def handle_data(self, data: str) -> None:
        if self._in_script and data.strip():
            self.faults.append(f"a script on the page: {data[:100]!r}")


def _is_meant(name: str, value: str) -> bool:
    if name.startswith(("on", "hx-on")) or name in ("style", "srcdoc", "hx-vals", "hx-headers"):
        return False
    return name not in LEADING or (OWN.fullmatch(value) is not None and not CLIMBING.search(value.partition("?")[0]))


def read(answer: ConsoleAnswer) -> Reader:
    """The page as a browser reads it."""
    reader = Reader()
    if answer.is_page:
        reader.feed(answer.text)
        reader.close()
    return reader


def faults(answer: ConsoleAnswer) -> Iterator[str]:
    """What is wrong with an answer, whatever was asked."""
    headers = answer.headers
    rules: dict[str, Any] = {}
    for rule in headers.get("Content-Security-Policy", "").split(";"):
        name, *sources = rule.split() or [""]
        rules[name] = sources
    rules = _without_images(rules)
    is_framed = rules == FRAMED
    allowed = {source for name, sources in rules.items() for source in sources if not is_framed or name != "style-src"}
    if not allowed <= {"'none'", "'self'", "data:"} or "data:" in rules.get("script-src", ()):
        yield f"its policy is {rules}"
    if rules.get("default-src") != ["'none'"] or rules.get("base-uri") != ["'none'"] or "form-action" not in rules:
        yield f"its policy is {rules}"
    if rules.get("frame-ancestors") not in (["'none'"], ["'self'"]):
        yield f"it may be framed: {rules}"
    for name, expected in WANTED.items():
        if headers.get_all(name) != [expected]:
            yield f"{name} is {headers.get_all(name)}"
    is_asset = answer.status == 200 and ASSET.fullmatch(answer.path) is not None
    if headers.get("Cache-Control") != "no-store" and not is_asset:
        yield f"it may be stored: {headers.get('Cache-Control')}"
    if open_ := [name for name in headers if name.lower().startswith("access-control-")]:
        yield f"pages of others may read it: {open_}"
    if answer.target and not is_own(answer.target):
        yield f"it leads to {answer.target!r}"
    if answer.status >= 500:
        yield f"it failed: {answer.status}"
    if not is_framed:
        yield from read(answer).faults


def _without_images(rules: dict[str, Any]) -> dict[str, Any]:
    """The policy of the HTML of a mail as it is without attached images, of which it may load those at one path."""
    first, *images = rules.get("img-src", [""])
    if rules.get("sandbox") != ["allow-same-origin"] or not images or "script-src" in rules:
        return rules
    if not all(IMAGES.fullmatch(source) for source in images):
        return rules
    return {**rules, "sandbox": [], "img-src": [first]}


FRAMED = {
    "sandbox": [],
    **{name: ["'none'"] for name in ("default-src", "form-action", "base-uri")},
    "img-src": ["data:"],
    "style-src": ["'unsafe-inline'"],
    "frame-ancestors": ["'self'"],
}
"""The policy with which the HTML of a mail is shown: whatever stands in it, a browser neither runs nor loads it."""
WANTED = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of each answer."""


WAITING = "1; url=/console/sign-in/provider"
"""Where the page of an attempt to sign in leads."""


def is_own(target: str) -> bool:
    """Whether a redirect leads to a page of the console."""
    return re.fullmatch(r"/console([/?][!-~]*)?", target) is not None and not CLIMBING.search(target.partition("?")[0])
