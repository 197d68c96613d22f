"""Errors of a seed file, each with the path of its value, as in `accounts[0].lists[1].fields[2].type`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from app.errors import CATALOGUE, FieldError, ServiceError
from app.plain_data import joined


class SeedError(Exception):
    """An invalid seed file; the text is a line that begins with the invalid path, and such a line for each further
    error."""

    def __init__(self, path: str, message: str, further: Iterable[SeedError] = ()) -> None:
        super().__init__("\n       ".join((f"{path}: {message}" if path else message, *map(str, further))))
        self.path = path


@contextmanager
def located(path: str, paths: Mapping[str, str] | None = None, *, most: int = 1) -> Iterator[None]:
    """Turns the errors of a use case into a `SeedError` with the path of the entry; `most` of them are shown, a line
    each, and how many there are besides.

    `paths` maps attributes of the use case to the file's paths if the two have different names.
    """
    try:
        yield
    except ServiceError as error:
        located_errors = [
            (_error_path(path, field_error, paths or {}), _error_text(field_error))
            for field_error in error.errors[:most]
        ]
        if left := len(error.errors) - len(located_errors):
            located_errors[-1] = (located_errors[-1][0], f"{located_errors[-1][1]} (and {left} more)")
        (first_path, message), *others = located_errors
        raise SeedError(first_path, message, (SeedError(*located_error) for located_error in others)) from None


def _error_text(error: FieldError) -> str:
    text = error.detail or CATALOGUE[error.code].developer_message
    return text.removeprefix(f"{error.field}: ")


def _error_path(path: str, error: FieldError, paths: Mapping[str, str]) -> str:
    if error.collection is not None:
        path = joined(path, f"{error.collection}[{error.index}]")
    field = error.field or ""
    for part in paths.get(field, field).split("."):
        path = f"{path}[{part}]" if part.isdigit() else joined(path, part) if part else path
    return path
