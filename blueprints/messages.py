"""`/v1/messages`: stored messages, their content and their sent contacts."""

from __future__ import annotations

from flask import Response
from flask.views import MethodView

from app.groups.sent_contacts import SENT_CONTACTS, page_sent_contacts
from app.http.api import Blueprint
from app.http.context import principal, services
from app.http.openapi_parameters import collection_parameters, instance_parameters
from app.http.paths import path_id
from app.http.responses import collection_query, collection_response, json_response, query_pairs
from app.messages.read import CONTENT, MESSAGES, get_content, get_message, page_messages, require_message
from app.query.grammar import parse_instance
from schemas.groups import SentContactCollectionSchema
from schemas.messages import MessageCollectionSchema, MessageContentSchema, MessageSchema

blp = Blueprint("messages", __name__, url_prefix="/v1/messages", description="Stored messages and their content")


@blp.route("")
class Messages(MethodView):
    """The account's messages."""

    @blp.scope("message.view")
    @blp.describe("messages.list", returns=MessageCollectionSchema, query=collection_parameters(MESSAGES.resource))
    def get(self) -> Response:
        """A page of messages, newest first."""
        query = collection_query(MESSAGES.resource)
        with services().database.read() as session:
            page = page_messages(session, principal().account_id, query)
        return collection_response(MESSAGES.resource, query, page)


@blp.route("/<message_id>")
class Message(MethodView):
    """One message."""

    @blp.scope("message.view")
    @blp.describe("messages.get", returns=MessageSchema, query=instance_parameters(MESSAGES.resource))
    def get(self, message_id: str) -> Response:
        """The message."""
        with services().database.read() as session:
            row_id = require_message(session, principal().account_id, path_id(message_id))
            query = parse_instance(query_pairs(), MESSAGES.resource)
            message = get_message(session, principal().account_id, row_id, query)
        return json_response(message)


@blp.route("/<message_id>/content")
class MessageContent(MethodView):
    """The content of a message."""

    @blp.scope("message.view")
    @blp.describe("messages.get_content", returns=MessageContentSchema, query=instance_parameters(CONTENT.resource))
    def get(self, message_id: str) -> Response:
        """The message's bodies."""
        with services().database.read() as session:
            row_id = require_message(session, principal().account_id, path_id(message_id))
            query = parse_instance(query_pairs(), CONTENT.resource)
            content = get_content(session, principal().account_id, row_id, query)
        return json_response(content)


@blp.route("/<message_id>/sent-contacts")
class SentContacts(MethodView):
    """The recipients to whom a message was sent."""

    @blp.scope("message.view")
    @blp.describe(
        "messages.list_sent_contacts",
        returns=SentContactCollectionSchema,
        query=collection_parameters(SENT_CONTACTS.resource),
    )
    def get(self, message_id: str) -> Response:
        """A page of sent contacts, the latest first."""
        with services().database.read() as session:
            row_id = require_message(session, principal().account_id, path_id(message_id))
            query = collection_query(SENT_CONTACTS.resource)
            page = page_sent_contacts(session, principal().account_id, row_id, query)
        return collection_response(SENT_CONTACTS.resource, query, page)
