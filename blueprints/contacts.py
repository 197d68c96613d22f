"""`/v1/lists/{list_id}/contacts`: the contacts of a list.

Every view checks the path first, then the query, then the body, and then calls the use case
(docs/requests.md#order-of-checks).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flask import Response, g
from flask.views import MethodView

from app.contacts.create import create_contacts
from app.contacts.delete import delete_contacts
from app.contacts.read import contact_shape, existing_contact, get_contact, page_contacts, show_contact
from app.contacts.update import update_contacts
from app.db.database import Transaction
from app.http.api import Blueprint
from app.http.bodies import json_object
from app.http.context import services
from app.http.idempotency import Work, idempotent
from app.http.openapi_parameters import collection_parameters, free_filters, instance_parameters
from app.http.paths import path_id
from app.http.responses import collection_query, collection_response, json_response, no_content, query_pairs
from app.ids import existing
from app.lists.fields import ListSpec
from app.query.conditions import Query
from app.query.grammar import parse_instance
from app.query.writes import RemoveUnsubscribers, parse_delete_ids, parse_remove_unsubscribers, parse_write
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
from schemas.examples import CHANGED_CONTACT, CHANGED_CONTACTS, NEW_CONTACTS

blp = Blueprint("contacts", __name__, url_prefix="/v1/lists/<list_id>/contacts", description="The contacts of a list")

COMMON_RESOURCE = contact_shape().resource
"""The attributes that contacts of every list have; a list adds its own fields."""
REMOVE_UNSUBSCRIBERS = {
    "in": "query",
    "name": "remove_unsubscribers",
    "description": "Skip contacts that are unsubscribed: from this list (`list`), or anywhere in the account (`any`).",
    "schema": {"type": "string", "enum": ["none", "list", "any"], "default": "none"},
}
ID_PARAMETERS = [
    {"in": "query", "name": "id", "description": "The contact to delete.", "schema": {"type": "integer"}},
    free_filters("`id:in` with up to 1000 ids, separated by commas.", "^id:in$"),
]


def list_of_path(list_id: str) -> ListSpec:
    """The list of the path, which the guards have read together with the key. Raises `not_found`."""
    contact_list: ListSpec | None = g.list
    return existing(contact_list, "list", path_id(list_id))


def contact_of_path(list_id: str, contact_id: str) -> tuple[ListSpec, int, Sequence[Any]]:
    """The list of the path, and the contact: its id and its columns, which the guards have read with the key. Raises
    `not_found`."""
    contact_list, id_ = list_of_path(list_id), path_id(contact_id)
    return contact_list, id_, existing_contact(g.contact, contact_list, id_)


@blp.route("")
class Contacts(MethodView):
    """The contacts of a list."""

    @blp.scope("contact.view")
    @blp.describe(
        "contacts.list",
        returns=ContactCollectionSchema,
        query=collection_parameters(COMMON_RESOURCE, has_list_fields=True),
    )
    def get(self, list_id: str) -> Response:
        """A page of contacts, newest first."""
        contact_list = list_of_path(list_id)
        resource = contact_shape(contact_list.value_fields).resource
        query = collection_query(resource)
        with services().database.read() as session:
            page = page_contacts(session, contact_list, query)
        return collection_response(resource, query, page)

    @blp.scope("contact.create")
    @blp.describe(
        "contacts.create",
        returns=ContactSchema,
        status=201,
        empty=(204,),
        body={"anyOf": [ContactWriteSchema, ContactsWriteSchema]},
        examples=NEW_CONTACTS,
        query=[REMOVE_UNSUBSCRIBERS],
        errors=(409, 422),
        is_idempotent=True,
    )
    def post(self, list_id: str) -> Response:
        """Creates one contact and returns it (201), or all contacts of a `contacts` array (204)."""
        contact_list = list_of_path(list_id)
        resource = contact_shape(contact_list.value_fields).resource
        parameters = parse_write(query_pairs(), resource, remove_unsubscribers=parse_remove_unsubscribers)
        mode = parameters.get("remove_unsubscribers", "none")
        return idempotent(lambda: read_new_contacts(contact_list, mode))

    @blp.scope("contact.update")
    @blp.describe(
        "contacts.update_many", status=204, body=ContactsUpdateSchema, examples=CHANGED_CONTACTS, errors=(409, 422)
    )
    def patch(self, list_id: str) -> Response:
        """Updates the contacts of a `contacts` array, each named by its id."""
        contact_list = list_of_path(list_id)
        parse_write(query_pairs(), contact_shape(contact_list.value_fields).resource)
        elements = load(contacts_schema(contact_list, with_id=True), json_object())["contacts"]
        changes = [(element["id"], element) for element in elements]
        services().database.transact(lambda transaction: update_contacts(transaction, contact_list, changes, bulk=True))
        return no_content()

    @blp.scope("contact.delete")
    @blp.describe("contacts.delete_many", status=204, query=ID_PARAMETERS, errors=(422,))
    def delete(self, list_id: str) -> Response:
        """Deletes the contacts that the query names by id; ids that the list does not have are ignored."""
        contact_list = list_of_path(list_id)
        ids = parse_delete_ids(query_pairs(), contact_shape(contact_list.value_fields).resource)
        services().database.transact(lambda transaction: delete_contacts(transaction, contact_list, ids))
        return no_content()


@blp.route("/<contact_id>")
class Contact(MethodView):
    """One contact."""

    @blp.scope("contact.view")
    @blp.describe("contacts.get", returns=ContactSchema, query=instance_parameters(COMMON_RESOURCE))
    def get(self, list_id: str, contact_id: str) -> Response:
        """The contact."""
        contact_list, _, contact = contact_of_path(list_id, contact_id)
        query = parse_instance(query_pairs(), contact_shape(contact_list.value_fields).resource)
        return json_response(show_contact(contact_list, contact, query))

    @blp.scope("contact.update")
    @blp.describe(
        "contacts.update", returns=ContactSchema, body=ContactWriteSchema, examples=CHANGED_CONTACT, errors=(409, 422)
    )
    def patch(self, list_id: str, contact_id: str) -> Response:
        """Updates the contact; null clears an attribute."""
        contact_list, id_, _ = contact_of_path(list_id, contact_id)
        parse_write(query_pairs(), contact_shape(contact_list.value_fields).resource)
        attributes = load(contact_schema(contact_list), _without_own_id(json_object(), id_))
        return services().database.transact(lambda transaction: update_one(transaction, contact_list, id_, attributes))

    @blp.scope("contact.delete")
    @blp.describe("contacts.delete", status=204, errors=(422,))
    def delete(self, list_id: str, contact_id: str) -> Response:
        """Deletes the contact."""
        contact_list, id_, _ = contact_of_path(list_id, contact_id)
        parse_write(query_pairs(), contact_shape(contact_list.value_fields).resource)
        services().database.transact(lambda transaction: delete_contacts(transaction, contact_list, [id_]))
        return no_content()


def _without_own_id(body: dict[str, Any], contact_id: int) -> dict[str, Any]:
    """The body without the id of the path, which clients that send back what they have read repeat."""
    is_own = type(body.get("id")) is int and body["id"] == contact_id
    return {name: value for name, value in body.items() if not (is_own and name == "id")}


def read_new_contacts(contact_list: ListSpec, mode: RemoveUnsubscribers) -> Work:
    """Validates the body, which is the multiple form if it has `contacts` (docs/contacts.md#bulk-requests)."""
    body = json_object()
    if "contacts" in body:
        drafts = load(contacts_schema(contact_list, with_id=False), body)["contacts"]
        return lambda transaction: create_many(transaction, contact_list, drafts, mode)
    draft = load(contact_schema(contact_list), body)
    return lambda transaction: create_one(transaction, contact_list, draft, mode)


def create_one(
    transaction: Transaction, contact_list: ListSpec, draft: Mapping[str, Any], mode: RemoveUnsubscribers
) -> Response:
    """The single form: 201 with the new contact."""
    (contact_id,) = create_contacts(transaction, contact_list, [draft], remove_unsubscribers=mode)
    return json_response(get_contact(transaction, contact_list, contact_id, Query()), 201)


def create_many(
    transaction: Transaction, contact_list: ListSpec, drafts: Sequence[Mapping[str, Any]], mode: RemoveUnsubscribers
) -> Response:
    """The multiple form: 204."""
    create_contacts(transaction, contact_list, drafts, remove_unsubscribers=mode, bulk=True)
    return no_content()


def update_one(
    transaction: Transaction, contact_list: ListSpec, contact_id: int, attributes: Mapping[str, Any]
) -> Response:
    """200 with the updated contact."""
    update_contacts(transaction, contact_list, [(contact_id, attributes)])
    return json_response(get_contact(transaction, contact_list, contact_id, Query()))
