"""Readers of files that operators got from others."""

from __future__ import annotations

import io
from contextlib import suppress

from app.csv_files.reader import UnreadableFile, find_format, reading
from tests.scaling.reader import KIB, Reader


def read_csv(content: bytes) -> None:
    """All of it, as an import does."""
    file = io.BytesIO(content)
    with suppress(UnreadableFile), reading(file, find_format(file, str.isalpha)) as reader:
        for row in reader.rows():
            for text in row.texts:
                reader.parsed_alone(text)


IN_FILES = (
    Reader(
        "a CSV file",
        lambda text: read_csv(text.encode("latin-1")),
        ('"', ",", ";", "\n", "\r", "a", '""', "sep=;\n", "\xe9", "\xc3\xa9"),
        256 * KIB,
        head="email,name\n",
    ),
)
