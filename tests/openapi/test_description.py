"""The description is valid OpenAPI 3.1 (docs/openapi.md#checks)."""

from __future__ import annotations

from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.support.description import describe


def test_the_description_is_valid() -> None:
    document = describe()
    assert document["openapi"] == "3.1.0"
    assert [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()] == []
