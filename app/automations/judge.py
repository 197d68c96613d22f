"""Whether conditions hold for a contact: the language and the values of personalisation
(docs/personalisation.md#conditionals). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo

from app.automations.definition import Conditions
from app.content.conditions import holds
from app.content.values import MergedValues


def any_holds(conditions: Conditions, values: Mapping[str, object], zone: tzinfo) -> bool:
    """Whether one of the conditions holds; times without an offset are in `zone`."""
    return any(holds(one, text_of(values, one.key), one.operand, zone) for one in conditions.any_of)


def text_of(values: Mapping[str, object], key: str) -> str:
    """The value as a message would show it; empty where there is none."""
    value = MergedValues({}, values).get(key)
    return value.text if value else ""
