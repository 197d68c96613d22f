"""Tables of the console as CSV files (docs/console.md#tables)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from flask import Response

from app.csv_files.cells import cell

Rows = Iterable[Sequence[Any]]


def csv_file(name: str, head: Sequence[str], rows: Rows) -> Response:
    """The rows as a file that the browser stores under the name; spreadsheets evaluate nothing in it."""
    return _attached(name, "".join(_texts(head, [rows])))


def csv_stream(name: str, head: Sequence[str], parts: Iterable[Rows]) -> Response:
    """The same of rows that come part by part: each part is sent before the next one is read."""
    return _attached(name, _texts(head, parts))


def _texts(head: Sequence[str], parts: Iterable[Rows]) -> Iterator[str]:
    yield _text([head])
    for rows in parts:
        yield _text([cell(value) for value in row] for row in rows)


def _text(rows: Rows) -> str:
    text = io.StringIO()
    # Quoted, so that a semicolon in a text does not start a new cell in locales where it is the separator.
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _attached(name: str, text: str | Iterator[str]) -> Response:
    disposition = f'attachment; filename="{name}"'
    return Response(text, content_type="text/csv; charset=utf-8", headers={"Content-Disposition": disposition})
