"""`/v1/lists/{list_id}/contacts`: the contacts of a list.

Every view looks at the path first, then at the query, then at the body, and last asks the use case
(docs/requests.md#order-of-checks).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flask import Response, g
from flask.views import MethodView

from app.contacts.create import create_contacts
from app.contacts.delete import delete_contacts
from app.contacts.read import contact_shape, get_contact, page_contacts, require_contact
from app.contacts.update import update_contacts
from app.db.database import Transaction
from app.errors import ServiceError
from app.http.api import Blueprint
from app.http.bodies import json_object
from app.http.collections import collection_response, query_pairs
from app.http.context import services
from app.http.idempotency import Work, idempotent
from app.http.openapi_parameters import collection_parameters, instance_parameters
from app.http.paths import path_id
from app.http.responses import json_response, no_content
from app.lists.fields import ListSpec
from app.lists.find import existing
from app.query.conditions import Query
from app.query.grammar import (
    parse_collection,
    parse_delete_ids,
    parse_instance,
    parse_remove_unsubscribers,
    parse_write,
)
from app.query.writes import RemoveUnsubscribers
from schemas.base import load
from schemas.contacts import (
    ContactCollectionSchema,
    ContactSchema,
    ContactsUpdateSchema,
    ContactsWriteSchema,
    ContactWriteSchema,
    contact_schema,
    contacts_schema,
)

blp = Blueprint("contacts", __name__, url_prefix="/v1/lists/<list_id>/contacts", description="The contacts of a list")

COMMON = contact_shape().resource
"""What contacts of every list have; a list adds its own fields."""
REMOVE_UNSUBSCRIBERS = {
    "in": "query",
    "name": "remove_unsubscribers",
    "description": "Skip contacts with an address on the unsubscribers list: of this list, or of any.",
    "schema": {"type": "string", "enum": ["none", "list", "any"], "default": "none"},
}
IDS = [
    {"in": "query", "name": "id", "description": "The contact to delete.", "schema": {"type": "integer"}},
    {"in": "query", "name": "id:in", "description": "Up to 1000 ids, comma-separated.", "schema": {"type": "string"}},
]


def list_of_path(list_id: str) -> ListSpec:
    """The list of the path, which the guards have read together with the key. Raises `not_found`."""
    return existing(g.list, path_id(list_id))


def the_contact(list_id: str, contact_id: str) -> tuple[ListSpec, int]:
    """The list and the id of the contact that the path names. Raises `not_found`."""
    lst = list_of_path(list_id)
    with services().database.read() as session:
        require_contact(session, lst, path_id(contact_id))
    return lst, path_id(contact_id)


@blp.route("")
class Contacts(MethodView):
    """The contacts of a list."""

    @blp.scope("contact.view")
    @blp.describe(returns=ContactCollectionSchema, query=collection_parameters(COMMON))
    def get(self, list_id: str) -> Response:
        """A page of contacts, newest first."""
        lst = list_of_path(list_id)
        resource = contact_shape(lst.value_fields).resource
        query = parse_collection(query_pairs(), resource)
        with services().database.read() as session:
            page = page_contacts(session, lst, query)
        return collection_response(resource, query, page)

    @blp.scope("contact.create")
    @blp.describe(
        returns=ContactSchema,
        status=201,
        empty=(204,),
        body={"anyOf": [ContactWriteSchema, ContactsWriteSchema]},
        query=[REMOVE_UNSUBSCRIBERS],
        errors=(409, 422),
    )
    def post(self, list_id: str) -> Response:
        """Creates one contact (201 with it), or all of a `contacts` array (204)."""
        lst = list_of_path(list_id)
        resource = contact_shape(lst.value_fields).resource
        parameters = parse_write(query_pairs(), {"remove_unsubscribers"}, resource)
        mode = parse_remove_unsubscribers(parameters.get("remove_unsubscribers", "none"))
        return idempotent(lambda: read_creation(lst, mode))

    @blp.scope("contact.update")
    @blp.describe(status=204, body=ContactsUpdateSchema, errors=(409, 422))
    def patch(self, list_id: str) -> Response:
        """Updates the contacts of a `contacts` array, each named by its id."""
        lst = list_of_path(list_id)
        parse_write(query_pairs(), (), contact_shape(lst.value_fields).resource)
        elements = load(contacts_schema(lst, with_id=True), json_object())["contacts"]
        changes = [(element["id"], element) for element in elements]
        services().database.transact(lambda transaction: update_contacts(transaction, lst, changes, bulk=True))
        return no_content()

    @blp.scope("contact.delete")
    @blp.describe(status=204, query=IDS, errors=(422,))
    def delete(self, list_id: str) -> Response:
        """Deletes the contacts that the query names by id; ids that the list does not have are ignored."""
        lst = list_of_path(list_id)
        ids = parse_delete_ids(query_pairs(), contact_shape(lst.value_fields).resource)
        services().database.transact(lambda transaction: delete_contacts(transaction, lst, ids))
        return no_content()


@blp.route("/<contact_id>")
class Contact(MethodView):
    """One contact."""

    @blp.scope("contact.view")
    @blp.describe(returns=ContactSchema, query=instance_parameters(COMMON))
    def get(self, list_id: str, contact_id: str) -> Response:
        """The contact."""
        lst = list_of_path(list_id)
        with services().database.read() as session:
            try:
                query = parse_instance(query_pairs(), contact_shape(lst.value_fields).resource)
            except ServiceError:
                # An unknown contact is reported before an invalid query (docs/requests.md#order-of-checks).
                require_contact(session, lst, path_id(contact_id))
                raise
            contact = get_contact(session, lst, path_id(contact_id), query)
        return json_response(contact)

    @blp.scope("contact.update")
    @blp.describe(returns=ContactSchema, body=ContactWriteSchema, errors=(409, 422))
    def patch(self, list_id: str, contact_id: str) -> Response:
        """Updates the contact; null clears an attribute."""
        lst, wanted = the_contact(list_id, contact_id)
        parse_write(query_pairs(), (), contact_shape(lst.value_fields).resource)
        given = load(contact_schema(lst), json_object())
        return services().database.transact(lambda transaction: update_one(transaction, lst, wanted, given))

    @blp.scope("contact.delete")
    @blp.describe(status=204, errors=(422,))
    def delete(self, list_id: str, contact_id: str) -> Response:
        """Deletes the contact."""
        lst, wanted = the_contact(list_id, contact_id)
        parse_write(query_pairs(), (), contact_shape(lst.value_fields).resource)
        services().database.transact(lambda transaction: delete_contacts(transaction, lst, [wanted]))
        return no_content()


def read_creation(lst: ListSpec, mode: RemoveUnsubscribers) -> Work:
    """What the body asks for: the multiple form where it has `contacts` (docs/contacts.md#bulk-requests)."""
    body = json_object()
    if "contacts" in body:
        drafts = load(contacts_schema(lst, with_id=False), body)["contacts"]
        return lambda transaction: create_many(transaction, lst, drafts, mode)
    draft = load(contact_schema(lst), body)
    return lambda transaction: create_one(transaction, lst, draft, mode)


def create_one(
    transaction: Transaction, lst: ListSpec, draft: Mapping[str, Any], mode: RemoveUnsubscribers
) -> Response:
    """The single form: 201 with the new contact."""
    (contact_id,) = create_contacts(transaction, lst, [draft], remove_unsubscribers=mode)
    return json_response(get_contact(transaction, lst, contact_id, Query()), 201)


def create_many(
    transaction: Transaction, lst: ListSpec, drafts: Sequence[Mapping[str, Any]], mode: RemoveUnsubscribers
) -> Response:
    """The multiple form: 204."""
    create_contacts(transaction, lst, drafts, remove_unsubscribers=mode, bulk=True)
    return no_content()


def update_one(transaction: Transaction, lst: ListSpec, contact_id: int, given: Mapping[str, Any]) -> Response:
    """200 with the contact as it is now."""
    update_contacts(transaction, lst, [(contact_id, given)])
    return json_response(get_contact(transaction, lst, contact_id, Query()))
