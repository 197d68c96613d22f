"""The encoding of a file: told by its first bytes, or found by reading all of it (docs/cli.md#csv-files).

A file that is not UTF-8 throughout is assumed to be Windows-1252, which spreadsheets write in western Europe and
America. It is not if most of what is beyond ASCII is valid UTF-8: that is a damaged file in UTF-8, every name in which
the assumption would garble.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import BinaryIO

from app.csv_files.source import BLOCK, START, UnreadableFile

UTF_8 = "utf-8"
ASSUMED = "windows-1252"
ENCODINGS = (
    *(UTF_8, "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"),
    *(f"windows-{page}" for page in range(1250, 1259)),
    *(f"iso-8859-{part}" for part in (*range(1, 12), *range(13, 17))),
    *("mac-roman", "cp437", "cp850", "cp852", "koi8-r", "shift_jis", "euc-jp", "euc-kr", "gb18030", "big5"),
)
"""Those that a command accepts by name. `utf-8-sig` is UTF-8 with the mark at the beginning by which spreadsheets
recognise it."""

MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte order marks; that of UTF-32 begins like that of UTF-16."""
BROKEN = re.compile("[\udc80-\udcff]")
"""A byte that is not UTF-8, as the error handler `surrogateescape` decodes it."""
BEYOND_ASCII = re.compile("[^\x00-\x7f]")


def find_encoding(file: BinaryIO) -> str:
    """The encoding, one of `ENCODINGS`. Raises `UnreadableFile` for a damaged file."""
    file.seek(0)
    start = file.read(START)
    told = next((name for mark, name in MARKS if start.startswith(mark)), None) or _utf_16_without_mark(start)
    return told or _utf_8_or_assumed(file)


def _utf_16_without_mark(start: bytes) -> str | None:
    """UTF-16, if every other byte is mostly null, as in texts of which most is Latin."""
    even, odd = start[::2].count(0), start[1::2].count(0)
    if max(even, odd) * 8 <= len(start) or min(even, odd) * 8 > max(even, odd):
        return None
    return "utf-16-le" if odd > even else "utf-16-be"


def _utf_8_or_assumed(file: BinaryIO) -> str:
    broken = characters = lines = 0
    first_broken = None
    for text in _decoded(file, UTF_8, "surrogateescape"):
        if not text.isascii():
            found = BROKEN.search(text)
            if found is not None and first_broken is None:
                first_broken = lines + text.count("\n", 0, found.start()) + 1
            faults = len(BROKEN.findall(text)) if found else 0
            broken += faults
            characters += len(BEYOND_ASCII.findall(text)) - faults
        lines += text.count("\n")
    if first_broken is None:
        return UTF_8
    if characters > broken:
        raise UnreadableFile(
            f"line {first_broken} is not UTF-8, but most of the other characters beyond ASCII are: the file is damaged "
            "there. Mend the line, or name the encoding of the file with --encoding"
        )
    return ASSUMED


def check_encoding(file: BinaryIO, encoding: str) -> None:
    """Raises `UnreadableFile`, with the line, if the file does not have the encoding."""
    lines = 0
    try:
        for text in _decoded(file, encoding, "strict"):
            lines += text.count("\n")
    except UnicodeError as error:
        if isinstance(error, UnicodeDecodeError):
            lines += error.object[: error.start].count(b"\n")
        named = "" if encoding != ASSUMED else " Name its encoding with --encoding"
        raise UnreadableFile(f"line {lines + 1} is not {encoding}.{named}".removesuffix(".")) from None


def _decoded(file: BinaryIO, encoding: str, errors: str) -> Iterator[str]:
    file.seek(0)
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    while block := file.read(BLOCK):
        yield decoder.decode(block)
    yield decoder.decode(b"", final=True)
