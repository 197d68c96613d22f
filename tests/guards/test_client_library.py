"""The library of clients/python has what the OpenAPI description has: operations, properties, attributes, filters."""

from __future__ import annotations

import inspect
import re
import typing
from functools import cache
from pathlib import Path
from typing import Any

import transactional_messaging
from transactional_messaging import (
    automations,
    contacts,
    dry_run,
    groups,
    inbox,
    lists,
    messages,
    recipients,
    root,
    sends,
    suppressions,
    tags,
)
from transactional_messaging.events import Event
from transactional_messaging.resource import Property, Resource
from transactional_messaging.testing import FakeService

from tests.support.cases import each
from tests.support.description import describe

ROOT = Path(__file__).parents[2]
SHARED_OPERATIONS = {
    "contacts.create_many": "contacts.create",
    "sends.dry_run": "sends.create",
    "suppressions.add_many": "suppressions.add",
}
"""Methods for the other form of an operation."""
CONVENIENCES = {"inbox.wait", "sends.timeline", "sends.wait"}
"""Methods that make several requests."""
PAGING = {"limit", "offset", "fields", "expand", "_tz", "filters", "cursor"}
CLASS_BY_SCHEMA: dict[str, type[Resource]] = {
    "Automation": automations.Automation,
    "AutomationStep": automations.AutomationStep,
    "AutomationWithDefinition": automations.AutomationWithDefinition,
    "CapturedMessage": inbox.CapturedMessage,
    "CapturedMessageWithContent": inbox.CapturedMessageWithContent,
    "Contact": contacts.Contact,
    "ContactList": lists.ContactList,
    "DayCounts": tags.DayCounts,
    "DryRun": dry_run.DryRun,
    "Forecast": dry_run.Forecast,
    "Group": groups.Group,
    "Message": messages.Message,
    "MessageContent": messages.MessageContent,
    "PassedStep": automations.PassedStep,
    "RecipientReport": recipients.Recipient,
    "RecipientTimeline": recipients.RecipientTimeline,
    "Root": root.KeyScopes,
    "Run": automations.Run,
    "RunWithSteps": automations.RunWithSteps,
    "SentContact": messages.SentContact,
    "Suppression": suppressions.Suppression,
    "TagCounts": tags.Tag,
    "TimelineStep": recipients.TimelineStep,
}
"""Schema of the description -> class of the library."""
FILTERS = {
    "automations.list": automations.AutomationQuery,
    "automations.list_runs": automations.RunQuery,
    "groups.list": groups.GroupQuery,
    "inbox.list": inbox.InboxQuery,
    "lists.list": lists.ListQuery,
    "messages.list": messages.MessageQuery,
    "messages.list_sent_contacts": messages.SentContactQuery,
    "sends.list": sends.RecipientQuery,
    "sends.cancel_many": sends.RecipientFilters,
    "suppressions.list": suppressions.SuppressionQuery,
}


@cache
def description() -> dict[str, Any]:
    """The description of the API."""
    return describe()


def operations() -> dict[str, dict[str, Any]]:
    """The operations by their ids."""
    items = [item for path in description()["paths"].values() for item in path.values()]
    return {item["operationId"]: item for item in items if isinstance(item, dict)}


def methods() -> set[str]:
    """`contacts.list` and so on."""
    client = FakeService().client()
    parts = {name: part for name, part in vars(client).items() if not name.startswith("_")}
    parts |= {f"management.{name}": part for name, part in vars(parts.pop("management")).items()}
    return {
        f"{name}.{method}"
        for name, part in parts.items()
        for method, _ in inspect.getmembers(part, inspect.ismethod)
        if not method.startswith("_")
    }


def test_there_is_a_method_for_each_operation_and_no_other() -> None:
    assert methods() - SHARED_OPERATIONS.keys() - CONVENIENCES == operations().keys()


def test_the_page_of_the_library_lists_them() -> None:
    page = (ROOT / "clients" / "python" / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| `client\.([\w.]+)` \| (.+) \|$", page, re.MULTILINE)
    listed = {f"{part}.{name}" for part, names in rows for name in re.findall(r"`(\w+)`", names)}
    assert listed == methods()


def properties(schema: str) -> set[str]:
    """The properties of a schema and of those that it extends."""
    schemas: dict[str, Any] = description()["components"]["schemas"][schema]
    return {name for name in schemas["properties"] if not name.startswith("_")}


@each("schema", CLASS_BY_SCHEMA)
def test_every_property_of_an_answer_is_an_attribute(schema: str) -> None:
    attributes = inspect.getmembers(CLASS_BY_SCHEMA[schema], lambda member: isinstance(member, Property))
    assert {name for name, _ in attributes} == properties(schema)


def test_every_property_of_an_event_is_an_attribute() -> None:
    schemas = [name for name in description()["components"]["schemas"] if name.endswith("Event")]
    described = {name for schema in schemas for name in properties(schema)}
    assert described - {name for name, _ in inspect.getmembers(Event, inspect.isdatadescriptor)} == set()


def test_every_attribute_of_a_send_is_a_parameter() -> None:
    assert set(sends.SendBody.__annotations__) == properties("Send")


@each("operation", FILTERS)
def test_every_filter_is_a_parameter(operation: str) -> None:
    described = {parameter.get("name", "") for parameter in operations()[operation]["parameters"]}
    assert set(typing.get_type_hints(FILTERS[operation])) - {*PAGING, "time_zone"} == described - PAGING


def test_everything_that_is_exported_exists() -> None:
    assert [name for name in transactional_messaging.__all__ if not hasattr(transactional_messaging, name)] == []
