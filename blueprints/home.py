"""`/`: where somebody goes who knows the address of the service alone."""

from __future__ import annotations

from flask import Response, request
from flask.views import MethodView

from app.errors import ServiceError
from app.http.api import PUBLIC, Blueprint
from app.http.console.navigation import HOME
from app.http.context import request_host, services

blp = Blueprint("home", __name__, url_prefix="/", description="The address of the service")


@blp.route("")
class Home(MethodView):
    """The address of the service."""

    @blp.scope(PUBLIC)
    def get(self) -> Response:
        """Leads a browser to the console, or to the reference where the console is off. Raises `not_found` for
        programs, which it tells where the description of the API is, and under a host of an account, whose DNS somebody
        else may own."""
        settings = services().settings
        if not settings.is_own_host(request_host()):
            raise ServiceError("not_found")
        if request.accept_mimetypes.best_match(("application/json", "text/html")) != "text/html":
            raise ServiceError("not_found", detail="The API begins at /v1/; /docs/openapi.json describes it.")
        return Response(status=302, headers={"Location": HOME if settings.console else "/docs", "Vary": "Accept"})
