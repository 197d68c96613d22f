"""Pages about this API that need no key: its OpenAPI description (docs/openapi.md), a reference that sends requests,
and the meaning of each error (docs/errors.md)."""

from __future__ import annotations

from flask import Response, current_app, render_template, request
from flask.views import MethodView
from markupsafe import Markup, escape

from app.error_help import HELP
from app.errors import CATALOGUE, ServiceError
from app.http.api import PUBLIC, Blueprint
from app.http.openapi import description
from app.http.reference import asset, page
from app.http.responses import JSON, static_response
from schemas.events import EVENT_SCHEMAS

blp = Blueprint("docs", __name__, url_prefix="/docs", description="Documentation")

CROSS_ORIGIN_PATH = "/openapi.json"

ERROR_TYPES = sorted({code.type for code in CATALOGUE.values()})


def _allow_cross_origin(response: Response) -> Response:
    """Scripts of other origins may read the description, but nothing else of this service
    (docs/requests.md#cross-origin)."""
    if request.path.rstrip("/").endswith(CROSS_ORIGIN_PATH):
        response.headers["Access-Control-Allow-Origin"] = "*"
    return response


blp.after_request(_allow_cross_origin)


@blp.route("")
class Reference(MethodView):
    """The reference of this API."""

    @blp.scope(PUBLIC)
    def get(self) -> Response:
        """An HTML page that shows the description, and sends requests."""
        return page()


@blp.route("/assets/<name>")
class Asset(MethodView):
    """Scripts and styles of the reference."""

    @blp.scope(PUBLIC)
    def get(self, name: str) -> Response:
        """The file."""
        return asset(name)


@blp.route(CROSS_ORIGIN_PATH)
class OpenApi(MethodView):
    """The description of this API."""

    @blp.scope(PUBLIC)
    def get(self) -> Response:
        """An OpenAPI 3.1 document."""
        return static_response(description(current_app, EVENT_SCHEMAS), JSON)


@blp.route("/errors")
class ErrorTypes(MethodView):
    """The families of errors."""

    @blp.scope(PUBLIC)
    def get(self) -> str:
        """An HTML page that links to a page per type."""
        return render_template("error_types.html", types=ERROR_TYPES)


@blp.route("/errors/<type_>")
class ErrorType(MethodView):
    """One family of errors."""

    @blp.scope(PUBLIC)
    def get(self, type_: str) -> str:
        """An HTML page that explains each code, with an anchor for it."""
        codes = [code for code in CATALOGUE.values() if code.type == type_]
        if not codes:
            raise ServiceError("not_found")
        explained = [(code, [_with_code(text) for text in HELP[code.code]]) for code in codes]
        return render_template("error_type.html", type=type_, explained=explained)


def _with_code(text: str) -> Markup:
    """What stands between backticks as code."""
    parts = text.split("`")
    return Markup().join(
        Markup("<code>{}</code>").format(part) if index % 2 else escape(part) for index, part in enumerate(parts)
    )
