"""`/v1/transactional-groups`: the reports of sends."""

from __future__ import annotations

from flask import Response
from flask.views import MethodView

from app.groups.read import GROUPS, get_group, page_groups, require_group
from app.http.api import Blueprint
from app.http.context import principal, services
from app.http.openapi_parameters import collection_parameters, instance_parameters
from app.http.paths import path_id
from app.http.responses import collection_query, collection_response, json_response, query_pairs
from app.query.grammar import parse_instance
from schemas.groups import GroupCollectionSchema, GroupSchema

blp = Blueprint(
    "groups", __name__, url_prefix="/v1/transactional-groups", description="Groups of sends and their reports"
)


@blp.route("")
class Groups(MethodView):
    """The account's transactional groups."""

    @blp.scope("report.view")
    @blp.describe("groups.list", returns=GroupCollectionSchema, query=collection_parameters(GROUPS.resource))
    def get(self) -> Response:
        """A page of groups, newest first."""
        query = collection_query(GROUPS.resource)
        with services().reports.read(principal().account_id) as session:
            page = page_groups(session, principal().account_id, query)
        return collection_response(GROUPS.resource, query, page)


@blp.route("/<group_id>")
class Group(MethodView):
    """One transactional group."""

    @blp.scope("report.view")
    @blp.describe("groups.get", returns=GroupSchema, query=instance_parameters(GROUPS.resource))
    def get(self, group_id: str) -> Response:
        """The group."""
        with services().reports.read(principal().account_id) as session:
            require_group(session, principal().account_id, path_id(group_id))
            query = parse_instance(query_pairs(), GROUPS.resource)
            group = get_group(session, principal().account_id, path_id(group_id), query)
        return json_response(group)
