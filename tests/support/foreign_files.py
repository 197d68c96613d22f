"""Files that people take for CSV, with what is said of them."""

from __future__ import annotations

import gzip
import io
import zipfile

SAVED_ANEW = "not CSV: save it as CSV UTF-8 and import the saved file"
UNPACKED = "not CSV: unpack it and import the CSV file"


def _zipped(*names: str, first: tuple[str, str] | None = None) -> bytes:
    """An archive of these files, the first of which may have a text that is not compressed."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        if first is not None:
            packed.writestr(*first, compress_type=zipfile.ZIP_STORED)
        for name in names:
            packed.writestr(name, "email\na@example.com\n")
    return archive.getvalue()


FOREIGN_FILES = [
    (
        _zipped("[Content_Types].xml", "_rels/.rels", "xl/workbook.xml"),
        f"the file is an Excel workbook (.xlsx), {SAVED_ANEW}",
    ),
    (_zipped("docProps/app.xml", "xl/worksheets/sheet1.xml"), f"the file is an Excel workbook (.xlsx), {SAVED_ANEW}"),
    (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504),
        f"the file is an Excel workbook (.xls, or one with a password), {SAVED_ANEW}",
    ),
    (
        _zipped("content.xml", first=("mimetype", "application/vnd.oasis.opendocument.spreadsheet")),
        f"the file is an OpenDocument spreadsheet (.ods), {SAVED_ANEW}",
    ),
    (_zipped("people.csv"), f"the file is packed (.zip), {UNPACKED}"),
    (_zipped(), f"the file is packed (.zip), {UNPACKED}"),
    (gzip.compress(b"email\na@example.com\n"), f"the file is packed (.gz), {UNPACKED}"),
]
"""The bytes of a file, and the whole error of an import."""
