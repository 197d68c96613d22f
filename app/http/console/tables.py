"""Tables of the console as CSV files (docs/console.md#tables)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from flask import Response

from app.csv_files.cells import cell


def csv_file(name: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> Response:
    """The rows as a file that the browser stores under the name; spreadsheets evaluate nothing in it."""
    text = io.StringIO()
    # Quoted, so that a semicolon in a text does not start a new cell in locales where it is the separator.
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([cell(value) for value in row] for row in rows)
    disposition = f'attachment; filename="{name}"'
    return Response(
        text.getvalue(), content_type="text/csv; charset=utf-8", headers={"Content-Disposition": disposition}
    )
