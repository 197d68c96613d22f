"""The attributes of a list, for all doors (docs/code-layout.md#resource-definitions)."""

from __future__ import annotations

from collections.abc import Sequence

from app.db.models import List
from app.ids import shown_id
from app.resources.definition import Attribute, Lines, Switch, Text

ATTRIBUTES: Sequence[Attribute] = (
    Attribute.of(List.id, format_value=shown_id),
    Attribute.of(List.name, Text(), "Name", is_required=True),
    Attribute.of(List.system, Switch("no-system"), "System list: the API cannot change its contacts"),
    Attribute.of(List.allow_duplicates, Switch("no-duplicates"), "Several contacts may have the same address"),
    Attribute.of(
        List.stop_words,
        Lines(),
        "Stop words: replies that unsubscribe, in addition to STOP",
        empty_meaning="none",
        option="stop-word",
    ),
    Attribute.of(List.offered, Switch("not-offered"), "Offered: recipients can choose it on their preferences page"),
    Attribute.of(
        List.offered_name, Text(), "Name on the preferences page", empty_meaning="the name of the list", example="NAME"
    ),
    Attribute.of(
        List.offered_description,
        Text(),
        "Description on the preferences page, in one sentence",
        empty_meaning="nothing",
        example="SENTENCE",
    ),
    Attribute.of(List.creation_time),
    Attribute.of(List.last_modified_time),
)
"""All, in the order in which they are shown."""
