"""One stored message: writing it, what it looks like, and a test (docs/console.md#stored-messages)."""

from __future__ import annotations

from collections.abc import Mapping

from flask import Response, request
from flask.views import MethodView

from app.accounts.sessions import MANAGE
from app.console.messages import PATH as OF_MESSAGES
from app.console.stored_messages import (
    ATTRIBUTES,
    LONGEST_VALUES,
    PATH,
    VERSIONS,
    Reader,
    find_message,
    newest_lists,
    preview_message,
    send_test,
)
from app.content.limits import MAX_BODY_BYTES
from app.db.database import ReadSession, Transaction
from app.db.models import Message
from app.errors import FieldError, ServiceError
from app.http.console.guard import chosen_account_id, signed_in
from app.http.console.pages import goes_to, page, status_of, texts_of
from app.http.console.parts import framed_html, framed_text, framing
from app.http.console.searches import link
from app.http.context import request_id, services
from app.http.paths import path_id
from app.ids import shown_id
from app.messages.define import update_message
from app.sends.dry_run.dry_run import Preview
from app.sends.dry_run.prepare import ForecastOutcome
from blueprints.console.blueprint import blp
from schemas.base import load
from schemas.messages import WRITTEN
from schemas.sends import load_send

READER = ("list", "address", "values")
MOST_SENT = 8 * MAX_BODY_BYTES
"""Bytes of the form of a message: two bodies, of which each byte may be written as three, and the rest."""


@blp.route("/stored-messages/<message_id>")
class OneStoredMessage(MethodView):
    """One stored message."""

    @blp.scope("message.view")
    def get(self, message_id: str) -> Response:
        """The content of the message, and what it looks like without any values."""
        message = _message(message_id)
        form = {name: getattr(message, name) or "" for name in ATTRIBUTES[message.type]}
        return _one(message, form, Reader())

    @blp.scope(MANAGE)
    def post(self, message_id: str) -> Response:
        """Stores what the form says."""
        message = _message(message_id)
        form = _written(message)
        try:
            with services().database.write() as transaction:
                changed = _find(transaction, message_id)
                update_message(transaction, changed, load(WRITTEN[changed.type], _attributes(form)))
        except ServiceError as error:
            if error.code == "not_found":
                raise
            return _one(message, form, _reader(), error)
        return goes_to(link(_path(message.id), [], message.account_id))


@blp.route("/stored-messages/<message_id>/delete")
class Delete(MethodView):
    """Deleting a stored message."""

    @blp.scope(MANAGE)
    def post(self, message_id: str) -> Response:
        """Deletes the message. Reports of its sends are kept."""
        with services().database.write() as transaction:
            message = _find(transaction, message_id)
            account_id = message.account_id
            transaction.delete(message)
        return goes_to(link(PATH, [], account_id))


@blp.route("/stored-messages/<message_id>/preview")
class ShownMessage(MethodView):
    """What a message looks like."""

    @blp.scope("send.email", "send.sms")
    def post(self, message_id: str) -> Response:
        """The page again, with the message of the form as its reader would get it. Stores nothing."""
        message = _message(message_id)
        return _one(message, _written(message), _reader())


@blp.route("/stored-messages/<message_id>/html")
class ShownHtml(MethodView):
    """The HTML of a message, for the frame of its page."""

    @blp.scope("send.email", "send.sms")
    def post(self, message_id: str) -> Response:
        """The HTML of the form as its reader would get it, to the byte. Stores nothing."""
        message = _message(message_id)
        try:
            found = _preview(message, _written(message), _reader())
        except ServiceError as error:
            return framed_text("\n".join(texts_of(error)))
        rendered = found.forecast.shown.rendered if found.forecast.shown else None
        if rendered is None or rendered.html is None:
            return framed_text(found.forecast.detail or "There is no HTML body.")
        return framed_html(rendered.html)


@blp.route("/stored-messages/<message_id>/test")
class Test(MethodView):
    """A test of a stored message."""

    @blp.scope("send.email", "send.sms")
    def post(self, message_id: str) -> Response:
        """Sends it, as it is stored, to the address of the form, and goes to what is sent."""
        message = _message(message_id)
        form, reader = _written(message), _reader()
        try:
            with services().database.write() as transaction:
                stored = _find(transaction, message_id)
                uuid = send_test(transaction, services(), stored, reader, load=load_send, request_id=request_id())
        except ServiceError as error:
            if error.code == "not_found":
                raise
            return _one(message, form, reader, error)
        return goes_to(f"{OF_MESSAGES}/{uuid}")


def _message(message_id: str) -> Message:
    with services().database.read() as session:
        return _find(session, message_id)


def _find(session: ReadSession | Transaction, message_id: str) -> Message:
    return find_message(session, chosen_account_id(), path_id(message_id))


def _path(message_id: int) -> str:
    return f"{PATH}/{shown_id(message_id)}"


def _written(message: Message) -> dict[str, str]:
    """The content of the form. Browsers end each line of it by CR and LF."""
    request.max_form_memory_size = MOST_SENT
    return {name: request.form.get(name, "").replace("\r\n", "\n") for name in ATTRIBUTES[message.type]}


def _attributes(form: Mapping[str, str]) -> dict[str, str | None]:
    return {name: text if name == "name" else text or None for name, text in form.items()}


def _reader() -> Reader:
    return Reader(**{name: request.form.get(name, "").strip() for name in READER})


def _preview(message: Message, form: Mapping[str, str], reader: Reader) -> Preview:
    return preview_message(services(), message, _attributes(form), reader, load=load_send, request_id=request_id())


def _one(message: Message, form: Mapping[str, str], reader: Reader, error: ServiceError | None = None) -> Response:
    """The page, with what the message of the form looks like, and the errors of what was to be done at their fields."""
    who = signed_in()
    may_send = "send.email" in who.scopes
    preview, faults = None, list[FieldError]()
    if may_send:
        try:
            preview = _preview(message, form, reader)
        except ServiceError as fault:
            faults = fault.errors
    with services().database.read() as session:
        lists = newest_lists(session, message.account_id) if may_send else ()
    shown = [] if error is None else error.errors
    at = {one.field: one.developer_message for one in shown if one.collection is None and one.field}
    places = {*form, *READER}
    answer = page(
        "stored_message.html",
        status_of(error),
        message=message,
        form=form,
        reader=reader,
        lists=lists,
        preview=preview,
        is_sent=preview is not None and preview.forecast.outcome == ForecastOutcome.SEND,
        faults=[one.developer_message for one in faults],
        errors=at,
        refused=[one.developer_message for one in shown if one.collection is not None or one.field not in places],
        may_manage=MANAGE in who.scopes,
        may_send=may_send,
        sees_versions=VERSIONS in who.scopes,
        longest_values=LONGEST_VALUES,
        own=_path(message.id),
        link=link,
        of=link(PATH, [], message.account_id),
        shown_id=shown_id(message.id),
    )
    return framing(answer) if may_send else answer
