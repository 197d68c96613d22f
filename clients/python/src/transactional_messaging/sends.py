"""Sends, and what becomes of their recipients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Required, TypedDict, Unpack

from transactional_messaging.attachments import AttachmentSource, attachment_json
from transactional_messaging.dry_run import DryRun
from transactional_messaging.filters import Filter, ItemQuery, PageQuery, pairs
from transactional_messaging.messages import MessageType
from transactional_messaging.pages import Collection, items_of
from transactional_messaging.part import Part, wait_for
from transactional_messaging.recipients import Recipient, RecipientTimeline, TimelineStep
from transactional_messaging.resource import Property, Resource

UNDER_WAY = frozenset({"scheduled", "queued", "sending", "uncertain"})
"""States that do not last."""


class SendBody(TypedDict, total=False):
    """The attributes of a send; None is the same as leaving one out."""

    type: Required[MessageType]
    recipients: Required[Sequence[Mapping[str, Any]]]
    list_id: int | None
    group_id: int | None
    group_name: str | None
    message_id: int | None
    unsubscribe_type: Literal["none", "word", "link"] | None
    subject: str | None
    from_name: str | None
    from_address: str | None
    reply_to: str | None
    bcc_address: str | None
    priority: Literal["high", "normal"] | None
    transport: str | None
    send_at: datetime | str | None
    body_html: str | None
    body_text: str | None
    include_unsubscribed: bool | None
    recipient_data_html_encoded: bool | None
    track_opens: bool | None
    track_clicks: bool | None
    secret_values: Sequence[str] | None
    attachments: Sequence[AttachmentSource] | None
    tags: Sequence[str] | None
    metadata: Mapping[str, str | None] | None
    headers: Mapping[str, str | None] | None


class AcceptedSend(Resource):
    """The answer to a send: one uuid per recipient, in the order of the request."""

    @property
    def uuids(self) -> list[str]:
        """The uuids, which `sends.get` and the events of webhooks use."""
        return [one["uuid"] for one in self["_embedded"]["recipients"]]

    @property
    def group_id(self) -> int:
        """The id of the group that counts the outcomes."""
        return int((self.link("transactional_group") or "").rpartition("/")[2])


class CancelledMessages(Resource):
    """The answer to cancelling many: the uuids of the messages that were cancelled."""

    size = Property[int]()

    @property
    def uuids(self) -> list[str]:
        """The uuids of their recipients."""
        return [recipient["uuid"] for recipient in self["_embedded"]["recipients"]]


class RecipientFilters(TypedDict, total=False):
    """Filters of `sends.list` and `sends.cancel_many`."""

    uuid: Filter
    email: Filter
    mobile: Filter
    contact_id: Filter
    list_id: Filter
    group_id: Filter
    message_id: Filter
    state: Filter
    creation_time: Filter
    send_time: Filter
    tag: Filter


class RecipientQuery(RecipientFilters, PageQuery, total=False):
    """Filters and parameters of `sends.list`."""


class OneRecipient(ItemQuery, total=False):
    """Parameters of `sends.get`."""

    limit: int
    offset: int


class Sends(Part):
    """`/v1/transactional-sends`"""

    def create(self, *, idempotency_key: str | None = None, **send: Unpack[SendBody]) -> AcceptedSend:
        """Sends an email or sms to up to 100 recipients; the answer comes before anything is sent.

        A recipient is a mapping with `email`, `mobile` or `contact_id`, `attachments` and `metadata` of its own if it
        has any, and the values of wildcards. A key of your own, such as `invoice-4711`, also holds when your process
        ends in between: within 24 hours the same key with the same send does nothing twice.
        """
        return AcceptedSend(self._caller.post("/transactional-sends", send_json(send), (), idempotency_key))

    def dry_run(self, **send: Unpack[SendBody]) -> DryRun:
        """What `create` would do with the same arguments: nothing is sent or stored."""
        query = pairs({"dry_run": True})
        return DryRun(self._caller.post("/transactional-sends", send_json(send), query))

    def list(
        self, *, filters: Mapping[str, Filter] | None = None, **query: Unpack[RecipientQuery]
    ) -> Collection[Recipient]:
        """The recipients of all sends, as in `list(email="ann@example.com", state="bounced")`; by their metadata with
        `filters`, as in `list(filters={"metadata.order": "4711"})`."""
        path, read = "/transactional-sends", items_of("recipients", Recipient)
        return Collection(self._caller, path, pairs(query, filters), read)

    def get(self, uuid: str, **query: Unpack[OneRecipient]) -> RecipientTimeline:
        """One recipient with the first steps of its timeline."""
        return RecipientTimeline(self._caller.get(f"/transactional-sends/{uuid}", pairs(query)))

    def timeline(self, uuid: str) -> Iterator[TimelineStep]:
        """All steps of a recipient's timeline, the oldest first."""
        return iter(Collection(self._caller, f"/transactional-sends/{uuid}", (), _steps))

    def cancel(self, uuid: str) -> RecipientTimeline:
        """Cancels a message that is scheduled, queued or paused, and returns its recipient; once it is cancelled, this
        does nothing more. Raises `Conflict` if it is being sent or has ended."""
        return RecipientTimeline(self._caller.post(f"/transactional-sends/{uuid}/cancel"))

    def cancel_many(
        self,
        uuids: Iterable[str] | None = None,
        *,
        filters: Mapping[str, Filter] | None = None,
        **query: Unpack[RecipientFilters],
    ) -> Sequence[str]:
        """Cancels the messages with these uuids, or all that match, as in `cancel_many(group_id=5)`; returns the uuids
        of those that were cancelled. Those that are being sent or have ended are left out."""
        body = {} if uuids is None else {"uuids": [*uuids]}
        parameters = pairs(query, filters)
        answers = [CancelledMessages(self._caller.post("/transactional-sends/cancel", body, parameters))]
        while answers[-1].link("next") is not None:
            answers.append(CancelledMessages(self._caller.post("/transactional-sends/cancel", body, parameters)))
        return [uuid for answer in answers for uuid in answer.uuids]

    def wait(self, uuid: str, timeout: float = 60.0) -> RecipientTimeline:
        """Waits until the message has left or failed, and returns the recipient. Raises `WaitedTooLong`."""

        def look() -> RecipientTimeline | None:
            found = self.get(uuid)
            return None if found.state in UNDER_WAY else found

        return wait_for(look, timeout, f"the outcome of {uuid}")


def _steps(json: dict[str, Any]) -> list[TimelineStep]:
    return RecipientTimeline(json).timeline


def send_json(send: SendBody) -> dict[str, Any]:
    """The body of the request: attachments as JSON, and nothing for what is None. Raises TypeError like a function that
    lacks an argument: type checkers see it earlier."""
    if missing := [name for name in ("type", "recipients") if name not in send]:
        raise TypeError(f"A send needs {' and '.join(missing)}.")
    body: dict[str, Any] = {name: value for name, value in send.items() if value is not None}
    if "attachments" in body:
        body["attachments"] = [attachment_json(source) for source in body["attachments"]]
    body["recipients"] = [_recipient_json(recipient) for recipient in send["recipients"]]
    return body


def _recipient_json(recipient: Mapping[str, Any]) -> Mapping[str, Any]:
    if not recipient.get("attachments"):
        return recipient
    return {**recipient, "attachments": [attachment_json(source) for source in recipient["attachments"]]}
