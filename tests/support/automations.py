"""Automations for tests: stored as the service stores them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import delete, insert, select, update

from app.automations.definition import Branch, Call, Definition, Send, Step, all_steps
from app.automations.parse import parse_definition
from app.automations.written import written_definition
from app.clock import this_second
from app.db.bulk import draw_ids, take_ids
from app.db.models import (
    Automation,
    AutomationRun,
    AutomationStep,
    AutomationVersion,
    Group,
    List,
    Message,
    Webhook,
)
from app.services import Services


def add_automation(services: Services, account_id: int, list_id: int, document: Mapping[str, Any]) -> int:
    """Stores the automation and returns its id."""
    definition = parse_definition({"list": "its list", **document})
    moment = this_second()
    with services.database.write() as transaction:
        messages = {
            row.name: (row.id, row.type)
            for row in transaction.execute(select(Message).where(Message.account_id == account_id)).scalars()
        }
        webhooks = {
            row.url: row.id
            for row in transaction.execute(select(Webhook).where(Webhook.account_id == account_id)).scalars()
        }
        found = _with_ids(definition, messages, webhooks)
        (automation_id,) = draw_ids(transaction, Automation, 1)
        transaction.execute(
            insert(Automation).values(
                id=automation_id,
                account_id=account_id,
                name=definition.name,
                kind=definition.kind,
                list_id=list_id,
                action=definition.action,
                state="active",
                version=1,
                shifted_seconds=0,
                creation_time=moment,
                last_modified_time=moment,
            )
        )
        version = {"account_id": account_id, "automation_id": automation_id, "number": 1, "creation_time": moment}
        transaction.execute(insert(AutomationVersion).values(definition=written_definition(found), **version))
        steps = list(all_steps(found.steps))
        for step, step_id in zip(steps, take_ids(transaction, Group, len(steps)), strict=True):
            kind = type(step).__name__.lower()
            values = {"id": step_id, "account_id": account_id, "automation_id": automation_id}
            transaction.execute(insert(AutomationStep).values(name=step.name, kind=kind, **values))
        last = {"id": step_id, "account_id": account_id, "type": "email", "name": "none", "creation_time": moment}
        transaction.execute(insert(Group).values(own_last_sent_time=moment, **last))
        transaction.execute(delete(Group).where(Group.id == step_id))
        transaction.execute(update(List).where(List.id == list_id).values(has_automations=True))
    return automation_id


def _with_ids(
    definition: Definition, messages: Mapping[str, tuple[int, Any]], webhooks: Mapping[str, int]
) -> Definition:
    def found(step: Step) -> Step:
        if isinstance(step, Send):
            message_id, type_ = messages[step.message]
            return replace(step, message_id=message_id, message_type=type_)
        if isinstance(step, Call):
            return replace(step, webhook_id=webhooks[step.url])
        if isinstance(step, Branch):
            return replace(step, then=tuple(map(found, step.then)), otherwise=tuple(map(found, step.otherwise)))
        return step

    return replace(definition, steps=tuple(map(found, definition.steps)))


def runs_of(services: Services, automation_id: int) -> list[AutomationRun]:
    """The runs of the automation, in the order in which they began."""
    with services.database.read() as session:
        statement = select(AutomationRun).where(AutomationRun.automation_id == automation_id)
        return list(session.scalars(statement.order_by(AutomationRun.id)))
