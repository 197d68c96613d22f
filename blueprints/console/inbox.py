"""What test keys have sent, captured instead of sent, and what is in folders (docs/console-messages.md#inbox)."""

from __future__ import annotations

from dataclasses import replace

from flask import Response

from app.accounts.testing import test_account_of
from app.addresses import MESSAGE_TYPES
from app.console import message_search, messages
from app.console.content import TextMessage
from app.console.inbox import (
    FOLDERS,
    PATH,
    check_secrets,
    find_file,
    find_message,
    from_addresses,
    message_of_capture,
    read_file,
    text_filter,
)
from app.console.queries import SearchPage, SearchRequest
from app.db.database import ReadSession
from app.db.models import Account, Recipient
from app.http.console.guard import may, signed_in
from app.http.console.pages import goes_to, link
from app.http.console.searches import Search, export_recorder
from app.http.context import services
from app.http.paths import path_id
from app.inbox.shown import INBOX_SHAPE, page_captured
from app.privacy.files import folders_of_transports
from app.query.cursors import CURSOR
from app.recipients.read import Viewer
from app.recipients.redaction import Redaction
from app.transports.email.read_mail import Mail
from blueprints.console.blueprint import blp
from blueprints.console.content import add_opened_parts, opened_page


def _captured_for(search_request: SearchRequest) -> Account | None:
    """The account whose messages are captured; None if the account has none yet."""
    return None if search_request.account is None else test_account_of(search_request.session, search_request.account)


def _find(search_request: SearchRequest) -> SearchPage:
    """The captured messages that match; none for an account that has no test account yet."""
    of = _captured_for(search_request) if signed_in().sees_tests else None
    search_request = replace(search_request, account=of or search_request.account)
    search_page = search_request.read_page(PATH, INBOX_SHAPE.resource, page_captured)
    uuids = [item["uuid"] for item in search_page.items]
    senders = from_addresses(search_request.session, search_request.account_id, uuids)
    items = [{**item, "from_address": senders.get(item["uuid"])} for item in search_page.items]
    return replace(search_page, items=items)


SEARCH = Search(
    path=PATH,
    title="Inbox",
    template="inbox.html",
    text_filter=text_filter,
    find=_find,
    columns=("id", "captured_time", "type", "address", "sender", "subject", "blind_copy", "uuid"),
    context=lambda: {"types": MESSAGE_TYPES, "of_folders": None if signed_in().is_test else link(FOLDERS)},
    page_context=lambda search_request, _: {
        "has_tests": _captured_for(search_request) is not None,
        "is_live": CURSOR not in dict(search_request.pairs),
    },
    record_file=export_recorder("recipient.exported", "recipients"),
    time="captured_time",
)


def _inbox() -> Response:
    """Who sees no tests comes to the folders, into which test keys do not write."""
    return SEARCH.page() if signed_in().sees_tests else goes_to(link(FOLDERS))


blp.searches(SEARCH, "contact.view", page=_inbox)


@blp.shows("/inbox/<captured_id>", "contact.view")
def captured(captured_id: str) -> Response:
    """The parts of a captured message, its links and checks."""
    with services().database.read() as session:
        message = find_message(session, signed_in(), path_id(captured_id))
        template_values = {"uuid": message.uuid, "base": f"{PATH}/{message.id}", "captured": message}
        return opened_page(session, message.account_id, message_of_capture(message), **template_values)


def _message(captured_id: str) -> Mail | TextMessage:
    with services().database.read() as session:
        return message_of_capture(find_message(session, signed_in(), path_id(captured_id)))


add_opened_parts("/inbox/<captured_id>", _message)


# What `file://` transports have written into folders (docs/console-messages.md#inbox).


def _find_in_folders(search_request: SearchRequest) -> SearchPage:
    """The account's messages that match, each with whether it is in a folder."""
    settings = services().settings
    search_page = messages.search(search_request, Viewer(may("contact.view"), Redaction.of(settings)))
    folders = folders_of_transports(search_request.session, settings)
    paths = (find_file(folders, item["type"], item["uuid"]) for item in search_page.items)
    items = [{**item, "in_folder": path is not None} for item, path in zip(search_page.items, paths, strict=True)]
    return replace(search_page, items=items)


SEARCH_OF_FOLDERS = Search(
    path=FOLDERS,
    title="Folders",
    template="folders.html",
    text_filter=message_search.text_filter,
    find=_find_in_folders,
    columns=("uuid", "creation_time", "type", "email", "mobile", "state", "in_folder"),
    context=lambda: {"of_tests": link(PATH) if signed_in().sees_tests else None},
    page_context=lambda search_request, _: {
        "no_folders": not folders_of_transports(search_request.session, services().settings)
    },
    record_file=export_recorder("recipient.exported", "recipients"),
)
blp.searches(SEARCH_OF_FOLDERS, "contact.view")


@blp.shows("/inbox/folders/<uuid>", "contact.view")
def file(uuid: str) -> Response:
    """The parts of a message in a folder, its links and checks."""
    with services().database.read() as session:
        recipient = messages.message_of(session, signed_in(), uuid)
        template_values = {"uuid": recipient.uuid, "base": f"{FOLDERS}/{recipient.uuid}", "captured": None}
        return opened_page(session, recipient.account_id, _message_in_folder(session, recipient), **template_values)


def _message_in_folder(session: ReadSession, recipient: Recipient) -> Mail | TextMessage:
    if not signed_in().is_operator:
        check_secrets(session, recipient)
    folders = folders_of_transports(session, services().settings)
    return read_file(folders, recipient.type, recipient.uuid)


def _captured_message(uuid: str) -> Mail | TextMessage:
    with services().database.read() as session:
        return _message_in_folder(session, messages.message_of(session, signed_in(), uuid))


add_opened_parts("/inbox/folders/<uuid>", _captured_message)
