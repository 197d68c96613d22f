"""Tables of the console as CSV files (docs/console.md#tables)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from flask import Response

from app.csv_files.reader import cell

Rows = Iterable[Sequence[Any]]


def csv_file(name: str, head: Sequence[str], rows: Rows) -> Response:
    """The rows as a file that the browser stores under the name; spreadsheets evaluate nothing in it. There are no more
    of them than a page of the API has."""
    return _attached(name, _text([head]) + _cells(rows))


def csv_stream(name: str, head: Sequence[str], parts: Iterable[Rows]) -> Response:
    """The same of rows that come part by part: each part is sent before the next one is read. `parts` keeps none that
    it has handed out, as a generator does: a browser may take its time."""
    return _attached(name, chain([_text([head])], map(_cells, parts)))


def _cells(rows: Rows) -> bytes:
    return _text([cell(value) for value in row] for row in rows)


def _text(rows: Rows) -> bytes:
    text = io.StringIO()
    # Quoted, so that a semicolon in a text does not start a new cell in locales where it is the separator.
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _attached(name: str, text: bytes | Iterator[bytes]) -> Response:
    disposition = f'attachment; filename="{name}"'
    return Response(text, content_type="text/csv; charset=utf-8", headers={"Content-Disposition": disposition})
