"""`/v1/suppressions`: the addresses that get no messages (docs/suppressions.md), an addition to the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flask import Response
from flask.views import MethodView

from app.db.database import Transaction
from app.http.api import Blueprint
from app.http.bodies import json_object
from app.http.context import principal, services
from app.http.idempotency import Work, idempotent
from app.http.openapi_parameters import collection_parameters
from app.http.responses import collection_query, collection_response, json_response, no_content, query_pairs
from app.query.writes import parse_write
from app.recipients.redaction import Redaction
from app.suppressions.acts import add_many, add_suppression
from app.suppressions.drafts import read_drafts
from app.suppressions.filters import SUPPRESSIONS
from app.suppressions.remove import CONFIRMATIONS, parse_removal, remove_suppressions
from app.suppressions.shown import Redact, get_suppression, page_suppressions
from app.suppressions.states import STATES
from schemas.base import load
from schemas.examples import NEW_SUPPRESSIONS
from schemas.suppressions import (
    SuppressionCollectionSchema,
    SuppressionSchema,
    SuppressionsWriteSchema,
    SuppressionWriteSchema,
)

blp = Blueprint("suppressions", __name__, url_prefix="/v1/suppressions", description="Addresses that get no messages")


def _parameter(name: str, description: str, **schema: Any) -> dict[str, Any]:
    return {"in": "query", "name": name, "description": description, "schema": {"type": "string", **schema}}


REMOVAL_PARAMETERS = [
    _parameter("email", "The email address to take off; this or `mobile` is required."),
    _parameter("mobile", "The mobile number to take off."),
    _parameter("state", "Only what is in this state.", enum=list(STATES)),
    {
        **_parameter("list_id", "Only what is unsubscribed from this list; empty: only from the whole account."),
        "schema": {"type": "integer"},
        "allowEmptyValue": True,
    },
    _parameter(
        "confirm",
        f"What is taken off though the person wished it, separated by commas: {', '.join(CONFIRMATIONS.values())}.",
    ),
]


@blp.route("")
class Suppressions(MethodView):
    """The suppressions of the account."""

    @blp.scope("contact.view")
    @blp.describe("suppressions.list", returns=SuppressionCollectionSchema, query=collection_parameters(SUPPRESSIONS))
    def get(self) -> Response:
        """A page of suppressions, newest first."""
        query = collection_query(SUPPRESSIONS)
        with services().database.read() as session:
            page = page_suppressions(session, principal().account_id, query, _redact())
        return collection_response(SUPPRESSIONS, query, page)

    @blp.scope("contact.update")
    @blp.describe(
        "suppressions.add",
        returns=SuppressionSchema,
        status=201,
        responses={200: SuppressionSchema},
        empty=(204,),
        body={"anyOf": [SuppressionWriteSchema, SuppressionsWriteSchema]},
        examples=NEW_SUPPRESSIONS,
        errors=(409, 422),
        is_idempotent=True,
    )
    def post(self) -> Response:
        """Adds one suppression and returns it (201, or 200 if it was there), or all of a `suppressions` array (204)."""
        parse_write(query_pairs(), SUPPRESSIONS)
        return idempotent(_read_body)

    @blp.scope("contact.update")
    @blp.describe("suppressions.remove", status=204, query=REMOVAL_PARAMETERS, errors=(409, 422))
    def delete(self) -> Response:
        """Takes off the suppressions of an address that the query names; what the person wished only if it is
        confirmed."""
        removal, account_id, secret_key = parse_removal(query_pairs()), principal().account_id, _secret_key()
        services().database.transact(
            lambda transaction: remove_suppressions(transaction, secret_key, account_id, removal)
        )
        return no_content()


def _read_body() -> Work:
    """Validates the body, which is the multiple form if it has `suppressions`."""
    body = json_object()
    if SUPPRESSIONS.collection in body:
        drafts = load(SuppressionsWriteSchema(), body)[SUPPRESSIONS.collection]
        return lambda transaction: _add_many(transaction, drafts)
    draft = load(SuppressionWriteSchema(), body)
    return lambda transaction: _add_one(transaction, draft)


def _add_one(transaction: Transaction, draft: Mapping[str, Any]) -> Response:
    """The single form: the entry, 201 if it was not there before."""
    account_id = principal().account_id
    (new,) = read_drafts(transaction, account_id, [draft])
    added = add_suppression(transaction, _secret_key(), account_id, new)
    return json_response(get_suppression(transaction, account_id, new, _redact()), 201 if added.entries else 200)


def _add_many(transaction: Transaction, drafts: Sequence[Mapping[str, Any]]) -> Response:
    """The multiple form: 204."""
    account_id = principal().account_id
    add_many(transaction, account_id, read_drafts(transaction, account_id, drafts, bulk=True))
    return no_content()


def _secret_key() -> str:
    return services().settings.secret_key


def _redact() -> Redact:
    return Redaction.of(services().settings).redact
