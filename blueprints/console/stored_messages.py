"""Stored messages: searching, creating and writing them, their versions, what they look like, and a test
(docs/console-contents.md#stored-messages)."""

from __future__ import annotations

from collections.abc import Mapping

from flask import Response, request

from app.accounts.auth import MANAGE
from app.console.losses import loss_of_message
from app.console.messages import PATH as MESSAGES_PATH
from app.console.offers import newest
from app.console.queries import name_filter
from app.console.stored_messages import (
    ATTRIBUTES,
    LONGEST_VALUES,
    MAX_LINES,
    PATH,
    VERSIONS,
    Reader,
    find_message,
    preview_message,
    send_test,
)
from app.content.limits import MAX_BODY_BYTES
from app.db.database import ReadSession, Transaction
from app.db.models import List, Message
from app.errors import FieldError, ServiceError
from app.http.console.guard import chosen_account_id, may
from app.http.console.notices import Done
from app.http.console.pages import errors_at, form_texts, link, page, page_after, texts_of
from app.http.console.parts import framed_html, framed_text, framing
from app.http.console.questions import Question
from app.http.console.searches import Search, account_of_request
from app.http.context import request_id, services
from app.http.paths import path_id
from app.ids import shown_id
from app.messages.define import create_message, update_message
from app.messages.history import compare_version, restore_version, versions_of
from app.messages.read import MESSAGES, page_messages
from app.messages.versions import MAX_VERSIONS
from app.recipients.reply_meanings import meaning_of
from app.sends.dry_run.dry_run import Preview
from app.sends.dry_run.prepare import ForecastOutcome
from blueprints.console.blueprint import blp
from schemas.base import load
from schemas.messages import NEW, WRITTEN
from schemas.sends import load_send

SEARCH = Search(
    path=PATH,
    title="Stored messages",
    template="stored_messages.html",
    text_filter=name_filter,
    find=lambda search_request: search_request.read_page(PATH, MESSAGES.resource, page_messages),
    columns=(
        *("id", "name", "type", "subject", "from_name", "from_address", "reply_to", "thumbnail_url"),
        *("creation_time", "last_modified_time"),
    ),
    context=lambda: {"may_manage": may(MANAGE), "types": [*ATTRIBUTES], "of": PATH},
)
blp.searches(SEARCH, "message.view")


@blp.changes("/stored-messages", MANAGE, refused=SEARCH.page)
def create(transaction: Transaction) -> Done:
    """Creates a message without content, and goes to its page."""
    account = account_of_request(transaction)
    form = {name: request.form.get(name, "") for name in ("name", "type")}
    return Done(path_of(create_message(transaction, account.id, load(NEW, form))), "The stored message was created.")


# The versions of a stored message: what changed in each, and writing one back
# (docs/console-contents.md#stored-messages).


@blp.shows("/stored-messages/<message_id>/versions", VERSIONS)
def versions(message_id: str) -> Response:
    """All versions that are kept, the newest first, without what they say."""
    with services().database.read() as session:
        message = message_of_path(session, message_id)
        kept = versions_of(session, message)
    return page("message_versions.html", message=message, versions=kept, most=MAX_VERSIONS, of=_page_path(message))


@blp.shows("/stored-messages/<message_id>/versions/<version_number>", VERSIONS)
def version(error: ServiceError | None = None, *, message_id: str, version_number: str) -> Response:
    """What differs in a version from the one before, or from the one that the query names."""
    against = request.args.get("against")
    with services().database.read() as session:
        message = message_of_path(session, message_id)
        other = path_id(against) if against else None
        comparison = compare_version(session, message, path_id(version_number), other, MAX_LINES)
    may_manage = may(MANAGE)
    template_values = {"shown_id": shown_id(message.id), "may_manage": may_manage, "of": _page_path(message)}
    return page_after(error, "message_version.html", message=message, comparison=comparison, **template_values)


@blp.changes("/stored-messages/<message_id>/versions/<version_number>/restore", MANAGE, refused=version)
def restore(transaction: Transaction, message_id: str, version_number: str) -> Done:
    """Makes a version the newest once more, and goes to the message."""
    message = message_of_path(transaction, message_id)
    restore_version(transaction, message, path_id(version_number))
    return Done(path_of(message), f"Version {version_number} was restored.")


def message_of_path(session: ReadSession | Transaction, message_id: str) -> Message:
    """The message of the path, of the account of the session, or for operators of any. Raises `not_found`."""
    return find_message(session, chosen_account_id(), path_id(message_id))


def path_of(message: Message) -> str:
    """The path of the page of a message, for operators with its account."""
    return link(_page_path(message), [], message.account_id)


def _page_path(message: Message) -> str:
    return f"{PATH}/{shown_id(message.id)}"


# One stored message: writing it, what it looks like, and a test (docs/console-contents.md#stored-messages).

MAX_FORM_BYTES = 8 * MAX_BODY_BYTES
"""Bytes of the form of a message: two bodies, of which each byte may be written as three, and the rest."""


