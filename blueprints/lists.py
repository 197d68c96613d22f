"""`/v1/lists`: the account's lists."""

from __future__ import annotations

from flask import Response
from flask.views import MethodView

from app.contacts.read import page_lists_with_contacts, show_list_with_contacts
from app.http.api import Blueprint
from app.http.context import principal, services
from app.http.openapi_parameters import collection_parameters, instance_parameters
from app.http.paths import path_id
from app.http.responses import collection_query, collection_response, cursor_scope, json_response, query_pairs
from app.lists.paths import list_path
from app.lists.read import LISTS, require_list
from app.query.grammar import parse_instance
from schemas.lists import ContactListCollectionSchema, ContactListSchema

blp = Blueprint("lists", __name__, url_prefix="/v1/lists", description="Lists of contacts")


@blp.route("")
class Lists(MethodView):
    """The account's lists."""

    @blp.scope("list.view")
    @blp.describe("lists.list", returns=ContactListCollectionSchema, query=collection_parameters(LISTS.resource))
    def get(self) -> Response:
        """A page of lists, newest first."""
        query = collection_query(LISTS.resource)
        with services().database.read() as session:
            page = page_lists_with_contacts(session, principal().account_id, query)
        return collection_response(LISTS.resource, query, page)


@blp.route("/<list_id>")
class List(MethodView):
    """One list."""

    @blp.scope("list.view")
    @blp.describe("lists.get", returns=ContactListSchema, query=instance_parameters(LISTS.resource))
    def get(self, list_id: str) -> Response:
        """The list."""
        with services().database.read() as session:
            row_id = require_list(session, principal().account_id, path_id(list_id))
            query = parse_instance(query_pairs(), LISTS.resource, cursor_scope(list_path(row_id)))
            contact_list = show_list_with_contacts(session, principal().account_id, row_id, query)
        return json_response(contact_list)
