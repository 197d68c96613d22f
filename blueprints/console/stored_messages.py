"""Stored messages: searching and creating them (docs/console.md#stored-messages)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flask import Response, request
from flask.views import MethodView

from app.accounts.sessions import MANAGE
from app.console.queries import IN_A_FILE, ON_A_PAGE, Pairs
from app.console.stored_messages import ATTRIBUTES, PATH, VERSIONS, compared, find_message, search, sought
from app.db.database import ReadSession
from app.db.models import Account, Message
from app.errors import CATALOGUE, ServiceError
from app.http.console.guard import chosen_account_id, signed_in
from app.http.console.pages import goes_to, page, status_of, texts_of
from app.http.console.searches import Search, account_of_request, csv_file, link, search_page
from app.http.context import services
from app.http.paths import path_id
from app.ids import shown_id
from app.messages.define import create_message
from app.messages.history import restore_version, versions_of
from app.messages.versions import MOST
from blueprints.console.blueprint import blp
from schemas.base import load
from schemas.messages import NEW

FILE_COLUMNS = (
    *("id", "name", "type", "subject", "from_name", "from_address", "reply_to", "thumbnail_url"),
    *("creation_time", "last_modified_time"),
)


@blp.route("/stored-messages")
class StoredMessages(MethodView):
    """The stored messages of an account."""

    @blp.scope("message.view")
    def get(self) -> Response:
        """A page of those that match the query, the newest first. A form leads to its query."""
        return _list()

    @blp.scope(MANAGE)
    def post(self) -> Response:
        """Creates a message without content, and goes to its page."""
        form = {name: request.form.get(name, "") for name in ("name", "type")}
        try:
            with services().database.write() as transaction:
                account = account_of_request(transaction)
                made = create_message(transaction, account.id, load(NEW, form))
                account_id, message_id = account.id, made.id
        except ServiceError as error:
            if error.code == "not_found":
                raise
            texts = texts_of(error)
            return _list(CATALOGUE[error.code].status, texts, form)
        return goes_to(link(f"{PATH}/{shown_id(message_id)}", [], account_id))


@blp.route("/stored-messages.csv")
class StoredMessagesFile(MethodView):
    """The stored messages of the page as a file."""

    @blp.scope("message.view")
    def get(self) -> Response:
        """The newest of those that match the query, without their bodies."""
        with services().database.read() as session:
            account = account_of_request(session)
            found = search(session, services().settings.secret_keys, account, SEARCH.query(), IN_A_FILE)[0]
        rows = ([item[name] for name in FILE_COLUMNS] for item in found.items)
        return csv_file("stored-messages.csv", FILE_COLUMNS, rows)


def _read(session: ReadSession, account: Account, pairs: Pairs) -> tuple[dict[str, Any], Pairs | None]:
    found, older = search(session, services().settings.secret_keys, account, pairs, ON_A_PAGE)
    return {"items": found.items}, older


SEARCH = Search(PATH, "Stored messages", "stored_messages.html", sought, _read, nothing={"items": []})


def _list(status: int = 200, refused: Sequence[str] = (), form: Mapping[str, str] | None = None) -> Response:
    known = {"may_manage": MANAGE in signed_in().scopes, "types": [*ATTRIBUTES], "form": form or {}, "of": PATH}
    return search_page(SEARCH, status, refused, **known)


# The versions of a stored message: what changed in each, and writing one back (docs/console.md#stored-messages).


@blp.route("/stored-messages/<message_id>/versions")
class Versions(MethodView):
    """The versions of a stored message."""

    @blp.scope(VERSIONS)
    def get(self, message_id: str) -> Response:
        """All that are kept, the newest first, without what they say."""
        with services().database.read() as session:
            message = find_message(session, chosen_account_id(), path_id(message_id))
            versions = versions_of(session, message)
        return page(
            "message_versions.html", message=message, versions=versions, most=MOST, link=link, of=_path(message)
        )


@blp.route("/stored-messages/<message_id>/versions/<version_number>")
class OneVersion(MethodView):
    """One version of a stored message."""

    @blp.scope(VERSIONS)
    def get(self, message_id: str, version_number: str) -> Response:
        """What differs from the one before, or from the one that the query names."""
        return _one(message_id, version_number)


@blp.route("/stored-messages/<message_id>/versions/<version_number>/restore")
class Restore(MethodView):
    """Writing a version back."""

    @blp.scope(MANAGE)
    def post(self, message_id: str, version_number: str) -> Response:
        """Makes the version the newest once more, and goes to the message."""
        try:
            with services().database.write() as transaction:
                message = find_message(transaction, chosen_account_id(), path_id(message_id))
                restore_version(transaction, message, path_id(version_number))
        except ServiceError as error:
            if error.code == "not_found":
                raise
            return _one(message_id, version_number, error)
        return goes_to(link(_path(message), [], message.account_id))


def _one(message_id: str, version_number: str, error: ServiceError | None = None) -> Response:
    against = request.args.get("against")
    with services().database.read() as session:
        message = find_message(session, chosen_account_id(), path_id(message_id))
        found = compared(session, message, path_id(version_number), path_id(against) if against else None)
    return page(
        "message_version.html",
        status_of(error),
        message=message,
        found=found,
        refused=texts_of(error),
        may_manage=MANAGE in signed_in().scopes,
        shown_id=shown_id(message.id),
        link=link,
        of=_path(message),
    )


def _path(message: Message) -> str:
    return f"{PATH}/{shown_id(message.id)}"
