"""What `file://` transports have written into folders (docs/console.md#inbox)."""

from __future__ import annotations

from dataclasses import replace

from flask import Response

from app.console import messages
from app.console.content import TextMessage
from app.console.inbox.captured import PATH as INBOX
from app.console.inbox.folders import PATH, check_secrets, find_file, read_file
from app.console.queries import Asked, Found
from app.db.database import ReadSession
from app.db.models import Recipient
from app.http.console.guard import signed_in
from app.http.console.pages import link
from app.http.console.searches import Search, exported
from app.http.context import services
from app.privacy.files import folders_of_transports
from app.recipients.read import Viewer
from app.recipients.redaction import Redaction
from app.transports.email.read_mail import Mail
from blueprints.console.blueprint import blp
from blueprints.console.content import add_opened_parts, opened_page


def _find(asked: Asked) -> Found:
    """The account's messages that match, each with whether it is in a folder."""
    settings = services().settings
    found = messages.search(asked, Viewer("contact.view" in signed_in().scopes, Redaction.of(settings)))
    folders = folders_of_transports(asked.session, settings)
    paths = (find_file(folders, one["type"], one["uuid"]) for one in found.items)
    items = [{**one, "in_folder": path is not None} for one, path in zip(found.items, paths, strict=True)]
    return replace(found, items=items)


SEARCH = Search(
    path=PATH,
    title="Folders",
    template="folders.html",
    sought=messages.sought,
    find=_find,
    columns=("uuid", "creation_time", "type", "email", "mobile", "state", "in_folder"),
    known=lambda: {"of_tests": link(INBOX) if signed_in().sees_tests else None},
    shown=lambda asked, _: {"no_folders": not folders_of_transports(asked.session, services().settings)},
    recorded=exported("recipient.exported", "recipients"),
)
blp.searches(SEARCH, "contact.view")


@blp.shows("/inbox/folders/<uuid>", "contact.view")
def file(uuid: str) -> Response:
    """The parts of a message in a folder, its links and checks."""
    with services().database.read() as session:
        recipient = messages.message_of(session, signed_in(), uuid)
        known = {"uuid": recipient.uuid, "base": f"{PATH}/{recipient.uuid}", "captured": None}
        return opened_page(session, recipient.account_id, _message(session, recipient), **known)


def _message(session: ReadSession, recipient: Recipient) -> Mail | TextMessage:
    if not signed_in().is_operator:
        check_secrets(session, recipient)
    folders = folders_of_transports(session, services().settings)
    return read_file(folders, recipient.type, recipient.uuid)


def _found(uuid: str) -> Mail | TextMessage:
    with services().database.read() as session:
        return _message(session, messages.message_of(session, signed_in(), uuid))


add_opened_parts("/inbox/folders/<uuid>", _found)
