"""Whether conditions hold for a contact, in the language and with the values of personalisation
(docs/personalisation.md#conditionals), and whether a link that was clicked is the one that is asked for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo

from app.automations.definition import Conditions
from app.content.conditions import holds
from app.content.values import MergedValues
from app.content.wildcards import Wildcard, tokenize


def any_holds(conditions: Conditions, values: Mapping[str, object], zone: tzinfo) -> bool:
    """Whether one of the conditions holds; times without an offset are in `zone`."""
    return any(holds(one, text_of(values, one.key), one.operand, zone) for one in conditions.any_of)


def text_of(values: Mapping[str, object], key: str) -> str:
    """The value as a message would show it; empty where there is none."""
    value = MergedValues({}, values).get(key)
    return value.text if value else ""


def is_link(written: str, url: str) -> bool:
    """Whether the URL is this link as the message has it for somebody: a wildcard stands for any text, and so does all
    that lies between the markers of a conditional (docs/automations.md#links)."""
    texts, is_plain = [""], True
    for token in tokenize(written):
        if isinstance(token, str):
            texts[-1] += token
        else:
            texts.append("")
            is_plain = is_plain and isinstance(token, Wildcard)
    if len(texts) == 1:
        return url == written
    first, *between, last = texts
    position, end = len(first), len(url) - len(last)
    if position > end or not (url.startswith(first) and url.endswith(last)):
        return False
    for text in between if is_plain else ():
        found = url.find(text, position, end)
        if found < 0:
            return False
        position = found + len(text)
    return True
