"""`/v1/`: the scopes of a key, and links to the resources."""

from __future__ import annotations

from flask import Response
from flask.views import MethodView

from app.accounts.auth import MANAGE
from app.accounts.root import ROOT, show_root
from app.http.api import Blueprint
from app.http.context import principal
from app.http.openapi_parameters import instance_parameters
from app.http.responses import json_response, query_pairs
from app.query.grammar import parse_instance
from schemas.root import RootSchema

blp = Blueprint("root", __name__, url_prefix="/v1", description="The API root")


SERVICE_DESCRIPTION = '</docs/openapi.json>; rel="service-desc"; type="application/json", </docs>; rel="service-doc"'
"""Where the API is described (RFC 8631)."""


@blp.route("")
class Root(MethodView):
    """The API root. A 200 means that the key is valid."""

    @blp.scope("report.view", MANAGE)
    @blp.describe("root.get", returns=RootSchema, query=instance_parameters(ROOT))
    def get(self) -> Response:
        """The scopes of the key and the links to the resources."""
        query = parse_instance(query_pairs(), ROOT)
        return json_response(show_root(principal(), query), headers={"Link": SERVICE_DESCRIPTION})
