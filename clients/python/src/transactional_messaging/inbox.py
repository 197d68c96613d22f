"""The inbox of test keys: messages that were captured instead of sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

from transactional_messaging.filters import Filter, ItemQuery, PageQuery, above, pairs
from transactional_messaging.messages import MessageType
from transactional_messaging.pages import Collection, items_of
from transactional_messaging.part import Part, wait_for
from transactional_messaging.resource import Property, Resource, Time


class CapturedMessage(Resource):
    """A captured message."""

    id = Property[int]()
    uuid = Property[str]()
    type = Property[MessageType]()
    sender = Property[str]()
    address = Property[str]()
    subject = Property[str | None]()
    blind_copy = Property[bool]()
    captured_time = Time()


class CapturedMessageWithContent(CapturedMessage):
    """A captured message with `content`: the whole mail as it would have left (RFC 5322), or the text."""

    content = Property[str]()


class InboxQuery(PageQuery, total=False):
    """Filters and parameters of `inbox.list`."""

    id: Filter
    uuid: Filter
    type: Filter
    address: Filter
    subject: Filter
    blind_copy: Filter
    captured_time: Filter


class Inbox(Part):
    """`/v1/inbox`"""

    def list(
        self, *, filters: Mapping[str, Filter] | None = None, **query: Unpack[InboxQuery]
    ) -> Collection[CapturedMessage]:
        """The captured messages, the newest first."""
        return Collection(self._caller, "/inbox", pairs(query, filters), items_of("messages", CapturedMessage))

    def get(self, captured_id: int, **query: Unpack[ItemQuery]) -> CapturedMessageWithContent:
        """One captured message with its content."""
        return CapturedMessageWithContent(self._caller.get(f"/inbox/{captured_id}", pairs(query)))

    def wait(self, address: str, *, after: int = 0, timeout: float = 10.0) -> CapturedMessageWithContent:
        """Waits for a message to the address and returns it, with its content. `after` is the id of the last one that
        was there before. Raises `WaitedTooLong`."""

        def look() -> CapturedMessage | None:
            return self.list(address=address, id=above(after)).first()

        return self.get(wait_for(look, timeout, f"a message to {address}").id)
