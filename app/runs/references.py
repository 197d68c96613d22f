"""What a definition names in its account: the list and its fields, messages with their senders, webhooks. A fixed
number of selects.

All steps that could be read are looked at, so that one report has everything that is wrong
(docs/automations.md#definition).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import select
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
from app.automations.parse import Draft, is_read
from app.automations.tree import step_paths
from app.contacts.row import ATTRIBUTES
from app.contacts.values import InvalidValue, clean_value
from app.db.lookup import find_all_by_name_or_id, find_by_name_or_id
from app.db.models import List, Message, Webhook
from app.errors import MAX_LISTED_ERRORS, ErrorCollector, ServiceError
from app.lists.fields import FieldSpec, ListSpec, ValueType
from app.lists.find import get_list
from app.plain_data import in_document_order, joined
from app.runs.step_messages import Senders, find_senders, problem_of_link

DATE_TYPES = (ValueType.DATE, ValueType.DATE_OR_DATETIME)
OUTCOMES_BY_TYPE = {"email": ("delivered", "opened", "clicked", "bounced"), "sms": ("delivered", "bounced", "replied")}
"""Type of a message -> what can become of it."""


def resolve(session: Session, account_id: int, draft: Draft) -> Resolution:
    """Looks up what the definition names. `Resolution.checked` raises what is wrong, so that rules of the caller can
    add to it."""
    definition, errors = draft.definition, ErrorCollector(list(draft.errors))
    steps = [step for step in definition.by_name.values() if is_read(step)]
    contact_list = _find_list(session, account_id, definition.list, errors)
    sent = {step.message for step in steps if isinstance(step, Send)}
    messages = find_all_by_name_or_id(session, Message, account_id, sent)
    names = _Names(
        contact_list,
        messages,
        find_senders(session, contact_list, messages.values()) if contact_list else None,
        _find_webhooks(session, account_id, {step.url for step in steps if isinstance(step, Call)}),
        step_paths(definition),
        errors,
    )
    return Resolution(draft, names.resolve(definition), contact_list, errors)


@dataclass(frozen=True, slots=True)
class Resolution:
    """A definition with the ids of what it names, and its list, if there is one."""

    draft: Draft
    definition: Definition
    contact_list: ListSpec | None
    errors: ErrorCollector

    def add_conflict(self, path: str | None, detail: str) -> None:
        """Adds an error of a rule, unless the value there is wrong already."""
        if path not in {error.field for error in self.errors.errors}:
            self.errors.add("conflict", field=path, detail=detail)

    def checked(self) -> tuple[Definition, ListSpec]:
        """The definition and its list. Raises `ServiceError` with the first errors, each with its path, in the order of
        the document (docs/automations.md#definition)."""
        errors = in_document_order(self.draft.document, self.errors.errors)
        if errors or self.contact_list is None:
            raise ServiceError.of(errors[:MAX_LISTED_ERRORS])
        return self.definition, self.contact_list


def _find_list(session: Session, account_id: int, list_name: str, errors: ErrorCollector) -> ListSpec | None:
    if not list_name:
        return None
    try:
        return get_list(session, account_id, find_by_name_or_id(session, List, account_id, list_name, "list").id)
    except ServiceError as error:
        errors.errors += error.errors
        return None


def _find_webhooks(session: Session, account_id: int, urls: Iterable[str]) -> dict[str, int]:
    named_urls = list(urls)
    statement = select(Webhook.url, Webhook.id).where(Webhook.account_id == account_id, Webhook.url.in_(named_urls))
    return {row.url: row.id for row in session.execute(statement)} if named_urls else {}


@dataclass(slots=True)
class _Names:
    contact_list: ListSpec | None
    """The list of the automation; without it, fields, addresses and senders are not checked."""
    messages: Mapping[str, Message]
    senders: Senders | None
    webhooks: Mapping[str, int]
    paths: Mapping[str, str]
    errors: ErrorCollector
    sent: dict[str, Message] = field(default_factory=dict)
    """Name of a step that sends -> its message."""

    @property
    def fields(self) -> dict[str, FieldSpec]:
        return {spec.key: spec for spec in self.contact_list.value_fields} if self.contact_list else {}

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
        if not is_read(step):
            return step
        message = self.messages.get(step.message)
        if message is None:
            self.errors.add("invalid_id", field=path, detail=f"the account has no message {step.message!r}")
            return step
        self._check_message(message, path)
        self.sent[step.name] = message
        return replace(step, message_id=message.id, message_type="email" if message.type == "email" else "sms")

    def _check_message(self, message: Message, path: str) -> None:
        if self.contact_list is None or self.senders is None:
            return
        has_address = self.contact_list.has_email if message.type == "email" else self.contact_list.has_mobile
        if not has_address:
            detail = f"the list has no field for the addresses of a message of the type {message.type}"
            self.errors.add("list_address_field_missing", field=path, detail=detail)
        if problem := self.senders.problem_of(message):
            code, detail = problem
            self.errors.add(code, field=path, detail=detail)

    def _call(self, step: Call, path: str) -> Step:
        webhook_id = self.webhooks.get(step.url)
        if webhook_id is None:
            self.errors.add("invalid_id", field=path, detail=f"the account has no webhook {step.url!r}")
            return step
        return replace(step, webhook_id=webhook_id)

    def _values(self, values: Mapping[str, Any], path: str) -> dict[str, Any]:
        cleaned: dict[str, Any] = {}
        if self.contact_list is None:
            return cleaned
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
        dates = [name for name, spec in self.fields.items() if spec.value_type in DATE_TYPES]
        if self.contact_list and key not in dates:
            detail = f"the list has no field {key!r} for dates; it has {', '.join(dates) or 'none'}"
            self.errors.add("unexpected_field", field=path, detail=detail)

    def _check_branch(self, step: Branch, path: str) -> None:
        if isinstance(step.on, Outcome):
            self._check_outcome(step.on, path)
        else:
            self._check_conditions(step.on, joined(path, "if"))

    def _check_outcome(self, outcome: Outcome, path: str) -> None:
        message = self.sent.get(outcome.step)
        if message is None:
            return
        outcomes = OUTCOMES_BY_TYPE[message.type]
        if outcome.did not in outcomes:
            detail = f"for a message of the type {message.type}, did must be {', '.join(outcomes)}"
            self.errors.add("invalid_string", field=joined(path, "did"), detail=detail)
        elif outcome.did == "clicked" and outcome.link and (problem := problem_of_link(message, outcome.link)):
            self.errors.add("invalid_id", field=joined(path, "link"), detail=problem)

    def _check_conditions(self, conditions: Conditions | None, path: str) -> None:
        keys = self.fields.keys() | ATTRIBUTES.keys()
        for condition in conditions.any_of if conditions and self.contact_list else ():
            if condition.key not in keys:
                detail = f"contacts of the list have no {condition.key!r}; they have {', '.join(sorted(keys))}"
                self.errors.add("unexpected_field", field=path, detail=detail)
