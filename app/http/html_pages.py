"""HTML pages for recipients, and the headers that tell browsers what such a page may do."""

from __future__ import annotations

import base64
import gettext
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from flask import Flask, Response, make_response, render_template, request
from markupsafe import Markup

from app.accounts.accounts import Brand
from app.errors import Code, ServiceError
from app.http.context import FAULT_KEY
from app.http.paths import first_segment
from app.http.responses import not_cached

# The language of the pages that recipients see: that of their browser (docs/unsubscribing.md#pages-for-recipients).
#
# The catalogues are gettext's, in `app/locale`. `make translations` reads the texts out of the templates and compiles
# what translators have written.

FOLDER = Path(__file__).parent.parent / "locale"
CATALOGUE = "pages"
LANGUAGES = ("en", "de", "fr", "es")
"""The first one is that of the templates."""


def language() -> str:
    """The one that the browser prefers, of those that there are, whichever country's form of it."""
    languages = (str(name).partition("-")[0].lower() for name, quality in request.accept_languages if quality > 0)
    return next((name for name in languages if name in LANGUAGES), LANGUAGES[0])


def translated(text: str) -> str:
    """The text in that language; as it is, where it has not been translated."""
    return _catalogue(language()).gettext(text)


@cache
def _catalogue(name: str) -> gettext.NullTranslations:
    return gettext.translation(CATALOGUE, FOLDER, [name], fallback=name == LANGUAGES[0])


def register(app: Flask) -> None:
    """Templates may mark texts by `{% trans %}`."""
    app.jinja_env.add_extension("jinja2.ext.i18n")
    # Values are escaped, and put into the translated text.
    app.jinja_env.install_gettext_callables(  # type: ignore[attr-defined]
        translated, lambda singular, many, count: translated(singular if count == 1 else many), newstyle=True
    )


PAGE_SEGMENTS = frozenset({"u", "p", "c"})
"""First path segments of links in messages: a recipient who follows one gets a page, also for an error."""

TEMPLATES = Path(__file__).parent.parent / "templates"


def _hash(style: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()}'"


def _own_styles() -> str:
    """The styles of the templates: nothing else is allowed."""
    texts = "".join((TEMPLATES / name).read_text("utf-8") for name in ("page.html", "recipient.html"))
    return " ".join(_hash(style) for style in re.findall(r"<style>(\n.*?)</style>", texts, re.DOTALL))


def _policy(styles: str) -> str:
    """No resource is loaded and no script runs."""
    return f"default-src 'none'; style-src {styles}; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"


OWN_STYLES = _own_styles()
SECURITY_HEADERS = {
    "Content-Security-Policy": _policy(OWN_STYLES),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def add_security_headers(response: Response) -> None:
    """Adds the headers of every response outside the API: the URLs contain tokens, and browsers open them. A page that
    runs scripts has a policy of its own."""
    for name, value in SECURITY_HEADERS.items():
        response.headers.setdefault(name, value)


def expects_html(error: ServiceError) -> bool:
    """Whether the client is a browser. An invalid request was not sent by one; a valid one that found no free thread
    may have been."""
    if first_segment() not in PAGE_SEGMENTS:
        return False
    return FAULT_KEY not in request.environ or error.code == "service_unavailable"


def recipient_page(template: str, status: int = 200, brand: Brand | None = None, **values: Any) -> Response:
    """A page for a recipient, in the language of the browser and with the brand of the sender."""
    colours = "" if brand is None or brand.colour is None else _colours(brand.colour, brand.text_colour)
    used = language()
    response = make_response(render_template(template, language=used, brand=brand, colours=colours, **values), status)
    if colours:
        response.headers["Content-Security-Policy"] = _policy(f"{OWN_STYLES} {_hash(colours)}")
    response.headers["Content-Language"] = used
    response.vary.add("Accept-Language")
    return response


def _colours(colour: str, text_colour: str) -> Markup:
    """A style with nothing but checked colours (app/accounts/accounts.py)."""
    return Markup(":root { --brand: %s; --on-brand: %s; }") % (colour, text_colour)


def dead_link_page() -> Response:
    """The page of a link that leads nowhere (any more): 404, because the client is a browser."""
    return not_cached(recipient_page("dead_link.html", 404))


def error_page(code: Code, headers: Mapping[str, str]) -> Response:
    """The error as a page for an end user."""
    response = recipient_page("error.html", code.status, message=translated(code.message))
    response.headers.update(headers)
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Robots-Tag"] = "noindex"
    return response
