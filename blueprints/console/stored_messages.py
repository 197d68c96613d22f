"""Stored messages: searching and creating them (docs/console.md#stored-messages)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flask import Response, request
from flask.views import MethodView

from app.console.queries import IN_A_FILE, ON_A_PAGE, Pairs
from app.console.scopes import MANAGE
from app.console.stored_messages import ATTRIBUTES, PATH, search, sought
from app.db.database import ReadSession
from app.db.models import Account
from app.errors import CATALOGUE, ServiceError
from app.http.console.guard import signed_in
from app.http.console.pages import goes_to, texts_of
from app.http.console.searches import Search, account_of_request, csv_file, link, search_page
from app.http.context import services
from app.ids import shown_id
from app.messages.define import create_message
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
    """The same as a file."""

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
