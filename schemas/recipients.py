"""Recipients of a send: objects with a few declared attributes and any number of wildcard values.

A request may have a hundred of them, so each is read in a single pass. The declared attributes are those of
`RecipientSchema`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from marshmallow import INCLUDE, ValidationError
from marshmallow.exceptions import SCHEMA

from app.errors import MAX_LISTED_ERRORS
from app.sends.accept.draft import RecipientDraft, RecipientRules, Violation
from app.sends.limits import MAX_RECIPIENTS
from schemas.attachments import attachments
from schemas.base import CodeSchema, Problem, problem
from schemas.fields import Array, Email, Integer, Mobile, Object

# Violations as marshmallow messages, so that they are located and ordered like all other errors.

Messages = dict[str | int, Any]


def add_violations(messages: Messages, violations: Iterable[Violation]) -> None:
    """Adds the violations to nested messages; an attribute may have errors of its parts and of its own."""
    for path, code, detail, follows in violations:
        inner: Any = messages
        for key in path[:-1]:
            inner = inner.setdefault(key, {})
        problems = inner.setdefault(path[-1], [])
        if isinstance(problems, dict):
            problems = problems.setdefault(SCHEMA, [])
        problems.append(Problem(code, detail, follows=follows))


class RecipientSchema(CodeSchema):
    """Exactly one of email, mobile and contact_id. Every other attribute is the value of the wildcard of that name."""

    class Meta:
        """Unknown attributes are wildcard values."""

        unknown = INCLUDE

    contact_id = Integer(allow_none=True)
    email = Email(allow_none=True)
    mobile = Mobile(allow_none=True)
    attachments = attachments()


class Recipient(Object):
    """One element of `recipients`."""

    def _deserialize(
        self, value: Any, attr: str | None, data: Mapping[str, Any] | None, partial: Any = None, **options: Any
    ) -> RecipientDraft:
        rules: RecipientRules = options["rules"]
        if not isinstance(value, dict):
            raise problem("invalid_object", "A recipient must be an object.")
        own, values, messages = self._read(value, rules)
        add_violations(messages, rules.errors(value))
        if messages:
            raise ValidationError(messages)
        files = own.get("attachments") or ()
        return RecipientDraft(own.get("contact_id"), own.get("email"), own.get("mobile"), values, tuple(files))

    def _read(
        self, recipient: Mapping[str, Any], rules: RecipientRules
    ) -> tuple[dict[str, Any], dict[str, str], Messages]:
        """Returns declared attributes, wildcard values, and the errors of both."""
        declared = self.schema.fields
        own: dict[str, Any] = {}
        values: dict[str, str] = {}
        messages: Messages = {}
        for name, value in recipient.items():
            if len(messages) >= MAX_LISTED_ERRORS:
                break  # a response does not list more
            if name in declared:
                try:
                    # `deserialize` handles null; for other values it would only add cost.
                    deserialize = declared[name].deserialize if value is None else declared[name]._deserialize
                    own[name] = deserialize(value, name, recipient)
                except ValidationError as error:
                    messages[name] = error.messages
            elif violation := rules.wildcard_error(name, value):
                add_violations(messages, [violation])
            elif value is not None:
                values[name] = value if isinstance(value, str) else json.dumps(value)
        return own, values, messages


class Recipients(Array):
    """The `recipients` of a send."""

    def __init__(self) -> None:
        super().__init__(Recipient(RecipientSchema), most=MAX_RECIPIENTS, required=True)

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> list[Any]:
        final_type = getattr(self.parent, "final_type", None)
        rules = RecipientRules.of(data or {}, final_type)
        self._check(value, attr)
        # Valid recipients, the normal case, are loaded without collecting errors.
        with suppress(ValidationError):
            return [self.inner._deserialize(element, None, None, rules=rules) for element in value]
        return super()._deserialize(value, attr, data, rules=rules, **options)
