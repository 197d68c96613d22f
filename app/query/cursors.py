"""Cursors: where a page begins, in the links that lead to it (docs/querying.md#cursors). Pure.

A cursor names the item at the edge of a page by the values that order the collection, so that every page costs the
same, and no item is skipped or repeated when others are created or deleted meanwhile. It is signed together with the
request that it was made for: a cursor of another account, collection or query is invalid.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Self

import orjson

from app.query.fields import Resource
from app.secret_keys import SecretKeys

CURSOR = "cursor"
"""The parameter."""
SIGNATURE_BYTES = 16
_FORM = re.compile(r"[A-Za-z0-9_-]{24,240}")

OrderValue = int | datetime


@dataclass(frozen=True, slots=True)
class Position:
    """Where a page begins: at an item, named by the values that order its collection.

    The page is after the item, or before it if `backward`; the item is on the page only if `inclusive`.
    """

    item: tuple[OrderValue, ...]
    backward: bool = False
    inclusive: bool = False

    @property
    def opposite(self) -> Position:
        """The rest of the collection, in the other direction."""
        return replace(self, backward=not self.backward, inclusive=not self.inclusive)


@dataclass(frozen=True, slots=True)
class CursorScope:
    """A collection of an account: its cursors are valid only there. `path` is that of the links."""

    secret_keys: SecretKeys = field(repr=False)
    account_id: int
    path: str

    def at(self, path: str, resource: Resource) -> Self | None:
        """The scope of another collection of the account; None if a filter has the name of the parameter: such a
        collection has no cursors (docs/querying.md#cursors)."""
        return None if CURSOR in resource.filters else replace(self, path=path)

    def make(self, position: Position, others: Sequence[tuple[str, str]]) -> str:
        """The cursor in a link with these other parameters."""
        content = orjson.dumps([position.backward, position.inclusive, *position.item])
        return _text(content + _signature(self.secret_keys[0], self._signed(content, others)))

    def read(self, cursor: str, others: Sequence[tuple[str, str]]) -> Position | None:
        """The position; None unless the cursor was made here for these other parameters, in whatever order."""
        if not _FORM.fullmatch(cursor):
            return None
        try:
            signed = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        except binascii.Error:
            return None
        content, signature = signed[:-SIGNATURE_BYTES], signed[-SIGNATURE_BYTES:]
        # The text is also compared: spare bits of its last character are not signed.
        text = self._signed(content, others)
        is_ours = any(hmac.compare_digest(signature, _signature(key, text)) for key in self.secret_keys)
        if not is_ours or _text(signed) != cursor:
            return None
        backward, inclusive, *item = orjson.loads(content)
        return Position(tuple(map(_order_value, item)), backward, inclusive)

    def _signed(self, content: bytes, others: Sequence[tuple[str, str]]) -> bytes:
        parameters = sorted((_linked(key), _linked(value)) for key, value in others)
        # JSON text cannot continue after its closing bracket, so the two parts of the signed text are unambiguous.
        return orjson.dumps([self.account_id, self.path, parameters]) + content


def _signature(secret_key: str, text: bytes) -> bytes:
    return hmac.digest(_key(secret_key), text, "sha256")[:SIGNATURE_BYTES]


@lru_cache(maxsize=32)
def _key(secret_key: str) -> bytes:
    return f"transactional-messaging-service cursors\0{secret_key}".encode()


def _linked(text: str) -> str:
    """The text as it is returned by a link, which cannot contain lone surrogates."""
    return text.encode("utf-8", "replace").decode()


def _text(signed: bytes) -> str:
    return base64.urlsafe_b64encode(signed).decode("ascii").rstrip("=")


def _order_value(value: int | str) -> OrderValue:
    return datetime.fromisoformat(value) if isinstance(value, str) else value
