"""What a definition names in its account: the list and its fields, messages, webhooks. A fixed number of selects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from app.automations.definition import (
    Branch,
    Call,
    Conditions,
    Definition,
    Outcome,
    Send,
    SetFields,
    Step,
    UntilDate,
    Wait,
)
from app.automations.shape import joined
from app.automations.tree import step_paths
from app.contacts.values import InvalidValue, clean_value
from app.contacts.wildcard_values import ATTRIBUTES
from app.db.lookup import find_by_name_or_id
from app.db.models import List, Message, Webhook
from app.errors import ErrorCollector
from app.ids import copied_id, id_in, shown_id
from app.lists.fields import FieldSpec, ListSpec, ValueType
from app.lists.find import get_list

DATES = (ValueType.DATE, ValueType.DATE_OR_DATETIME)
KNOWN_OF = {"email": ("delivered", "opened", "clicked", "bounced"), "sms": ("delivered", "bounced", "replied")}
"""Type of a message -> what can become of it."""


def resolve(session: Session, account_id: int, definition: Definition) -> tuple[Definition, ListSpec]:
    """The definition with the ids of what it names, and its list. Raises `ServiceError` with all errors, each with its
    path."""
    row = find_by_name_or_id(session, List, account_id, definition.list, "list")
    contact_list = get_list(session, account_id, row.id)
    steps = definition.by_name.values()
    names = _Names(
        contact_list,
        _messages(session, account_id, {step.message for step in steps if isinstance(step, Send)}),
        _webhooks(session, account_id, {step.url for step in steps if isinstance(step, Call)}),
        step_paths(definition),
    )
    resolved = names.resolve(definition)
    names.errors.raise_any()
    return resolved, contact_list


def _messages(session: Session, account_id: int, wanted: Iterable[str]) -> dict[str, Message]:
    """By name, else by id; of several with one name the oldest."""
    written = list(wanted)
    ids = [found for text in written if (found := id_in(text)) is not None]
    statement = (
        select(Message)
        .where(
            Message.account_id == account_id,
            or_(Message.name.in_(written), Message.id.in_([*ids, *map(copied_id, ids)])),
        )
        .order_by(Message.id.desc())
    )
    rows = session.scalars(statement).all() if written else []
    return {**{str(shown_id(row.id)): row for row in rows}, **{row.name: row for row in rows}}


def _webhooks(session: Session, account_id: int, urls: Iterable[str]) -> dict[str, int]:
    wanted = list(urls)
    statement = select(Webhook.url, Webhook.id).where(Webhook.account_id == account_id, Webhook.url.in_(wanted))
    return {row.url: row.id for row in session.execute(statement)} if wanted else {}


@dataclass(slots=True)
class _Names:
    contact_list: ListSpec
    messages: Mapping[str, Message]
    webhooks: Mapping[str, int]
    paths: Mapping[str, str]
    errors: ErrorCollector = field(default_factory=ErrorCollector)
    types: dict[str, str] = field(default_factory=dict)
    """Name of a step that sends -> the type of its message."""

    @property
    def fields(self) -> dict[str, FieldSpec]:
        return {one.key: one for one in self.contact_list.value_fields}

    def resolve(self, definition: Definition) -> Definition:
        self._check_conditions(definition.entry.conditions, "if")
        self._check_conditions(definition.leave_when, "leave_when")
        return replace(definition, steps=self._steps(definition.steps))

    def _steps(self, steps: Sequence[Step]) -> tuple[Step, ...]:
        return tuple(self._step(step, self.paths.get(step.name, "")) for step in steps)

    def _step(self, step: Step, path: str) -> Step:
        match step:
            case Send():
                return self._send(step, joined(path, "send") if path else "message")
            case Call():
                return self._call(step, joined(path, "call"))
            case SetFields():
                return SetFields(step.name, self._values(step.values, joined(path, "set")))
            case Wait(_, UntilDate(key)):
                self._check_date(key, joined(path, "wait.date"))
                return step
            case Branch():
                self._check_branch(step, joined(path, "branch"))
                return replace(step, then=self._steps(step.then), otherwise=self._steps(step.otherwise))
            case _:
                return step

    def _send(self, step: Send, path: str) -> Step:
        message = self.messages.get(step.message)
        if message is None:
            self.errors.add("invalid_id", field=path, detail=f"the account has no message {step.message!r}")
            return step
        has_address = self.contact_list.has_email if message.type == "email" else self.contact_list.has_mobile
        if not has_address:
            detail = f"the list has no field for the addresses of a message of the type {message.type}"
            self.errors.add("list_address_field_missing", field=path, detail=detail)
        self.types[step.name] = message.type
        return replace(step, message_id=message.id, message_type="email" if message.type == "email" else "sms")

    def _call(self, step: Call, path: str) -> Step:
        webhook_id = self.webhooks.get(step.url)
        if webhook_id is None:
            self.errors.add("invalid_id", field=path, detail=f"the account has no webhook {step.url!r}")
            return step
        return replace(step, webhook_id=webhook_id)

    def _values(self, values: Mapping[str, Any], path: str) -> dict[str, Any]:
        cleaned = {}
        for key, value in values.items():
            if key not in self.fields:
                detail = f"the list has no field {key!r} that can be set; it has {', '.join(self.fields) or 'none'}"
                self.errors.add("unexpected_field", field=joined(path, key), detail=detail)
                continue
            try:
                cleaned[key] = clean_value(self.fields[key], value)
            except InvalidValue as error:
                self.errors.add(error.code, field=joined(path, key), detail=error.detail.removeprefix(f"{key} "))
        return cleaned

    def _check_date(self, key: str, path: str) -> None:
        dates = [name for name, one in self.fields.items() if one.value_type in DATES]
        if key not in dates:
            detail = f"the list has no field {key!r} for dates; it has {', '.join(dates) or 'none'}"
            self.errors.add("unexpected_field", field=path, detail=detail)

    def _check_branch(self, step: Branch, path: str) -> None:
        if isinstance(step.on, Outcome):
            self._check_outcome(step.on, joined(path, "did"))
        else:
            self._check_conditions(step.on, joined(path, "if"))

    def _check_outcome(self, outcome: Outcome, path: str) -> None:
        type_ = self.types.get(outcome.step)
        if type_ and outcome.did not in KNOWN_OF[type_]:
            detail = f"of a message of the type {type_} is only known whether it was {', '.join(KNOWN_OF[type_])}"
            self.errors.add("invalid_string", field=path, detail=detail)

    def _check_conditions(self, conditions: Conditions | None, path: str) -> None:
        known = self.fields.keys() | ATTRIBUTES.keys()
        for one in conditions.any_of if conditions else ():
            if one.key not in known:
                detail = f"contacts of the list have no {one.key!r}; they have {', '.join(sorted(known))}"
                self.errors.add("unexpected_field", field=path, detail=detail)
