"""Sends of the fake: the rules that a request is checked by, and what is kept of each recipient."""

from __future__ import annotations

import base64
import uuid as uuids
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from transactional_messaging.attachments import Attachment
from transactional_messaging.sends import SendBody
from transactional_messaging.testing.refusals import Problem, invalid, text_of_now

MOST_RECIPIENTS = 100
DESTINATIONS = ("contact_id", "email", "mobile")
NAMES = frozenset(SendBody.__annotations__)
EMAIL_ONLY = frozenset(
    {
        *("subject", "from_name", "reply_to", "bcc_address", "body_html", "recipient_data_html_encoded"),
        *("attachments", "headers"),
    }
)


@dataclass
class SentMessage:
    """One recipient of an accepted send. Texts are as they were given: wildcards are not filled in."""

    type: str
    address: str | None
    contact_id: int | None
    list_id: int | None
    group_id: int
    group_name: str
    message_id: int | None
    subject: str | None
    body_html: str | None
    body_text: str | None
    values: dict[str, Any]
    attachments: list[Attachment]
    request: Mapping[str, Any] = field(repr=False)
    state: str = "delivered"
    reason: str | None = None
    uuid: str = field(default_factory=lambda: str(uuids.uuid4()))
    time: str = field(default_factory=text_of_now)
    send_at: str | None = None
    tags: list[str] | None = None
    metadata: dict[str, str] | None = None

    def json(self, number: int) -> dict[str, Any]:
        """The recipient as the API shows it."""
        links = {"self": f"/v1/transactional-sends/{self.uuid}"}
        links["transactional_group"] = f"/v1/transactional-groups/{self.group_id}"
        nothing = (
            "automation_id",
            "step_id",
            "first_open_time",
            "last_open_time",
            "first_click_time",
            "complaint_time",
            "content_purged_time",
        )
        return {
            **dict.fromkeys(nothing),
            **{"uuid": self.uuid, "id": number, "type": self.type, "state": self.state, "reason": self.reason},
            **{"list_id": self.list_id, "contact_id": self.contact_id, "message_id": self.message_id},
            "group_id": self.group_id,
            "email": self.address if self.type == "email" else None,
            "mobile": self.address if self.type == "sms" else None,
            **{"attempts": 1, "creation_time": self.time, "send_at": self.send_at, "send_time": self.time},
            "further_visits": 0,
            "open_type": "sms" if self.type == "sms" else "not_opened",
            **{"tags": self.tags, "metadata": self.metadata},
            "_links": {name: {"href": path} for name, path in links.items()},
        }


def later(send_at: str | None) -> str | None:
    """The time of a scheduled send as the API shows it; None for one that has passed."""
    moment = None if send_at is None else datetime.fromisoformat(send_at).astimezone(UTC)
    return None if moment is None or moment <= datetime.now(UTC) else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def decoded(attachments: list[Mapping[str, str]]) -> list[Attachment]:
    """The files of a request."""
    return [Attachment(one["name"], base64.b64decode(one["content"]), one["type"]) for one in attachments]


def problems(body: Mapping[str, Any], type_: str, message: Mapping[str, Any]) -> Iterator[Problem]:
    """Everything that is wrong with a send. `message` has the texts of the stored message, if it refers to one."""
    not_for = EMAIL_ONLY if type_ == "sms" else frozenset()
    yield from (invalid("unexpected_field", name) for name in body if name not in NAMES - not_for)
    if body.get("type") not in ("email", "sms"):
        yield invalid("invalid_string" if "type" in body else "required", "type")
    yield from _recipient_problems(body.get("recipients"), type_)
    yield from _secret_value_problems(body.get("secret_values") or (), body.get("recipients"))
    if type_ == "email" and body.get("list_id") is None:
        yield invalid("required", "list_id")
    texts = {**message, **{name: value for name, value in body.items() if value is not None}}
    if not (texts.get("body_text") or (type_ == "email" and texts.get("body_html"))):
        yield invalid("content_missing", "body_html" if type_ == "email" else "body_text")
    if body.get("group_id") is None and body.get("group_name") is None:
        yield invalid("group_missing", "group_name")
    if type_ == "email" and not texts.get("subject"):
        yield invalid("subject_empty", "subject")


def _secret_value_problems(names: Sequence[str], recipients: Any) -> Iterator[Problem]:
    """Names that no recipient has a value for."""
    if isinstance(recipients, list):
        known = {name.removeprefix("#").lower() for recipient in recipients for name in recipient} - {
            *DESTINATIONS,
            "attachments",
        }
        for index, name in enumerate(names):
            if name.lower() not in known:
                yield Problem("invalid_string", {"collection": "secret_values", "index": index})


def _recipient_problems(recipients: Any, type_: str) -> Iterator[Problem]:
    if not isinstance(recipients, list):
        yield invalid("required" if recipients is None else "invalid_array", "recipients")
        return
    if not recipients or len(recipients) > MOST_RECIPIENTS:
        yield invalid("too_long" if recipients else "not_empty", "recipients")
    own = "email" if type_ == "email" else "mobile"
    for index, recipient in enumerate(recipients[:MOST_RECIPIENTS]):
        where = {"collection": "recipients", "index": index}
        given = [name for name, value in recipient.items() if name in DESTINATIONS and value is not None]
        if len(given) > 1:
            yield invalid("recipient_destination_ambiguous", given[1], **where)
        elif not given or given[0] not in (own, "contact_id"):
            yield invalid(f"{own}_address_missing", own, **where)
        elif own == "email" and "email" in given and "@" not in str(recipient["email"]):
            yield invalid("invalid_email_address", "email", **where)
