"""Automations and their runs as clients see them (docs/automation-endpoints.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from marshmallow import fields, validate

from app.errors import FieldError, ServiceError
from schemas.base import CodeSchema
from schemas.fields import String
from schemas.responses import (
    OPTIONAL_METADATA,
    Id,
    LinkSchema,
    ResponseSchema,
    SelfLinksSchema,
    Timestamp,
    Uuid,
    collection_of,
)

ELEMENT_FORM = re.compile(r"(\w+)\[(\d+)\](.*)", re.DOTALL)
PLACE_PART = re.compile(r"[^.\[\]]+")


class AutomationLinksSchema(SelfLinksSchema):
    """The links of an automation."""

    list = fields.Nested(LinkSchema)
    runs = fields.Nested(LinkSchema)


class AutomationSchema(ResponseSchema):
    """What happens to contacts of a list when a trigger fires."""

    id = Id()
    name = fields.String()
    kind = fields.String(validate=validate.OneOf(["standard", "advanced"]))
    list_id = Id()
    trigger = fields.String()
    state = fields.String(validate=validate.OneOf(["active", "paused", "deleted"]))
    version = fields.Integer()
    paused_time = Timestamp(allow_none=True)
    creation_time = Timestamp()
    last_modified_time = Timestamp()
    _links = fields.Nested(AutomationLinksSchema)


class AutomationStepSchema(ResponseSchema):
    """A step, the same through all versions."""

    id = Id()
    name = fields.String()
    kind = fields.String(
        required=True,
        validate=validate.OneOf(["send", "wait", "branch", "set", "unsubscribe", "call", "stop"]),
    )


class AutomationWithDefinitionSchema(AutomationSchema):
    """An automation with its newest definition and the steps of all versions."""

    definition = fields.Dict()
    steps = fields.List(fields.Nested(AutomationStepSchema))


AutomationCollectionSchema = collection_of("automations", AutomationSchema)


class RunLinksSchema(SelfLinksSchema):
    """The links of a run; the one to its contact for keys that see contacts."""

    automation = fields.Nested(LinkSchema)
    contact = fields.Nested(LinkSchema, metadata=OPTIONAL_METADATA)


class RunSchema(ResponseSchema):
    """One contact on its way through an automation."""

    id = Id()
    contact_id = Id(allow_none=True)
    version = fields.Integer()
    state = fields.String(validate=validate.OneOf(["waiting", "held", "ended"]))
    reason = fields.String(allow_none=True)
    step = fields.String(allow_none=True)
    trigger_time = Timestamp()
    due_time = Timestamp(allow_none=True)
    end_time = Timestamp(allow_none=True)
    _links = fields.Nested(RunLinksSchema)


class PassedStepSchema(ResponseSchema):
    """A step that a run has passed."""

    step_id = Id()
    name = fields.String()
    kind = fields.String()
    time = Timestamp()
    result = fields.String(validate=validate.OneOf(["done", "skipped", "then", "else"]))
    detail = fields.String(allow_none=True)
    uuid = Uuid(allow_none=True)


class RunWithStepsSchema(RunSchema):
    """A run with the steps that it has passed, the first one first."""

    passed_steps = fields.List(fields.Nested(PassedStepSchema))


RunCollectionSchema = collection_of("runs", RunSchema)


_TEXT = {"type": "string", "minLength": 1, "pattern": r"\S"}
_NAME_OR_ID = {**_TEXT, "type": ["string", "integer"]}
DEFINITION_BODY = {
    "title": "AutomationDefinition",
    "type": "object",
    "required": ["name", "kind", "list", "trigger"],
    "properties": {
        "name": _TEXT,
        "kind": {"type": "string", "enum": ["standard", "advanced"]},
        "list": {**_NAME_OR_ID, "description": "Name or id of the list."},
        "trigger": _TEXT,
        "if": {**_TEXT, "description": "Conditions that a contact must meet to enter."},
        "again": {
            "description": "When contacts may enter again: `never`, `when ended`, `always` or an object with `after`."
        },
        "after": {**_TEXT, "description": "Standard automations only: the delay, such as `2 hours`."},
        "message": {**_NAME_OR_ID, "description": "Standard automations only: name or id of the message."},
        "leave_when": {**_TEXT, "description": "Advanced automations only: conditions under which a contact leaves."},
        "steps": {
            "type": "array",
            "items": {"type": "object"},
            "minItems": 1,
            "description": "Advanced automations only.",
        },
    },
}
"""The body of a definition. What it may say in detail is documented, and checked by app/automations/parse.py."""


class ResumptionSchema(CodeSchema):
    """What becomes of the steps that fell due in the pause (docs/automation-runs.md#pausing)."""

    held = String(choices=("send", "skip", "shift"))


class ValidatedDefinitionSchema(ResponseSchema):
    """A definition as it would be stored."""

    definition = fields.Dict()
    _links = fields.Nested(SelfLinksSchema)


@contextmanager
def located_errors() -> Iterator[None]:
    """Gives errors of a definition, which have a path such as `steps[1].branch.then[0].wait`, the element and the
    dotted attribute of other bodies (docs/requests.md#errors)."""
    try:
        yield
    except ServiceError as error:
        raise ServiceError.of([_located(inner) for inner in error.errors]) from None


def _located(error: FieldError) -> FieldError:
    element = ELEMENT_FORM.fullmatch(error.field or "")
    if element is None:
        return error
    collection, index, rest = element.groups()
    field = ".".join(PLACE_PART.findall(rest)) or None
    return FieldError(error.code, field, collection, int(index), error.detail)
