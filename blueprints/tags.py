"""`/v1/tags`: counts of the messages that have a tag."""

from __future__ import annotations

from flask import Response
from flask.views import MethodView

from app.clock import now
from app.groups.tags import TAG, get_tag
from app.http.api import Blueprint
from app.http.context import principal, services
from app.http.openapi_parameters import instance_parameters
from app.http.responses import json_response, query_pairs
from app.query.grammar import parse_instance
from schemas.tags import TagCountsSchema

blp = Blueprint("tags", __name__, url_prefix="/v1/tags", description="Counts of the messages that have a tag")


@blp.route("/<path:tag>")
class Tag(MethodView):
    """One tag of the account's sends."""

    @blp.scope("report.view")
    @blp.describe("tags.get", returns=TagCountsSchema, query=instance_parameters(TAG))
    def get(self, tag: str) -> Response:
        """The counts of the tag, of the last 30 days together and of each."""
        query = parse_instance(query_pairs(), TAG)
        with services().reports.read(principal().account_id) as session:
            counts = get_tag(session, principal().account_id, tag.rstrip("/"), query, now())
        return json_response(counts)
