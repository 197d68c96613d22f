"""What all commands on CSV files have in common: their options, and the writing of files (docs/csv.md)."""

from __future__ import annotations

import csv
import io
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import click

from app.cli.base import WrongValue, combine_options, print_done
from app.cli.progress import progress
from app.csv_files.reader import DELIMITERS, ENCODINGS, UTF_8, FileFormat, UnreadableFile, cell

STANDARD_STREAM = "-"
"""The name of standard input or output in place of a file."""
Rows = Sequence[Mapping[str, Any]]


class Delimiter(click.ParamType[str]):
    """A character between two cells, or its name."""

    name = "delimiter"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The character."""
        sign = {**DELIMITERS, "\\t": "\t"}.get(str(value).lower(), str(value))
        if len(sign) != 1 or sign.isalnum() or sign in '"\r\n\0':
            self.fail(f"{value!r} is not {', '.join(DELIMITERS)} or another punctuation character", param, ctx)
        return sign


format_options = combine_options(
    click.option(
        "--delimiter",
        type=Delimiter(),
        help="comma, semicolon, tab, pipe or one other character that is no letter, digit or quotation mark.",
    ),
    click.option(
        "--encoding",
        type=click.Choice(ENCODINGS, case_sensitive=False),
        metavar="NAME",
        help="Such as utf-8-sig or windows-1252.",
    ),
)
"""`--delimiter` and `--encoding`."""
export_options = combine_options(
    click.argument("file", type=click.Path(dir_okay=False, writable=True, allow_dash=True)), format_options
)
"""The file of an export, and its format."""


@contextmanager
def csv_source(file: str) -> Iterator[BinaryIO]:
    """A file, to be read as often as needed: a temporary copy of what can be read only once, such as standard input.
    Raises `WrongValue` for what is no CSV."""
    try:
        with cast("BinaryIO", click.open_file(file, "rb")) as stream:
            if file != STANDARD_STREAM and Path(file).is_file():
                yield stream
                return
            with tempfile.TemporaryFile() as copy:
                shutil.copyfileobj(stream, copy)
                copy.flush()
                yield copy
    except UnreadableFile as error:
        raise WrongValue(str(error)) from None


def format_to_write(delimiter: str | None, encoding: str | None) -> FileFormat:
    """The format of a file to write."""
    return FileFormat(encoding or UTF_8, delimiter or DELIMITERS["comma"])


@contextmanager
def csv_writer(file: str, form: FileFormat, *, quoting: Literal[0, 1], errors: str = "strict") -> Iterator[Any]:
    """A writer of a file, or of standard output."""
    try:
        target = cast("BinaryIO", click.open_file(file, "wb"))
    except OSError as error:
        raise WrongValue(f"{file}: {error.strerror}") from None
    with target:
        text = io.TextIOWrapper(target, form.encoding, errors, newline="")
        try:
            yield csv.writer(text, delimiter=form.delimiter, lineterminator="\n", quoting=quoting)
        except UnicodeEncodeError as error:
            character = error.object[error.start]
            raise WrongValue(f"{character!r} cannot be written in {form.encoding}; use utf-8") from None
        finally:
            text.detach()


def export_rows(
    file: str, form: FileFormat, head: Sequence[str], pages: Iterable[Rows], total: int | None, *, as_json: bool
) -> None:
    """Writes the columns of the head of all rows; `total` is about how many they are, if that is known."""
    written = 0
    # Quoted, so that a semicolon in a text does not start a new cell in locales where it is the separator.
    with progress("Exporting", total) as advance, csv_writer(file, form, quoting=csv.QUOTE_ALL) as writer:
        writer.writerow(head)
        for page in pages:
            writer.writerows([cell(row[column]) for column in head] for row in page)
            written += len(page)
            advance(len(page))
    where = "standard output" if file == STANDARD_STREAM else file
    print_done(f"{written} exported to {where}", {"exported": written}, as_json, err=file == STANDARD_STREAM)
