"""`/v1/transactional-sends`: sending messages, and what became of them for each recipient."""

from __future__ import annotations

from typing import Any

from flask import Response, request
from flask.views import MethodView

from app.db.database import Transaction
from app.errors import ServiceError
from app.groups.read import group_path
from app.http.api import Blueprint
from app.http.bodies import json_object
from app.http.collections import query_pairs
from app.http.context import principal, request_id, services
from app.http.docs import paged_instance_parameters
from app.http.idempotency import Work, idempotent
from app.http.responses import json_response
from app.query.fields import Resource
from app.query.grammar import parse_paged_instance, parse_write
from app.recipients.read import RECIPIENT, Reader, get_recipient, require_recipient
from app.recipients.redaction import Redaction
from app.sends.accept.accept import AcceptedSend, accept
from app.sends.accept.content import SavedMessage, find_saved_message
from app.sends.accept.draft import MessageType
from app.sends.accept.number_texts import with_number_texts
from app.sends.accept.rules import Limits
from schemas.sends import SendAnswerSchema, SendSchema, TimelineSchema, load_send

PATH = "/v1/transactional-sends"
RESOURCE = Resource(name="transactional send", collection="transactional-sends", filters={}, fields=())

blp = Blueprint("transactional-sends", __name__, url_prefix=PATH, description="Sending email and sms to people")


@blp.route("")
class Sends(MethodView):
    """Transactional sends."""

    @blp.scope("send.email", "send.sms")
    @blp.describe(body=SendSchema, returns=SendAnswerSchema, status=202, errors=(409, 422))
    def post(self) -> Response:
        """Sends a message to up to 100 recipients; they are processed after the answer."""
        parse_write(query_pairs(), (), RESOURCE)
        return idempotent(_read_send)


def _read_send() -> Work:
    """What the body asks for. Raises `ServiceError` with all that the body shows to be wrong."""
    body = with_number_texts(json_object(), request.get_data(cache=True))
    saved = _saved_message(body)
    final_type = saved.type if saved else _type(body)
    _check_scope(final_type)
    draft = load_send(body, final_type, _limits())

    def work(transaction: Transaction) -> Response:
        accepted = accept(
            transaction,
            services(),
            draft,
            account_id=principal().account_id,
            saved_message=saved,
            request_id=request_id(),
        )
        return _answer(accepted)

    return work


@blp.route("/<uuid>")
class Recipient(MethodView):
    """One recipient of a send."""

    @blp.scope("report.view")
    @blp.describe(returns=TimelineSchema, query=paged_instance_parameters(RECIPIENT.resource, "Steps of the timeline"))
    def get(self, uuid: str) -> Response:
        """The recipient and a page of its timeline."""
        reader = Reader("contact.view" in principal().scopes, Redaction.of(services().settings))
        with services().database.read() as session:
            recipient_id = require_recipient(session, principal().account_id, uuid)
            query = parse_paged_instance(query_pairs(), RECIPIENT.resource)
            recipient = get_recipient(session, principal().account_id, recipient_id, query, reader)
        return json_response(recipient)


def _saved_message(body: dict[str, Any]) -> SavedMessage | None:
    """The message that the send refers to. Looked up first: its type decides what the rest may be."""
    if body.get("message_id") is None:
        return None
    with services().database.read() as session:
        return find_saved_message(session, principal().account_id, body["message_id"])


def _type(body: dict[str, Any]) -> MessageType | None:
    """The type that the body names, None when it names none that exists."""
    match body.get("type"):
        case "email":
            return "email"
        case "sms":
            return "sms"
    return None


def _check_scope(final_type: MessageType | None) -> None:
    """One of the two scopes lets a key in here; what is sent needs its own (specification: Transactional send)."""
    if final_type is not None and f"send.{final_type}" not in principal().scopes:
        raise ServiceError("permission_denied")


def _limits() -> Limits:
    settings = services().settings
    return Limits(settings.max_attachments, settings.max_attachment_bytes)


def _answer(accepted: AcceptedSend) -> Response:
    body = {
        "_embedded": {"recipients": [{"uuid": uuid} for uuid in accepted.uuids]},
        "_links": {
            "self": {"href": PATH},
            "transactional_group": {"href": group_path(accepted.group_id)},
        },
    }
    return json_response(body, 202)
