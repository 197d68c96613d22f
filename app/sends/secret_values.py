"""Secret values: wildcard values that a send names in `secret_values` (docs/secret-values.md).

A recipient's row has their names with null in place of the texts. These are in its queue entry, as one encrypted text
that is of use to this recipient alone, and are deleted with the entry when the recipient is settled
(docs/decisions/026-secret-values-in-the-queue.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from functools import cached_property
from urllib.parse import quote, unquote

from app.content.values import decode
from app.secret_keys import SecretKeys, SecretUnreadable, decrypt, encrypt
from app.tracking.links import foreign_marks

MASK = "••••"
"""Shown in place of a secret value."""
MAX_PIECES = 50
"""Pieces of one recipient's values that are looked for. Of more, everything counts as secret."""

MIN_PART = 5
"""The least characters of a part between brackets that is looked for by itself."""

_BETWEEN_PIECES = re.compile(r"[\s<>\"'`]+")
_BRACKETS = re.compile(r"[()\[\]]+")
_LINK_TEXT = re.compile(r"(?<![^\W\d_])\[?[^\W\d_]+\](?=\()")
"""The last word of a link's text in Markdown, which is no secret."""
_PUNCTUATION = ".,;:!?)]"
"""Characters that are left out at the end of a URL in a text (app/tracking/links.py)."""


def may_have_secrets(values: Mapping[str, object], content_purged_time: datetime | None) -> bool:
    """Whether a recipient's message has secret values, or nobody knows any more because its content is purged."""
    return content_purged_time is not None or None in values.values()


def is_secret(name: str, names: Collection[str]) -> bool:
    """Whether the attribute of a recipient is among the names, which are in lower case and without `#`."""
    return name.removeprefix("#").lower() in names


def without_secrets(values: Mapping[str, str], names: Collection[str]) -> Mapping[str, str | None]:
    """The values as the recipient's row has them."""
    return {name: None if is_secret(name, names) else value for name, value in values.items()} if names else values


def secrets_of(values: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """The secret ones of a recipient's values."""
    return {name: value for name, value in values.items() if is_secret(name, names)}


def encrypt_values(secret_key: str, uuid: str, values: Mapping[str, str], names: Collection[str]) -> str | None:
    """The secret ones of a recipient's values as one text to be stored; None if it has none. It names the recipient,
    so that it cannot be passed off as another one's."""
    secret = secrets_of(values, names)
    return encrypt(secret_key, json.dumps({"uuid": uuid, "values": secret})) if secret else None


class SecretValues:
    """The secret values of one recipient. Their texts stand in no representation of the object."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = values
        """Texts by the attribute's name as it was in the request."""

    @classmethod
    def decrypted(cls, secret_keys: SecretKeys, uuid: str, stored: str, names: Collection[str]) -> SecretValues:
        """The secret values of the recipient with this uuid, whose row has null for the `names`. Raises
        `SecretUnreadable`, also for the values of another recipient."""
        content = json.loads(decrypt(secret_keys, stored))
        if content["uuid"] != uuid or content["values"].keys() != set(names):
            raise SecretUnreadable("these secret values belong to another recipient")
        return cls(content["values"])

    @property
    def masked(self) -> dict[str, str]:
        """The mask for each name."""
        return dict.fromkeys(self.values, MASK)

    def may_be_in(self, url: str) -> bool:
        """Whether a URL of the message contains one of the values, or a part of one, also escaped; it may end at a
        bracket of a value."""
        read = unquote(url)
        if self._pieces is None or any(piece in url or piece in read for piece in self._pieces):
            return True
        return url.endswith(tuple(part for piece in self._pieces for part in _BRACKETS.split(piece)[:-1] if part))

    def exempting(self, is_exempt: Callable[[str], bool]) -> Callable[[str], bool]:
        """Whether a link is not tracked: one that may have a value in it, and one that is exempt anyway."""
        return lambda url: self.may_be_in(url) or is_exempt(url)

    def mask(self, text: str) -> str:
        """A text that may quote the message, without the values: all of it is masked if that is not certain."""
        if self._pieces is None:
            return MASK if text else text
        for piece in self._pieces:
            text = text.replace(piece, MASK).replace(quote(piece, safe=""), MASK)
        read = unquote(text)
        return MASK if any(piece in read for piece in self._pieces) else text

    @cached_property
    def _pieces(self) -> tuple[str, ...] | None:
        """The parts of the values between white space and quotes, where URLs and lines may end, and longer ones between
        brackets; the longest first, None if there are too many. A value that is HTML counts as it is written and as it
        is read."""
        forms = {form for value in self.values.values() for form in (value, decode(value))}
        around = _PUNCTUATION + "".join(map(foreign_marks, forms))
        pieces = {piece.strip("([" + around) for form in forms for piece in _BETWEEN_PIECES.split(form)} - {""}
        parts = {part.strip(around) for piece in pieces for part in _BRACKETS.split(_LINK_TEXT.sub("(", piece))}
        pieces |= {part for part in parts if len(part) >= MIN_PART}
        return tuple(sorted(pieces, key=len, reverse=True)) if len(pieces) <= MAX_PIECES else None
