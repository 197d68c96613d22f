"""What a send would do (`sends.dry_run`)."""

from __future__ import annotations

from typing import Literal

from transactional_messaging.messages import MessageType
from transactional_messaging.resource import NestedList, OptionalTime, Property, Resource


class InvalidMarkup(Resource):
    """A marker that stays in the text as written, with its line from 1."""

    field = Property[str]()
    line = Property[int]()
    marker = Property[str]()


class MailHeader(Resource):
    """A header of a mail."""

    name = Property[str]()
    value = Property[str]()


class WildcardWithoutValue(Resource):
    """A wildcard that shows its fallback."""

    field = Property[str]()
    name = Property[str]()
    fallback = Property[str]()


class Forecast(Resource):
    """What would become of one recipient. `outcome` is `send`, `skip`, `fail` or `not_rendered`; the texts are as they
    would be sent."""

    outcome = Property[str]()
    reason = Property[str | None]()
    detail = Property[str | None]()
    contact_id = Property[int | None]()
    creates_contact = Property[bool]()
    email = Property[str | None]()
    mobile = Property[str | None]()
    subject = Property[str | None]()
    body_html = Property[str | None]()
    body_text = Property[str | None]()
    headers = NestedList(MailHeader)
    size = Property[int | None]()
    encoding = Property[Literal["gsm", "ucs2"] | None]()
    segments = Property[int | None]()
    metadata = Property[dict[str, str] | None]()
    wildcards_without_value = NestedList(WildcardWithoutValue)


class DryRun(Resource):
    """What is the same for all recipients, and `recipients` in the order of the request."""

    type = Property[MessageType]()
    list_id = Property[int | None]()
    message_id = Property[int | None]()
    group_id = Property[int | None]()
    group_name = Property[str]()
    from_name = Property[str | None]()
    from_address = Property[str]()
    reply_to = Property[str | None]()
    bcc_address = Property[str | None]()
    priority = Property[str]()
    include_unsubscribed = Property[bool]()
    track_opens = Property[bool]()
    track_clicks = Property[bool]()
    send_at = OptionalTime()
    tags = Property[list[str] | None]()
    invalid_markup = NestedList(InvalidMarkup)

    @property
    def recipients(self) -> list[Forecast]:
        """One forecast per recipient."""
        return [Forecast(one) for one in self["_embedded"]["recipients"]]
