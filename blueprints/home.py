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
        """Leads a browser to the console, or to the reference where the console is off, and a program to the
        description of the API. Raises `not_found` under a host of an account, whose DNS somebody else may own."""
        settings = services().settings
        if not settings.is_own_host(request_host()):
            raise ServiceError("not_found")
        page = HOME if settings.console else "/docs"
        reads_pages = request.accept_mimetypes.best_match(("application/json", "text/html")) == "text/html"
        answer = Response(status=302, headers={"Location": page if reads_pages else "/docs/openapi.json"})
        answer.vary.add("Accept")
        return answer
