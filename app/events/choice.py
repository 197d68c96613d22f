"""Which events a webhook receives: all, or those of some kinds and lists (docs/webhooks.md#choosing-events). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from app.errors import ServiceError
from app.events.payloads import Payload

KINDS = {
    "contact": ("created", "updated", "deleted"),
    "recipient": ("sent", "bounced", "failed", "opened", "clicked", "acknowledged"),
    "sms": ("received",),
    "webhook": ("failing",),
}
"""Object -> its events, as they may be chosen. Events that name their webhook themselves are not chosen."""
FAILING = "webhook.failing"
"""Only webhooks that name it receive it: it is about the service, and no event of the API."""
NAMES = tuple(f"{object_}.{event}" for object_, events in KINDS.items() for event in events)


class Choice(NamedTuple):
    """None means all but those of the object `webhook`. An event without a list is of none, so a choice of lists leaves
    it out."""

    events: Sequence[str] | None = None
    lists: Sequence[int] | None = None

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return self.events is None and self.lists is None

    def accepts(self, payload: Payload) -> bool:
        """Whether the webhook receives the event."""
        if self.lists is not None and payload.get("list_id") not in self.lists:
            return False
        return self.events is None or f"{payload['object']}.{payload['event']}" in self.events


def event_names(wanted: Iterable[str]) -> list[str]:
    """The names of events, in their order, of names and of objects, which stand for all of theirs.

    Raises `ServiceError` (`invalid_string`) for any other word.
    """
    chosen: set[str] = set()
    for word in wanted:
        found = [name for name in NAMES if word in (name, name.partition(".")[0])]
        if not found:
            known = ", ".join((*KINDS, *NAMES))
            raise ServiceError("invalid_string", field="events", detail=f"there is no event {word!r}; known: {known}")
        chosen.update(found)
    return [name for name in NAMES if name in chosen]
