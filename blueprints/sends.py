"""`/v1/transactional-sends`: sending messages, and the timeline of each recipient."""

from __future__ import annotations

from typing import Any

from flask import Response, request
from flask.views import MethodView

from app.db.database import Transaction
from app.groups.read import group_path
from app.http.api import Blueprint
from app.http.bodies import json_object
from app.http.context import principal, request_id, services
from app.http.idempotency import SecretWork, Work, idempotent
from app.http.openapi_parameters import collection_parameters, filter_parameters, paged_instance_parameters
from app.http.responses import collection_query, collection_response, cursor_scope, json_response, query_pairs
from app.query.conditions import Query
from app.query.fields import Resource
from app.query.grammar import parse_filters, parse_paged_instance
from app.query.parameters import check_visible
from app.query.writes import parse_dry_run, parse_write
from app.recipients.collection import RECIPIENTS, page_recipients
from app.recipients.read import FILTERS, RECIPIENT_SHAPE, Viewer, get_recipient, recipient_path, require_recipient
from app.recipients.redaction import Redaction
from app.sends.accept.accept import SendRequest, accept, read_request
from app.sends.accept.draft import with_number_texts
from app.sends.accept.write import AcceptedSend
from app.sends.cancel import cancel_matching, cancel_recipient, with_uuids
from app.sends.dry_run.dry_run import dry_run
from schemas.base import NoAttributesSchema, load
from schemas.dry_run import DryRunSchema
from schemas.examples import CANCELLATION, SENDS
from schemas.recipients import RecipientCollectionSchema, RecipientTimelineSchema
from schemas.sends import (
    CancellationSchema,
    CancelledMessagesSchema,
    SendAnswerSchema,
    SendSchema,
    load_send,
)

PATH = "/v1/transactional-sends"
RESOURCE = Resource(name="transactional send", collection="transactional-sends", filters=FILTERS, fields=())
DRY_RUN_PARAMETERS = [
    {
        "in": "query",
        "name": "dry_run",
        "description": "With `true`, the response says what the send would do, and nothing is sent or stored.",
        "schema": {"type": "boolean", "default": False},
    }
]

blp = Blueprint("sends", __name__, url_prefix=PATH, description="Sending email and SMS")


@blp.route("")
class Sends(MethodView):
    """Transactional sends."""

    @blp.scope("report.view")
    @blp.describe("sends.list", returns=RecipientCollectionSchema, query=collection_parameters(RECIPIENTS))
    def get(self) -> Response:
        """A page of the recipients of all sends, newest first."""
        viewer = _viewer()
        check_visible(query_pairs(), viewer.hidden_filters)
        query = collection_query(RECIPIENTS)
        with services().reports.read(principal().account_id) as session:
            page = page_recipients(session, principal().account_id, query, viewer)
        return collection_response(RECIPIENTS, query, page)

    @blp.scope("send.email", "send.sms")
    @blp.describe(
        "sends.create",
        body=SendSchema,
        examples=SENDS,
        returns=SendAnswerSchema,
        status=202,
        responses={200: DryRunSchema},
        query=DRY_RUN_PARAMETERS,
        errors=(409, 422),
        is_idempotent=True,
    )
    def post(self) -> Response:
        """Sends a message to up to 100 recipients; they are processed after the response."""
        if parse_write(query_pairs(), RESOURCE, dry_run=parse_dry_run).get("dry_run"):
            preview = dry_run(services(), _read_request())
            return json_response({**preview, "_links": {"self": {"href": PATH}}})
        return idempotent(_prepare)


def _prepare() -> Work:
    send_request = _read_request()

    def work(transaction: Transaction) -> Response:
        return _render(accept(transaction, services(), send_request))

    return SecretWork(work) if send_request.draft.secret_values else work


def _read_request() -> SendRequest:
    body = with_number_texts(json_object(), request.get_data(cache=True))
    return read_request(services(), principal(), body, load_send, request_id())


@blp.route("/cancel")
class Cancellations(MethodView):
    """Cancelling many messages (docs/scheduling.md#cancelling-many)."""

    @blp.scope("send.email", "send.sms")
    @blp.describe(
        "sends.cancel_many",
        body=CancellationSchema,
        is_body_required=False,
        examples=CANCELLATION,
        returns=CancelledMessagesSchema,
        query=filter_parameters(RECIPIENTS),
        errors=(422,),
    )
    def post(self) -> Response:
        """Cancels up to 1,000 messages, named by `uuids`, by filters, or by both, the oldest first."""
        pairs = query_pairs()
        check_visible(pairs, _viewer().hidden_filters)
        query = parse_filters(pairs, RECIPIENTS, is_test=principal().is_test)
        query = with_uuids(query, load(CancellationSchema(), _body_if_any()).get("uuids"))
        account_id, parts = principal().account_id, services()
        cancelled = cancel_matching(parts.database, parts.settings, account_id, query)
        links = {"self": {"href": f"{PATH}/cancel"}}
        if cancelled.has_more:
            links["next"] = {"href": f"{PATH}/cancel?{request.query_string.decode('ascii', 'replace')}"}
        recipients = [{"uuid": uuid} for uuid in cancelled.uuids]
        return json_response({"size": len(recipients), "_embedded": {"recipients": recipients}, "_links": links})


@blp.route("/<uuid>/cancel")
class Cancellation(MethodView):
    """Cancelling a message (docs/scheduling.md#cancelling)."""

    @blp.scope("send.email", "send.sms")
    @blp.describe("sends.cancel", returns=RecipientTimelineSchema, errors=(409,))
    def post(self, uuid: str) -> Response:
        """Cancels the message, unless it is too late, and returns the recipient."""
        account_id = principal().account_id
        with services().database.read() as session:
            recipient_id = require_recipient(session, account_id, uuid)
        parse_write(query_pairs(), RESOURCE)
        load(NoAttributesSchema(), _body_if_any())

        def work(transaction: Transaction) -> dict[str, Any]:
            cancel_recipient(transaction, services().settings, account_id, recipient_id)
            return get_recipient(transaction, account_id, recipient_id, Query(), _viewer())

        return json_response(services().database.transact(work))


@blp.route("/<instance:uuid>")
class Recipient(MethodView):
    """One recipient of a send."""

    @blp.scope("report.view")
    @blp.describe(
        "sends.get",
        returns=RecipientTimelineSchema,
        query=paged_instance_parameters(RECIPIENT_SHAPE.resource, "Steps of the timeline"),
    )
    def get(self, uuid: str) -> Response:
        """The recipient and a page of its timeline."""
        viewer = _viewer()
        with services().database.read() as session:
            recipient_id = require_recipient(session, principal().account_id, uuid)
            cursors = cursor_scope(recipient_path(uuid.lower()))
            query = parse_paged_instance(query_pairs(), RECIPIENT_SHAPE.resource, cursors)
            recipient = get_recipient(session, principal().account_id, recipient_id, query, viewer)
        return json_response(recipient)


def _body_if_any() -> dict[str, Any]:
    return json_object() if request.get_data(cache=True).strip() else {}


def _viewer() -> Viewer:
    return Viewer("contact.view" in principal().scopes, Redaction.of(services().settings))


def _render(accepted: AcceptedSend) -> Response:
    body = {
        "_embedded": {"recipients": [{"uuid": uuid} for uuid in accepted.uuids]},
        "_links": {
            "self": {"href": PATH},
            "transactional_group": {"href": group_path(accepted.group_id)},
        },
    }
    return json_response(body, 202)
