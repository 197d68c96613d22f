"""Requests about sends, as the fake answers them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from transactional_messaging.testing.querying import Pairs, envelope
from transactional_messaging.testing.refusals import Problem, Refusal, invalid, json_answer, text_of_now
from transactional_messaging.testing.sent import DESTINATIONS, SentMessage, decoded, later, problems
from transactional_messaging.testing.store import Json, Store
from transactional_messaging.transport import Answer

PATH = "/v1/transactional-sends"
CANCELLABLE = ("scheduled", "queued")
TEXTS = ("subject", "body_html", "body_text")
COUNTERS = {"delivered": "delivered", "sent": "delivered", "bounced": "bounced", "failed": "failed_contacts"}
"""State -> the counter that counts it."""


def _metadata(body: Json, recipient: Json) -> dict[str, str] | None:
    """That of the send, in which that of the recipient replaces values; an object, unlike the value of a wildcard."""
    given = [body.get("metadata"), recipient.get("metadata")]
    objects = [one for one in given if isinstance(one, dict)]
    return {key: value for one in objects for key, value in one.items() if value is not None} or None


class SendRequests:
    """`/v1/transactional-sends`"""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.sent: list[SentMessage] = []

    def answer(self, method: str, uuid: str | None, query: Pairs, body: Json, *, cancels: bool = False) -> Answer:
        """The answer to a request; `cancels` is whether it is for the path of cancelling. Raises `Refusal`."""
        if method == "POST" and uuid == "cancel":
            return self._cancel_many(query, body)
        if uuid is not None:
            message = self._found(uuid)
            if cancels and not self._cancel(message):
                raise Refusal(409, [Problem("recipient_not_cancellable", {})])
            steps = [{"time": message.time, "step": message.state, "detail": message.reason}]
            return json_answer({**message.json(self.sent.index(message) + 1), "timeline": steps})
        if method == "GET":
            rows = [message.json(number) for number, message in enumerate(self.sent, 1)]
            return json_answer(envelope(PATH, "recipients", rows, query))
        return self._send(body, is_dry=dict(query).get("dry_run") == "true")

    def _cancel(self, message: SentMessage) -> bool:
        """Whether it is cancelled now."""
        if message.state in CANCELLABLE:
            self.settle(message.uuid, "failed", "cancelled")
        return message.reason == "cancelled"

    def _cancel_many(self, query: Pairs, body: Json) -> Answer:
        uuids = body.get("uuids")
        if uuids is None and not query:
            raise Refusal(422, [invalid("required", "uuids")])
        rows = [message.json(number) for number, message in enumerate(self.sent, 1)]
        matching = envelope(PATH, "recipients", rows, query)["_embedded"]["recipients"]
        named = [row for row in matching if uuids is None or row["uuid"] in map(str.lower, uuids)]
        cancelled = [{"uuid": row["uuid"]} for row in named if row["state"] in CANCELLABLE]
        for row in cancelled:
            self._cancel(self._found(row["uuid"]))
        links = {"self": {"href": f"{PATH}/cancel"}}
        return json_answer({"size": len(cancelled), "_embedded": {"recipients": cancelled}, "_links": links})

    def counts_of_tag(self, tag: str) -> Json:
        """The counts of the messages that have the tag, all of today."""
        messages = [message for message in self.sent if tag in (message.tags or ())]
        if not messages:
            raise Refusal(404)
        states = [COUNTERS.get(message.state) for message in messages]
        names = ("failed_contacts", "bounced", "delivered", "opened", "clicked", "unsubscribed")
        counts = {"sent": len(messages), **{name: states.count(name) for name in names}}
        link = {"self": {"href": f"/v1/tags/{quote(tag, safe='')}"}}
        return {"tag": tag, **counts, "days": [{"day": text_of_now()[:10], **counts}], "_links": link}

    def settle(self, uuid: str, state: str, reason: str | None) -> None:
        """Changes the state of a recipient."""
        message = self._found(uuid)
        self._count(message, -1)
        message.state, message.reason = state, reason
        self._count(message, 1)

    def _send(self, body: Json, *, is_dry: bool) -> Answer:
        stored = self._stored(body)
        type_ = stored.get("type") or body.get("type") or "email"
        found = [*problems(body, type_, stored)]
        found = found or [*self._unknown_ids(body)]
        if found:
            raise Refusal(422, found)
        if is_dry:
            return json_answer(self._forecasts(body, type_, stored))
        group = self._store.group(body, type_)
        new = [self._message(recipient, body, type_, stored, group) for recipient in body["recipients"]]
        for message in new:
            self.sent.append(message)
            group["sent"] += 1
            self._count(message, 1)
        group["last_sent_time"] = text_of_now()
        links = {"self": {"href": PATH}, "transactional_group": group["_links"]["self"]}
        recipients = [{"uuid": message.uuid} for message in new]
        return json_answer({"_embedded": {"recipients": recipients}, "_links": links}, 202)

    def _stored(self, body: Json) -> Json:
        """The texts and the type of the stored message that the send refers to."""
        id_ = body.get("message_id")
        if id_ is None:
            return {}
        if id_ not in self._store.messages:
            raise Refusal(422, [invalid("invalid_id", "message_id")])
        return {**self._store.messages[id_], **self._store.contents[id_]}

    def _unknown_ids(self, body: Json) -> list[Any]:
        list_id = body.get("list_id")
        return [] if list_id is None or list_id in self._store.lists else [invalid("invalid_id", "list_id")]

    def _message(self, recipient: Json, body: Json, type_: str, stored: Mapping[str, Any], group: Json) -> SentMessage:
        contact = self._contact(recipient, body.get("list_id"), type_)
        own = "email" if type_ == "email" else "mobile"
        address = contact[own] if contact else recipient.get(own)
        texts = {name: body[name] if body.get(name) is not None else stored.get(name) for name in TEXTS}
        files = [*(body.get("attachments") or ()), *(recipient.get("attachments") or ())]
        values = {
            name: value
            for name, value in recipient.items()
            if name not in (*DESTINATIONS, "attachments") and not isinstance(value, dict)
        }
        missing = "contact_id" in recipient and contact is None
        send_at = later(body.get("send_at"))
        return SentMessage(
            type=type_,
            address=address,
            contact_id=contact["id"] if contact else recipient.get("contact_id"),
            list_id=body.get("list_id"),
            group_id=group["id"],
            group_name=group["name"],
            message_id=body.get("message_id"),
            subject=texts["subject"],
            body_html=texts["body_html"],
            body_text=texts["body_text"],
            values=values,
            attachments=decoded(files),
            request=body,
            tags=[tag.strip() for tag in body.get("tags") or ()] or None,
            metadata=_metadata(body, recipient),
            state="scheduled" if send_at else "failed" if missing else "delivered" if type_ == "email" else "sent",
            reason="invalid_contact_id" if missing and not send_at else None,
            send_at=send_at,
        )

    def _contact(self, recipient: Json, list_id: int | None, type_: str) -> Json | None:
        if list_id is None:
            return None
        if "contact_id" in recipient:
            return self._store.contacts[list_id].get(recipient["contact_id"])
        name = "email" if type_ == "email" else "mobile"
        known = self._store.find(list_id, name, recipient[name])
        return known or self._store.create(list_id, {name: recipient[name]})

    def _count(self, message: SentMessage, change: int) -> None:
        if message.state in COUNTERS:
            self._store.groups[message.group_id][COUNTERS[message.state]] += change

    def _forecasts(self, body: Json, type_: str, stored: Mapping[str, Any]) -> Json:
        texts = {name: body.get(name) or stored.get(name) for name in TEXTS}
        nothing = dict.fromkeys(("reason", "detail", "contact_id", "email", "mobile", "size", "encoding", "segments"))
        rest = {"outcome": "send", "creates_contact": False, "headers": [], "wildcards_without_value": []}
        own = [
            {**{name: recipient.get(name) for name in DESTINATIONS}, "metadata": _metadata(body, recipient)}
            for recipient in body["recipients"]
        ]
        recipients = [{**nothing, **rest, **texts, **destination} for destination in own]
        given = {
            name: value
            for name, value in body.items()
            if name not in ("recipients", "attachments", "metadata", "headers", *TEXTS)
        }
        names = (
            "send_at",
            "list_id",
            "message_id",
            "group_id",
            "group_name",
            "from_name",
            "from_address",
            "reply_to",
            "bcc_address",
            "tags",
        )
        defaults = {"priority": "normal", "include_unsubscribed": False, "track_opens": True, "track_clicks": True}
        whole = {**dict.fromkeys(names), **defaults, **given, "type": type_, "invalid_markup": []}
        return {**whole, "_embedded": {"recipients": recipients}, "_links": {"self": {"href": PATH}}}

    def _found(self, uuid: str) -> SentMessage:
        for message in self.sent:
            if message.uuid == uuid.lower():
                return message
        raise Refusal(404)
