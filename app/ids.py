"""Ids from clients and operators: integers of any size, while a column stores 64 bits; and new uuids."""

from __future__ import annotations

import os
import re
from contextvars import ContextVar
from typing import Any, TypeVar

from app.errors import ServiceError

AnyRow = TypeVar("AnyRow")
RowId = TypeVar("RowId", int, int | None)

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
BIGGEST = 2**63 - 1
OUT_OF_RANGE = -BIGGEST - 1
"""Replaces every id that no column can store: it can be looked up, but is never found."""


def is_storable(number: float) -> bool:
    """Whether a column can store the number as an id."""
    return abs(number) <= BIGGEST


def shown_id(row_id: RowId) -> RowId:
    """The id of a list or message as everybody outside sees it.

    A test account's copy has the id of its original, negated (docs/testing.md#copies), so that an application names
    lists and messages by the same ids whether its key is live or a test key.
    """
    return row_id if row_id is None else abs(row_id)


def copied_id(original_id: Any) -> Any:
    """The id that the copy of a list or message has in a test account, of a number or in a statement."""
    return -original_id


def sought_id(given_id: int) -> int:
    """An id in a body as it is looked up: 0, which no row has, if nobody outside can know it."""
    return given_id if 0 < given_id <= BIGGEST else 0


def describe(noun: str, number: int) -> str:
    """The row in an error text: `list 12`."""
    return f"{noun} with an id beyond 64 bits" if number == OUT_OF_RANGE else f"{noun} {number}"


def id_in(text: str) -> int | None:
    """The id that an operator has given, or None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < len(str(BIGGEST)) else None


def existing(row: AnyRow | None, noun: str, number: int) -> AnyRow:
    """The row that was looked up by its id. Raises `not_found` (docs/requests.md#paths-and-ids)."""
    if row is None:
        raise ServiceError("not_found", detail=f"There is no {noun} {number}.")
    return row


class Uuids:
    """The new uuids of one request, which has the same ones again when it is repeated."""

    def __init__(self) -> None:
        self._drawn: list[str] = []
        self._used = 0

    def use_from_start(self) -> None:
        """Makes `new_uuids` return these in this context: first those that an earlier attempt has drawn."""
        self._used = 0
        _uuids.set(self)

    def take(self, count: int) -> list[str]:
        """The next ones."""
        end = self._used + count
        self._drawn += [new_uuid() for _ in range(end - len(self._drawn))]
        start, self._used = self._used, end
        return self._drawn[start:end]


_uuids: ContextVar[Uuids | None] = ContextVar("uuids", default=None)


def new_uuids(count: int) -> list[str]:
    """So many random uuids. A request that is repeated has the same ones again."""
    uuids = _uuids.get()
    return [new_uuid() for _ in range(count)] if uuids is None else uuids.take(count)


def new_uuid() -> str:
    """A random uuid, of version 4. The standard library takes three times as long, which a send to a hundred
    recipients would notice."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
