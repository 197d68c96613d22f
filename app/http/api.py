"""Blueprint class of this service: routes declare their scope and their OpenAPI description.

Views do the parsing, in the documented order (path ids, then query, then body); flask-smorest collects the routes and
describes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, TypeVar

import flask_smorest
from flask import Flask
from marshmallow import Schema

from app.accounts.auth import MANAGE, STANDARD
from app.accounts.sessions import OPERATOR

View = TypeVar("View", bound=Callable[..., Any])

PUBLIC = "public"
"""The declaration of a route that needs no key."""

SCOPE = "_tms_scope"


class UndeclaredRoute(Exception):
    """A route does not declare which scope it needs, or declares one that no key can have; the service does not
    start."""


class Blueprint(flask_smorest.Blueprint):  # type: ignore[misc]
    """A blueprint. Every view method carries `@blp.scope("…")` on its own line."""

    @staticmethod
    def scope(*names: str) -> Callable[[View], View]:
        """Declares the scope that a request needs; with several names, one of them is enough."""

        def declare(view: View) -> View:
            setattr(view, SCOPE, names)
            return view

        return declare

    @staticmethod
    def describe(
        id_: str | None = None,
        *,
        returns: type[Schema] | None = None,
        status: int = 200,
        empty: Sequence[int] = (),
        responses: Mapping[int, type[Schema]] = MappingProxyType({}),
        body: type[Schema] | Mapping[str, Any] | None = None,
        is_body_required: bool = True,
        examples: Mapping[str, Any] | None = None,
        query: Sequence[Mapping[str, Any]] = (),
        errors: Sequence[int] = (),
        is_idempotent: bool = False,
    ) -> Callable[[View], View]:
        """Adds the OpenAPI description of a view: the id of the operation, its body with examples, its query
        parameters, its response, others that a parameter asks for, the statuses of responses without a body, the errors
        that are not common to all operations (`app.http.openapi` adds those), and whether it takes an idempotency
        key."""
        headers = {"Idempotent-Replayed": reference("headers", "IdempotentReplayed")} if is_idempotent else {}
        doc: dict[str, Any] = {"responses": {str(status): _response(status, returns, headers)}}
        if id_ is not None:
            doc["operationId"] = id_
        for code, schema in responses.items():
            doc["responses"][str(code)] = _response(code, schema, headers)
        for code in empty:
            doc["responses"][str(code)] = _response(code, None, headers)
        for code in sorted(errors):
            doc["responses"][str(code)] = reference("responses", "Error")
        if query or is_idempotent:
            key = ["IdempotencyKey"] if is_idempotent else []
            doc["parameters"] = [*query, *key]
        if body is not None:
            content = {"schema": body, **({"examples": dict(examples)} if examples else {})}
            doc["requestBody"] = {"required": is_body_required, "content": {"application/json": content}}

        def describe_view(view: View) -> View:
            # Where flask-smorest's own `doc` decorator would put it, without a wrapper around every call.
            setattr(view, "_apidoc", {"manual_doc": doc})  # noqa: B010 - the attribute is not declared on functions
            return view

        return describe_view


def reference(kind: str, name: str) -> dict[str, str]:
    """A reference to a component of the description."""
    return {"$ref": f"#/components/{kind}/{name}"}


def _response(status: int, schema: type[Schema] | None, headers: Mapping[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if headers:
        described["headers"] = dict(headers)
    if schema is not None:
        described["content"] = {"application/json": {"schema": schema}}
    return described


def scopes_of(app: Flask, endpoint: str, method: str) -> tuple[str, ...]:
    """The scopes that a route's method declares. Raises `UndeclaredRoute` when it declares none."""
    view = app.view_functions[endpoint]
    declared: tuple[str, ...] | None = getattr(_method_view(view, method), SCOPE, None)
    if declared is None:
        raise UndeclaredRoute(f"{method} of {endpoint} declares no scope")
    return declared


def _method_view(view: Any, method: str) -> Any:
    """The method of a class-based view, or the view itself. HEAD is answered by GET."""
    view_class = getattr(view, "view_class", None)
    if view_class is None:
        return view
    return getattr(view_class, method.lower(), None) or view_class.get


def check_declarations(app: Flask) -> None:
    """Refuses to start with a route that does not declare its scope (docs/plugins.md). Raises
    `UndeclaredRoute`."""
    for rule in app.url_map.iter_rules():
        for method in (rule.methods or set()) - {"OPTIONS", "HEAD"}:
            unknown = set(scopes_of(app, rule.endpoint, method)) - {PUBLIC, MANAGE, OPERATOR, *STANDARD}
            if unknown:
                raise UndeclaredRoute(f"{method} of {rule.endpoint} declares unknown scopes: {', '.join(unknown)}")
