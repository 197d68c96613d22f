"""What `file://` transports have written into folders (docs/console.md#inbox)."""

from __future__ import annotations

from typing import Any

from flask import Response
from flask.views import MethodView

from app.accounts.exports import record_export
from app.console import messages
from app.console.content import TextMessage
from app.console.inbox.captured import PATH as INBOX
from app.console.inbox.folders import PATH, check_secrets, find_file, read_file
from app.console.queries import IN_A_FILE, ON_A_PAGE, Pairs
from app.db.database import ReadSession
from app.db.models import Account, Recipient
from app.http.console.guard import signed_in
from app.http.console.searches import Search, account_of_request, csv_file, link, search_page
from app.http.context import services
from app.privacy.files import folders_of_transports
from app.recipients.read import Viewer
from app.recipients.redaction import Redaction
from app.transports.email.read_mail import Mail
from blueprints.console.blueprint import blp
from blueprints.console.content import add_opened_parts, opened_page

FILE_COLUMNS = ("uuid", "creation_time", "type", "email", "mobile", "state", "in_folder")


@blp.route("/inbox/folders")
class Folders(MethodView):
    """The messages of an account, with those that are in folders."""

    @blp.scope("contact.view")
    def get(self) -> Response:
        """A page of those that match the query, the newest first."""
        return search_page(SEARCH, of_tests=link(INBOX) if signed_in().sees_tests else None)


@blp.route("/inbox/folders.csv")
class FoldersFile(MethodView):
    """The folders of the page as a file."""

    @blp.scope("contact.view")
    def get(self) -> Response:
        """The newest of those that match the query."""
        with services().database.read() as session:
            account = account_of_request(session)
            items = _search(session, account, SEARCH.query(), IN_A_FILE)[0]
        record_export(services().database, "recipient.exported", account.id, recipients=len(items))
        return csv_file("folders.csv", FILE_COLUMNS, ([item[name] for name in FILE_COLUMNS] for item in items))


@blp.route("/inbox/folders/<uuid>")
class OneFile(MethodView):
    """One message in a folder."""

    @blp.scope("contact.view")
    def get(self, uuid: str) -> Response:
        """The parts of the message, its links and checks."""
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


add_opened_parts("/inbox/folders/<uuid>", "folders", _found)


def _search(
    session: ReadSession, account: Account, pairs: Pairs, limit: int
) -> tuple[list[dict[str, Any]], Pairs | None]:
    settings = services().settings
    viewer = Viewer("contact.view" in signed_in().scopes, Redaction.of(settings))
    found = messages.search(session, settings.secret_keys, account, pairs, viewer=viewer, limit=limit)
    folders = folders_of_transports(session, settings)
    found_in = ((one, find_file(folders, one["type"], one["uuid"])) for one in found.page.items)
    return [{**one, "in_folder": path is not None} for one, path in found_in], found.older


def _read(session: ReadSession, account: Account, pairs: Pairs) -> tuple[dict[str, Any], Pairs | None]:
    items, older = _search(session, account, pairs, ON_A_PAGE)
    return {"items": items, "has_folders": bool(folders_of_transports(session, services().settings))}, older


SEARCH = Search(PATH, "Folders", "folders.html", messages.sought, _read, nothing={"items": [], "has_folders": True})
