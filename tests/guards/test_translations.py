"""The catalogues of the pages for recipients have all texts in all languages
(docs/unsubscribing.md#pages-for-recipients)."""

from __future__ import annotations

import gettext
import re

import pytest

from app.http.html_pages import CATALOGUE, LANGUAGES
from tools.translations import folder_of, renewed, texts

PLACEHOLDER = re.compile(r"%\(\w+\)s|</?\w+>")


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_every_text_is_translated(language: str) -> None:
    """A translation has the same placeholders and elements as its text. What to do if this fails: run `make
    translations`, and write what is missing."""
    catalogue = renewed(language)
    for text in texts():
        translation = catalogue.get(text).string  # type: ignore[union-attr]
        assert translation, f"{language}: {text}"
        assert sorted(PLACEHOLDER.findall(str(translation))) == sorted(PLACEHOLDER.findall(text))


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_what_is_served_is_what_translators_wrote(language: str) -> None:
    """`make translations` brings the served catalogues up to date."""
    with (folder_of(language) / f"{CATALOGUE}.mo").open("rb") as file:
        served = gettext.GNUTranslations(file)
    written = renewed(language)
    assert {text: served.gettext(text) for text in texts()} == {
        text: written.get(text).string  # type: ignore[union-attr]
        for text in texts()
    }
