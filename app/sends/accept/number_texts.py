"""Numbers as wildcard values: their text exactly as in the body, which a float does not preserve.

`9400111899223197228490` has more digits than a float, and `1.50` means something different to a reader than `1.5`
(docs/sending.md#wildcard-values). The fast JSON parser returns numbers only, so a body with such numbers is
parsed a second time by a parser that keeps their text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from app.sends.accept.rules import DESTINATIONS
from app.sends.limits import MAX_RECIPIENTS


class NumberText(str):
    """The text of a number."""

    __slots__ = ()


def with_number_texts(body: dict[str, Any], source: bytes) -> dict[str, Any]:
    """The body with the recipients' numbers, except `contact_id`, replaced by their texts. `source` is the valid JSON
    that the body was parsed from.

    Linear in the source: this parser converts no text to a number, however long it is.
    """
    recipients = body.get("recipients")
    if (
        not isinstance(recipients, list)
        or len(recipients) > MAX_RECIPIENTS
        or not _has_lossy_numbers(recipients, source)
    ):
        return body  # too many recipients are refused anyway
    # A body that nests too deeply for this parser is refused anyway, because of what it nests.
    with suppress(RecursionError):
        written = json.loads(source.decode(), parse_int=NumberText, parse_float=NumberText)["recipients"]
        return {**body, "recipients": list(map(_with_number_texts, recipients, written))}
    return body


def _has_lossy_numbers(recipients: list[Any], source: bytes) -> bool:
    """Whether the text of any number is lost: of floats, and of the integer `-0`, which is parsed as 0."""
    objects = [recipient for recipient in recipients if type(recipient) is dict]
    types = {type(value) for recipient in objects for value in recipient.values()}
    if float in types:
        return True
    may_be_zero = int in types and b"-0" in source
    return may_be_zero and any(type(value) is int and value == 0 for one in objects for value in one.values())


def _with_number_texts(recipient: Any, written: Any) -> Any:
    if not isinstance(recipient, dict):
        return recipient
    return {name: _text_of(name, value, written) for name, value in recipient.items()}


def _text_of(name: str, value: Any, written: Mapping[str, Any]) -> Any:
    text = written[name]
    return str(text) if isinstance(text, NumberText) and name not in NOT_WILDCARDS else value


NOT_WILDCARDS = frozenset({*DESTINATIONS, "attachments"})
"""Attributes of a recipient that are not wildcards: their numbers stay numbers."""
