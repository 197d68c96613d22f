"""`/v1/management`: what programs set up with a key of the level manager (docs/management.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flask import Response, request
from flask.views import MethodView

from app.accounts.auth import MANAGE
from app.automations.parse import read_definition
from app.db.database import Transaction
from app.http.api import Blueprint
from app.http.bodies import json_object
from app.http.context import principal, request_id, services
from app.http.idempotency import SecretWork, idempotent
from app.http.openapi_parameters import collection_parameters, instance_parameters
from app.http.paths import path_id
from app.http.responses import collection_query, collection_response, json_response, no_content, query_pairs
from app.management import domains, keys, webhooks
from app.management.automations import AUTOMATIONS, DRAFT
from app.management.domains import DOMAINS
from app.management.keys import KEYS
from app.management.lists import CONFIRMATION, LISTS
from app.management.messages import MESSAGES, preview_message
from app.management.noun import (
    PATH,
    Create,
    CreatedRow,
    ManagedNoun,
    Manager,
    Values,
    check_number,
    find_row,
    owner_of,
    page_items,
    show_row,
)
from app.management.senders import SENDERS
from app.management.webhooks import WEBHOOKS
from app.query.conditions import Query
from app.query.grammar import parse_instance
from app.query.writes import parse_write
from app.sends.accept.draft import with_number_texts
from schemas import management as schemas
from schemas.automations import (
    DEFINITION_BODY,
    AutomationCollectionSchema,
    AutomationWithDefinitionSchema,
    located_errors,
)
from schemas.base import CodeSchema, NoAttributesSchema, load
from schemas.examples import DEFINITIONS, MANAGEMENT
from schemas.responses import ResponseSchema
from schemas.sends import load_send

blp = Blueprint("management", __name__, url_prefix=PATH, description="Setting up an account with a manager's key")

Read = Callable[[], Values]
"""Reads and validates the body of the request."""
Action = Callable[[Transaction, Manager, Any, Values], CreatedRow | None]
"""Does something to a row; what it returns is shown in its place."""


def _reads(schema: type[CodeSchema]) -> Read:
    instance = schema()
    return lambda: load(instance, json_object())


def _read_definition() -> Values:
    with located_errors():
        return {DRAFT: read_definition(json_object())}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bodies:
    """What the requests and responses of a noun have. A noun without `new` cannot be created."""

    page: type[ResponseSchema]
    item: type[ResponseSchema]
    created: type[ResponseSchema] | None = None
    """The answer to creating one, where it is another."""
    new: type[CodeSchema] | Mapping[str, Any] | None = None
    change: type[CodeSchema] | Mapping[str, Any]
    reads_new: Read | None = None
    reads_change: Read
    delete_parameters: list[dict[str, Any]] = field(default_factory=list)


def _bodies(page: type[ResponseSchema], item: type[ResponseSchema], change: type[CodeSchema], **others: Any) -> Bodies:
    new = others.get("new")
    return Bodies(
        page=page, item=item, change=change, reads_change=_reads(change), reads_new=new and _reads(new), **others
    )


CONFIRM_PARAMETER = {
    "in": "query",
    "name": "confirm",
    "description": f"`{CONFIRMATION}`: the contacts of the list are deleted with it.",
    "schema": {"type": "string", "enum": [CONFIRMATION]},
}
BODIES: tuple[tuple[ManagedNoun, Bodies], ...] = (
    (
        LISTS,
        _bodies(
            schemas.ManagedListCollectionSchema,
            schemas.ManagedListSchema,
            schemas.ListUpdateSchema,
            new=schemas.ListCreateSchema,
            delete_parameters=[CONFIRM_PARAMETER],
        ),
    ),
    (
        MESSAGES,
        _bodies(
            schemas.ManagedMessageCollectionSchema,
            schemas.ManagedMessageWithContentSchema,
            schemas.MessageUpdateSchema,
            new=schemas.MessageCreateSchema,
        ),
    ),
    (
        WEBHOOKS,
        _bodies(
            schemas.ManagedWebhookCollectionSchema,
            schemas.ManagedWebhookSchema,
            schemas.WebhookUpdateSchema,
            new=schemas.WebhookCreateSchema,
            created=schemas.WebhookWithSecretSchema,
        ),
    ),
    (
        DOMAINS,
        _bodies(
            schemas.ManagedDomainCollectionSchema,
            schemas.ManagedDomainSchema,
            schemas.DomainUpdateSchema,
            new=schemas.DomainCreateSchema,
        ),
    ),
    (
        SENDERS,
        _bodies(schemas.ManagedSenderCollectionSchema, schemas.ManagedSenderSchema, schemas.SenderUpdateSchema),
    ),
    (
        KEYS,
        _bodies(
            schemas.ManagedKeyCollectionSchema,
            schemas.ManagedKeySchema,
            schemas.KeyUpdateSchema,
            new=schemas.KeyCreateSchema,
            created=schemas.KeyWithTokenSchema,
        ),
    ),
    (
        AUTOMATIONS,
        Bodies(
            page=AutomationCollectionSchema,
            item=AutomationWithDefinitionSchema,
            new=DEFINITION_BODY,
            change=DEFINITION_BODY,
            reads_new=_read_definition,
            reads_change=_read_definition,
        ),
    ),
)


def _manager() -> Manager:
    return Manager(services(), principal().account_id)


def _in_one_transaction(noun: ManagedNoun, prepare: Callable[[], Callable[[Transaction], Response]]) -> Response:
    """Runs the work that `prepare` reads from the request. The response is kept for a request that is repeated, unless
    it may have what is shown once."""
    if noun.shows_secrets:
        return services().database.transact(prepare())
    return idempotent(lambda: SecretWork(prepare()))


def _item_response(transaction: Transaction, noun: ManagedNoun, made: CreatedRow, status: int) -> Response:
    transaction.flush()
    item = show_row(transaction, noun, _manager(), (made.row.account_id, made.row.id), Query())
    return json_response({**item, **made.shown_once}, status)


def _require(noun: ManagedNoun, row_id: int) -> None:
    """Raises `not_found` before the query and the body are judged."""
    with services().database.read() as session:
        owner_of(session, noun, _manager(), row_id)


def _list_view(noun: ManagedNoun, bodies: Bodies) -> Callable[..., Response]:
    @blp.scope(MANAGE)
    @blp.describe(
        f"management.{noun.collection}.list",
        returns=bodies.page,
        query=collection_parameters(noun.shape.resource),
    )
    def get(_self: MethodView) -> Response:
        query = collection_query(noun.shape.resource)
        with services().database.read() as session:
            page = page_items(session, noun, _manager(), query)
        return collection_response(noun.shape.resource, query, page)

    get.__doc__ = f"A page of {noun.collection}, newest first."
    return get


def _create_view(noun: ManagedNoun, bodies: Bodies, read: Read, create: Create) -> Callable[..., Response]:
    @blp.scope(MANAGE)
    @blp.describe(
        f"management.{noun.collection}.create",
        returns=bodies.created or bodies.item,
        status=201,
        body=bodies.new,
        examples=MANAGEMENT.get(noun.collection, DEFINITIONS),
        errors=(409, 422),
        is_idempotent=not noun.shows_secrets,
    )
    def post(_self: MethodView) -> Response:
        parse_write(query_pairs(), noun.shape.resource)

        def prepare() -> Callable[[Transaction], Response]:
            values = read()

            def work(transaction: Transaction) -> Response:
                check_number(transaction, noun, principal().account_id)
                return _item_response(transaction, noun, create(transaction, _manager(), values), 201)

            return work

        return _in_one_transaction(noun, prepare)

    post.__doc__ = f"Creates {_article(noun)}."
    return post


def _item_view(noun: ManagedNoun, bodies: Bodies) -> Callable[..., Response]:
    @blp.scope(MANAGE)
    @blp.describe(
        f"management.{noun.collection}.get", returns=bodies.item, query=instance_parameters(noun.whole.resource)
    )
    def get(_self: MethodView, **ids: str) -> Response:
        (item_id,) = ids.values()
        row_id = path_id(item_id)
        with services().database.read() as session:
            owner = owner_of(session, noun, _manager(), row_id)
            query = parse_instance(query_pairs(), noun.whole.resource)
            item = show_row(session, noun, _manager(), (owner, row_id), query)
        return json_response(item)

    get.__doc__ = f"One {noun.name}."
    return get


def _update_view(noun: ManagedNoun, bodies: Bodies) -> Callable[..., Response]:
    @blp.scope(MANAGE)
    @blp.describe(
        f"management.{noun.collection}.update",
        returns=bodies.item,
        body=bodies.change,
        examples=MANAGEMENT.get(f"changed {noun.collection}", DEFINITIONS),
        errors=(409, 422),
    )
    def patch(_self: MethodView, **ids: str) -> Response:
        (item_id,) = ids.values()
        row_id = path_id(item_id)
        _require(noun, row_id)
        parse_write(query_pairs(), noun.whole.resource)
        values = bodies.reads_change()

        def work(transaction: Transaction) -> Response:
            row = find_row(transaction, noun, _manager(), row_id)
            noun.update(transaction, _manager(), row, values)
            return _item_response(transaction, noun, CreatedRow(row, {}), 200)

        return services().database.transact(work)

    patch.__doc__ = f"Changes {_article(noun)}. What the body leaves out stays."
    return patch


def _delete_view(noun: ManagedNoun, bodies: Bodies) -> Callable[..., Response]:
    @blp.scope(MANAGE)
    @blp.describe(f"management.{noun.collection}.delete", status=204, query=bodies.delete_parameters, errors=(409,))
    def delete(_self: MethodView, **ids: str) -> Response:
        (item_id,) = ids.values()
        row_id = path_id(item_id)
        _require(noun, row_id)
        parameters = parse_write(query_pairs(), noun.whole.resource, **noun.delete_parameters)

        def work(transaction: Transaction) -> Response:
            noun.delete(transaction, _manager(), find_row(transaction, noun, _manager(), row_id), **parameters)
            return no_content()

        return services().database.transact(work)

    delete.__doc__ = f"{'Revokes' if noun is KEYS else 'Deletes'} {_article(noun)}."
    return delete


def _article(noun: ManagedNoun) -> str:
    return f"{'an' if noun.name[0] in 'aeiou' else 'a'} {noun.name}"


def _add_views(noun: ManagedNoun, bodies: Bodies) -> None:
    """Adds the paths of a noun and of its items."""
    collection = {"get": _list_view(noun, bodies)}
    if noun.create is not None and bodies.reads_new is not None:
        collection["post"] = _create_view(noun, bodies, bodies.reads_new, noun.create)
    item = {
        "get": _item_view(noun, bodies),
        "patch": _update_view(noun, bodies),
        "delete": _delete_view(noun, bodies),
    }
    title = noun.collection.title()
    blp.route(f"/{noun.collection}")(type(title, (MethodView,), {"__doc__": f"All {noun.collection}.", **collection}))
    blp.route(f"/{noun.collection}/<{noun.name}_id>")(
        type(f"One{title}", (MethodView,), {"__doc__": f"One {noun.name}.", **item})
    )


for managed_noun, bodies_of_noun in BODIES:
    _add_views(managed_noun, bodies_of_noun)


# What is done to one item beside changing its attributes.


def _carried_out(
    noun: ManagedNoun, item_id: str, schema: type[CodeSchema], action: Action, status: int = 200
) -> Response:
    """Carries an action out on the item of the path, and returns the item, or the row that the action has made."""
    row_id = path_id(item_id)

    def prepare() -> Callable[[Transaction], Response]:
        _require(noun, row_id)
        parse_write(query_pairs(), noun.whole.resource)
        values = load(schema(), json_object() if request.get_data(cache=True) else {})

        def work(transaction: Transaction) -> Response:
            row = find_row(transaction, noun, _manager(), row_id)
            made = action(transaction, _manager(), row, values) or CreatedRow(row, {})
            return _item_response(transaction, noun, made, status)

        return work

    return _in_one_transaction(noun, prepare)


@blp.route("/messages/<message_id>/preview")
class MessagePreview(MethodView):
    """What a stored message looks like."""

    @blp.scope(MANAGE)
    @blp.describe(
        "management.messages.preview",
        returns=schemas.PreviewedMessageSchema,
        body=schemas.MessagePreviewSchema,
        examples=MANAGEMENT["preview"],
        errors=(422,),
    )
    def post(self, message_id: str) -> Response:
        """The message as a recipient would get it. Nothing is stored or sent."""
        with services().database.read() as session:
            message = find_row(session, MESSAGES, _manager(), path_id(message_id))
        parse_write(query_pairs(), MESSAGES.whole.resource)
        body = with_number_texts(json_object(), request.get_data(cache=True))
        values = load(schemas.MessagePreviewSchema(), body)
        return json_response(preview_message(_manager(), message, values, load_send, request_id()))


@blp.route("/webhooks/<webhook_id>/test")
class WebhookTest(MethodView):
    """A test event."""

    @blp.scope(MANAGE)
    @blp.describe("management.webhooks.test", returns=schemas.ManagedWebhookSchema, errors=(422,))
    def post(self, webhook_id: str) -> Response:
        """Sends the webhook a test event, behind those that wait."""
        return _carried_out(WEBHOOKS, webhook_id, NoAttributesSchema, webhooks.test)


@blp.route("/webhooks/<webhook_id>/check")
class WebhookCheck(MethodView):
    """Where the host of a webhook leads."""

    @blp.scope(MANAGE)
    @blp.describe("management.webhooks.check", returns=schemas.ManagedWebhookSchema, status=202, errors=(409, 422))
    def post(self, webhook_id: str) -> Response:
        """Looks up once more where the host of a webhook leads that was refused."""
        return _carried_out(WEBHOOKS, webhook_id, NoAttributesSchema, webhooks.check, 202)


@blp.route("/webhooks/<webhook_id>/secrets")
class WebhookSecrets(MethodView):
    """The secrets of a webhook."""

    @blp.scope(MANAGE)
    @blp.describe(
        "management.webhooks.add_secret",
        returns=schemas.WebhookWithSecretSchema,
        status=201,
        body=schemas.NewSecretSchema,
        is_body_required=False,
        examples=MANAGEMENT["secret"],
        errors=(409, 422),
    )
    def post(self, webhook_id: str) -> Response:
        """Adds a secret. The others sign as well until they are removed."""
        return _carried_out(WEBHOOKS, webhook_id, schemas.NewSecretSchema, webhooks.rotate, 201)


@blp.route("/webhooks/<webhook_id>/secrets/<secret_id>")
class WebhookSecret(MethodView):
    """One secret of a webhook."""

    @blp.scope(MANAGE)
    @blp.describe("management.webhooks.remove_secret", status=204, errors=(409,))
    def delete(self, webhook_id: str, secret_id: str) -> Response:
        """Removes a secret. The last one cannot be removed."""
        row_id = path_id(webhook_id)
        with services().database.read() as session:
            webhooks.require_secret(session, find_row(session, WEBHOOKS, _manager(), row_id), secret_id)
        parse_write(query_pairs(), WEBHOOKS.whole.resource)

        def work(transaction: Transaction) -> Response:
            webhooks.remove(transaction, find_row(transaction, WEBHOOKS, _manager(), row_id), secret_id)
            return no_content()

        return services().database.transact(work)


@blp.route("/domains/<domain_id>/check")
class DomainCheck(MethodView):
    """The DNS records of a domain."""

    @blp.scope(MANAGE)
    @blp.describe("management.domains.check", returns=schemas.ManagedDomainSchema, status=202, errors=(409, 422))
    def post(self, domain_id: str) -> Response:
        """Looks up the records of the domain, which then counts as verified if they are right."""
        return _carried_out(DOMAINS, domain_id, NoAttributesSchema, domains.check, 202)


@blp.route("/domains/<domain_id>/rotate")
class DomainRotation(MethodView):
    """New DKIM keys of a domain."""

    @blp.scope(MANAGE)
    @blp.describe(
        "management.domains.rotate",
        returns=schemas.ManagedDomainSchema,
        body=schemas.DomainRotationSchema,
        is_body_required=False,
        examples=MANAGEMENT["selector"],
        errors=(409, 422),
        is_idempotent=True,
    )
    def post(self, domain_id: str) -> Response:
        """Makes new DKIM keys, which sign once a check finds their records."""
        return _carried_out(DOMAINS, domain_id, schemas.DomainRotationSchema, domains.rotate)


@blp.route("/keys/<key_id>/rotate")
class KeyRotation(MethodView):
    """A new token of a key."""

    @blp.scope(MANAGE)
    @blp.describe(
        "management.keys.rotate",
        returns=schemas.RotatedKeySchema,
        status=201,
        body=schemas.KeyRotationSchema,
        is_body_required=False,
        examples=MANAGEMENT["rotation"],
        errors=(409, 422),
    )
    def post(self, key_id: str) -> Response:
        """Makes a new key of that name. The old token works for a while."""
        return _carried_out(KEYS, key_id, schemas.KeyRotationSchema, keys.rotate, 201)
