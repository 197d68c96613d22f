"""Numbers as wildcard values: their text as it stands in the body, which a number of the machine does not keep.

`9400111899223197228490` has more digits than a float, and `1.50` means something else to a reader than `1.5`
(docs/sending.md#wildcard-values). The quick reader of JSON gives numbers alone, so a body whose recipients hold such
numbers is read a second time by one that tells how each was written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from app.sends.accept.rules import DESTINATIONS, MOST_RECIPIENTS


class NumberText(str):
    """The text of a number."""

    __slots__ = ()


def with_number_texts(body: dict[str, Any], source: bytes) -> dict[str, Any]:
    """The body with the recipients' numbers as their texts, but for `contact_id`. `source` is what the body was read
    from, and known to be JSON.

    Linear in the source: the reader makes no numbers of the texts, however long they are.
    """
    recipients = body.get("recipients")
    if (
        not isinstance(recipients, list)
        or len(recipients) > MOST_RECIPIENTS
        or not _has_lossy_numbers(recipients, source)
    ):
        return body  # too many are refused anyhow
    # A body that nests too deep for this reader is refused anyhow, for what it nests.
    with suppress(RecursionError):
        written = json.loads(source.decode(), parse_int=NumberText, parse_float=NumberText)["recipients"]
        return {**body, "recipients": list(map(_with_number_texts, recipients, written))}
    return body


def _has_lossy_numbers(recipients: list[Any], source: bytes) -> bool:
    """Whether any number is not its own text: an integer is, but for `-0`, which is read as 0."""
    if any(type(value) is float for value in _values(recipients)):
        return True
    return any(type(value) is int and value == 0 for value in _values(recipients)) and b"-0" in source


def _values(recipients: list[Any]) -> Iterator[Any]:
    for one in recipients:
        if isinstance(one, dict):
            yield from one.values()


def _with_number_texts(recipient: Any, written: Any) -> Any:
    if not isinstance(recipient, dict):
        return recipient
    return {name: _text_of(name, value, written) for name, value in recipient.items()}


def _text_of(name: str, value: Any, written: Mapping[str, Any]) -> Any:
    text = written[name]
    return str(text) if isinstance(text, NumberText) and name not in NOT_WILDCARDS else value


NOT_WILDCARDS = frozenset({*DESTINATIONS, "attachments"})
"""Attributes of a recipient that are no wildcards; a number stays one there."""
