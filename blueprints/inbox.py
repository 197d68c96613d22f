"""`/v1/inbox`: the messages that test keys have sent (docs/testing.md#inbox), an addition to the API."""

from __future__ import annotations

from flask import Response
from flask.views import MethodView

from app.http.api import Blueprint
from app.http.context import principal, services
from app.http.openapi_parameters import collection_parameters, instance_parameters
from app.http.paths import path_id
from app.http.responses import collection_query, collection_response, json_response, query_pairs
from app.inbox.shown import CAPTURED_MESSAGE_SHAPE, INBOX_SHAPE, get_captured, page_captured, require_captured
from app.query.grammar import parse_instance
from schemas.inbox import CapturedMessageWithContentSchema, InboxSchema

blp = Blueprint(
    "inbox", __name__, url_prefix="/v1/inbox", description="Messages of test keys, captured instead of sent"
)


@blp.route("")
class Inbox(MethodView):
    """The captured messages of a test account; any other account has none."""

    @blp.scope("contact.view")
    @blp.describe("inbox.list", returns=InboxSchema, query=collection_parameters(INBOX_SHAPE.resource))
    def get(self) -> Response:
        """A page of captured messages, newest first."""
        query = collection_query(INBOX_SHAPE.resource)
        with services().database.read() as session:
            page = page_captured(session, principal().account_id, query)
        return collection_response(INBOX_SHAPE.resource, query, page)


@blp.route("/<captured_id>")
class CapturedMessage(MethodView):
    """One captured message."""

    @blp.scope("contact.view")
    @blp.describe(
        "inbox.get",
        returns=CapturedMessageWithContentSchema,
        query=instance_parameters(CAPTURED_MESSAGE_SHAPE.resource),
    )
    def get(self, captured_id: str) -> Response:
        """The captured message as it would have been sent."""
        with services().database.read() as session:
            require_captured(session, principal().account_id, path_id(captured_id))
            query = parse_instance(query_pairs(), CAPTURED_MESSAGE_SHAPE.resource)
            message = get_captured(session, principal().account_id, path_id(captured_id), query)
        return json_response(message)
