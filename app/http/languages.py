"""The language of the pages that recipients see: that of their browser (docs/inbound.md#pages-for-recipients).

The catalogues are gettext's, in `app/locale`. `make translations` reads the texts out of the templates and compiles
what translators have written.
"""

from __future__ import annotations

import gettext
from functools import cache
from pathlib import Path

from flask import Flask, request

FOLDER = Path(__file__).parent.parent / "locale"
CATALOGUE = "pages"
LANGUAGES = ("en", "de", "fr", "es")
"""The first one is that of the templates."""


def language() -> str:
    """The one that the browser prefers, of those that there are, whichever country's form of it."""
    wanted = (str(name).partition("-")[0].lower() for name, quality in request.accept_languages if quality > 0)
    return next((name for name in wanted if name in LANGUAGES), LANGUAGES[0])


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
        translated, lambda one, many, count: translated(one if count == 1 else many), newstyle=True
    )
