"""Keeps the catalogues of the pages for recipients: `python -m tools.translations`, which is `make translations`.

Reads the texts out of the templates and the error catalogue into `app/locale/LANGUAGE/LC_MESSAGES/pages.po`, where
translators write theirs, and compiles these to the `pages.mo` that the service reads.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_file
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from app.distribution import NAME
from app.errors import TYPE_LEVEL
from app.http.html_pages import CATALOGUE, FOLDER, LANGUAGES

TEMPLATES = FOLDER.parent / "templates"
RECIPIENT_TEMPLATES = ("recipient.html", "unsubscribe.html", "preferences.html", "dead_link.html", "error.html")
HEADER = "# Pages for recipients. `make translations` adds the texts; translators write theirs below each."
TRANSLATORS = "the translators"
FIXED_TIME = datetime(2026, 1, 1, tzinfo=UTC)
"""In place of the time of each run: the files change only with their texts."""


def texts() -> Iterator[str]:
    """Each text once, in the order of the pages."""
    seen = set()
    for name in RECIPIENT_TEMPLATES:
        for _, message, _, _ in extract_from_file("jinja2.ext.babel_extract", TEMPLATES / name):
            seen.add(str(message))
            yield str(message)
    yield from dict.fromkeys(code.message for code in TYPE_LEVEL.values() if code.message not in seen)


def folder_of(language: str) -> Path:
    """Where the files of the language are."""
    return FOLDER / language / "LC_MESSAGES"


def renewed(language: str) -> Catalog:
    """The catalogue with the texts of now, and the translations that are there."""
    file = folder_of(language) / f"{CATALOGUE}.po"
    before = Catalog(locale=language) if not file.exists() else _read(file, language)
    catalogue = Catalog(
        language,
        project=NAME,
        version="1",
        header_comment=HEADER,
        fuzzy=False,
        creation_date=FIXED_TIME,
        revision_date=FIXED_TIME,
        last_translator=TRANSLATORS,
        language_team=TRANSLATORS,
        msgid_bugs_address=TRANSLATORS,
    )
    for text in texts():
        message = before.get(text)
        catalogue.add(text, message.string if message is not None else "")
    return catalogue


def _read(file: Path, language: str) -> Catalog:
    with file.open("rb") as opened:
        return read_po(opened, locale=language)


def files_of(catalogue: Catalog) -> dict[str, bytes]:
    """The two files, by their names."""
    source, compiled = io.BytesIO(), io.BytesIO()
    write_po(source, catalogue, width=0, omit_header=False)
    write_mo(compiled, catalogue)
    return {f"{CATALOGUE}.po": source.getvalue(), f"{CATALOGUE}.mo": compiled.getvalue()}


def main() -> int:
    """Writes the files; the exit status is 1 if a text has no translation."""
    missing = 0
    for language in LANGUAGES[1:]:
        catalogue, folder = renewed(language), folder_of(language)
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files_of(catalogue).items():
            (folder / name).write_bytes(content)
        for message in catalogue:
            if message.id and not message.string:
                print(f"{language}: not translated: {message.id}", file=sys.stderr)
                missing = 1
    return missing


if __name__ == "__main__":
    sys.exit(main())
