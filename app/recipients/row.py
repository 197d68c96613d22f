"""The columns of a recipient for outcomes, inbound reports and tracking, with its event and its timeline steps.
Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from app.events.payloads import Payload, recipient_event
from app.recipients.timeline import TimelineStep


class RecipientRow(NamedTuple):
    """One recipient with what it shares with its send. A tuple, because hundreds of outcomes are written at once."""

    id: int
    account_id: int
    uuid: str
    type: str
    group_id: int
    group_name: str
    message_id: int | None
    list_id: int | None
    contact_id: int | None
    email: str | None
    mobile: str | None
    state: str
    attempts: int
    creation_time: datetime
    request_id: str
    from_address: str
    automation_id: int | None = None
    step_id: int | None = None
    """Of an automation, where one sends."""

    def event(
        self,
        name: str,
        moment: datetime,
        extra: Mapping[str, str | bool | None] = MappingProxyType({}),
        *,
        address: str | None = None,
    ) -> Payload:
        """The webhook event of that name (docs/webhooks.md#events) with its own `extra` fields; `address` is the one
        that the message was sent to, if the row does not have it yet."""
        is_email = self.type == "email"
        return recipient_event(
            name,
            recipient_id=self.id,
            uuid=self.uuid,
            group_id=self.group_id,
            group_name=self.group_name,
            message_id=self.message_id,
            message_type=self.type,
            list_id=self.list_id,
            contact_id=self.contact_id,
            email=(address or self.email) if is_email else None,
            mobile=None if is_email else (address or self.mobile),
            moment=moment,
            automation_id=self.automation_id,
            step_id=self.step_id,
            **extra,
        )

    def step(
        self,
        step: TimelineStep,
        detail: str | None,
        moment: datetime,
        *,
        note: str | None = None,
        transport: str | None = None,
    ) -> dict[str, Any]:
        """A row for `add_steps`."""
        return step_row(self.account_id, self.id, step, detail, moment, note=note, transport=transport)


def step_row(
    account_id: int,
    recipient_id: int,
    step: TimelineStep,
    detail: str | None,
    moment: datetime,
    *,
    note: str | None = None,
    transport: str | None = None,
) -> dict[str, Any]:
    """A row for `add_steps`; `note` is for the operator alone, `transport` the name of the transport that was used."""
    return {
        "account_id": account_id,
        "recipient_id": recipient_id,
        "time": moment,
        "step": step,
        "detail": detail,
        "note": note,
        "transport": transport,
    }