@blp.shows("/stored-messages/<message_id>", "message.view")
def message(message_id: str) -> Response:
    """The content of a message, and what it looks like without any values."""
    message = _message(message_id)
    return _message_page(message, {name: getattr(message, name) or "" for name in ATTRIBUTES[message.type]}, Reader())


def _as_written(error: ServiceError | None = None, *, message_id: str) -> Response:
    """The page with the message of the form as its reader would get it."""
    message = _message(message_id)
    return _message_page(message, _written(message), _reader(), error)


@blp.changes("/stored-messages/<message_id>", MANAGE, refused=_as_written)
def write(transaction: Transaction, message_id: str) -> Done:
    """Stores what the form says."""
    message = message_of_path(transaction, message_id)
    update_message(transaction, message, load(WRITTEN[message.type], _attributes(_written(message))))
    return Done(path_of(message), "The stored message was saved.")


def _before_deleting(session: ReadSession, message_id: str) -> Question:
    message = message_of_path(session, message_id)
    loss = "New sends that refer to this message are refused. Reports of earlier sends are kept."
    facts = [loss, *loss_of_message(session, message)]
    return Question(f"Delete {message.name}?", facts, "Delete stored message", path_of(message))


@blp.changes("/stored-messages/<message_id>/delete", MANAGE, asks=_before_deleting)
def delete(transaction: Transaction, message_id: str) -> Done:
    """Deletes a message. Reports of its sends are kept."""
    message = message_of_path(transaction, message_id)
    transaction.delete(message)
    return Done(link(PATH, [], message.account_id), f"{message.name} was deleted.")


@blp.takes("/stored-messages/<message_id>/preview", "send.email", "send.sms")
def show(message_id: str) -> Response:
    """The page again, with the message of the form as its reader would get it. Stores nothing."""
    return _as_written(message_id=message_id)


@blp.takes("/stored-messages/<message_id>/html", "send.email", "send.sms")
def show_html(message_id: str) -> Response:
    """The HTML of the form as its reader would get it, to the byte, for the frame of the page. Stores nothing."""
    message = _message(message_id)
    try:
        previewed = _preview(message, _written(message), _reader())
    except ServiceError as error:
        return framed_text("\n".join(texts_of(error)))
    rendered = previewed.forecast.masked.rendered if previewed.forecast.masked else None
    if rendered is None or rendered.html is None:
        return framed_text(previewed.forecast.detail or "There is no HTML body.")
    return framed_html(rendered.html)


@blp.changes("/stored-messages/<message_id>/test", "send.email", "send.sms", refused=_as_written)
def send(transaction: Transaction, message_id: str) -> Done:
    """Sends a message, as it is stored, to the address of the form, and goes to what is sent."""
    message = message_of_path(transaction, message_id)
    uuid = send_test(transaction, services(), message, _reader(), load=load_send, request_id=request_id())
    return Done(f"{MESSAGES_PATH}/{uuid}", "The test was sent.")


def _message(message_id: str) -> Message:
    with services().database.read() as session:
        return message_of_path(session, message_id)


def _written(message: Message) -> dict[str, str]:
    """The content of the form. Browsers end each line of it by CR and LF."""
    request.max_form_memory_size = MAX_FORM_BYTES
    return {name: request.form.get(name, "").replace("\r\n", "\n") for name in ATTRIBUTES[message.type]}


def _attributes(form: Mapping[str, str]) -> dict[str, str | None]:
    return {name: text if name == "name" else text or None for name, text in form.items()}


def _reader() -> Reader:
    request.max_form_memory_size = MAX_FORM_BYTES
    return Reader(**form_texts("list", "address", "values"))


def _preview(message: Message, form: Mapping[str, str], reader: Reader) -> Preview:
    return preview_message(services(), message, _attributes(form), reader, load=load_send, request_id=request_id())


def _message_page(
    message: Message, form: Mapping[str, str], reader: Reader, error: ServiceError | None = None
) -> Response:
    """The page, with what the message of the form looks like, and the errors of what was to be done at their fields."""
    may_send = may("send.email")
    preview, faults = None, list[FieldError]()
    if may_send:
        try:
            preview = _preview(message, form, reader)
        except ServiceError as fault:
            faults = fault.errors
    with services().database.read() as session:
        lists = newest(session, List, message.account_id) if may_send else ()
    errors, refused = errors_at(error, {*form, *Reader.__slots__})
    answer = page_after(
        error,
        "stored_message.html",
        message=message,
        form=form,
        reader=reader,
        lists=lists,
        preview=preview,
        meaning_of=meaning_of,
        is_sent=preview is not None and preview.forecast.outcome == ForecastOutcome.SEND,
        faults=[fault.developer_message for fault in faults],
        errors=errors,
        refused=refused,
        may_manage=may(MANAGE),
        is_unsaved=may(MANAGE) and any((getattr(message, name) or "") != form[name] for name in form),
        may_send=may_send,
        sees_versions=may(VERSIONS),
        longest_values=LONGEST_VALUES,
        message_path=_page_path(message),
        of=link(PATH, [], message.account_id),
        shown_id=shown_id(message.id),
    )
    return framing(answer) if may_send else answer
