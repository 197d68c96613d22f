"""What test keys have sent, captured instead of sent (docs/console.md#inbox)."""

from __future__ import annotations

from typing import Any

from flask import Response
from flask.views import MethodView

from app.accounts.exports import record_export
from app.addresses import MESSAGE_TYPES
from app.console.content import TextMessage
from app.console.inbox import folders
from app.console.inbox.captured import PATH, find_message, inbox_of, search, sought
from app.console.inbox.opened import message_of_capture
from app.console.queries import IN_A_FILE, ON_A_PAGE, Pairs
from app.db.database import ReadSession
from app.db.models import Account
from app.http.console.guard import signed_in
from app.http.console.pages import goes_to
from app.http.console.searches import Search, account_of_request, csv_file, link, search_page
from app.http.context import services
from app.http.paths import path_id
from app.query.cursors import CURSOR
from app.transports.email.read_mail import Mail
from blueprints.console.blueprint import blp
from blueprints.console.content import add_opened_parts, opened_page

FILE_COLUMNS = ("id", "captured_time", "type", "address", "sender", "subject", "blind_copy", "uuid")


@blp.route("/inbox")
class Inbox(MethodView):
    """The captured messages of a test account."""

    @blp.scope("contact.view")
    def get(self) -> Response:
        """A page of those that match the query, the newest first. Who sees no tests comes to the folders."""
        if not signed_in().sees_tests:
            return goes_to(link(folders.PATH))
        return search_page(SEARCH, types=MESSAGE_TYPES, of_folders=_of_folders())


@blp.route("/inbox.csv")
class InboxFile(MethodView):
    """The captured messages of the page as a file."""

    @blp.scope("contact.view")
    def get(self) -> Response:
        """The newest of those that match the query."""
        with services().database.read() as session:
            account = account_of_request(session)
            items = _search(session, account, SEARCH.query(), IN_A_FILE)[0]
        record_export(services().database, "recipient.exported", account.id, recipients=len(items))
        return csv_file("inbox.csv", FILE_COLUMNS, ([item[name] for name in FILE_COLUMNS] for item in items))


@blp.route("/inbox/<captured_id>")
class OneCaptured(MethodView):
    """One captured message."""

    @blp.scope("contact.view")
    def get(self, captured_id: str) -> Response:
        """The parts of the message, its links and checks."""
        with services().database.read() as session:
            found = find_message(session, signed_in(), path_id(captured_id))
            known = {"uuid": found.uuid, "base": f"{PATH}/{found.id}", "captured": found}
            return opened_page(session, found.account_id, message_of_capture(found), **known)


def _message(captured_id: str) -> Mail | TextMessage:
    with services().database.read() as session:
        return message_of_capture(find_message(session, signed_in(), path_id(captured_id)))


add_opened_parts("/inbox/<captured_id>", "inbox", _message)


def _of_folders() -> str | None:
    """The page of the folders; test keys write into none."""
    return None if signed_in().is_test else link(folders.PATH)


def _search(
    session: ReadSession, account: Account, pairs: Pairs, limit: int
) -> tuple[list[dict[str, Any]], Pairs | None]:
    """Of an account that has no test account yet nothing is captured."""
    found = inbox_of(session, account) if signed_in().sees_tests else None
    return search(session, services().settings.secret_keys, (found or account).id, pairs, limit)


def _read(session: ReadSession, account: Account, pairs: Pairs) -> tuple[dict[str, Any], Pairs | None]:
    items, older = _search(session, account, pairs, ON_A_PAGE)
    shown = {"items": items, "has_tests": inbox_of(session, account) is not None}
    return {**shown, "is_live": CURSOR not in dict(pairs)}, older


SEARCH = Search(
    PATH,
    "Inbox",
    "inbox.html",
    sought,
    _read,
    nothing={"items": [], "has_tests": True, "is_live": False},
    time="captured_time",
)
