"""Messages that are held after a restore, for operators: searching them, and releasing or ending all that a search
shows (docs/console.md#held-messages)."""

from __future__ import annotations

from typing import Any

from flask import Response, request
from flask.views import MethodView

from app.audit.record import Act, record
from app.bulk_actions.ask import GRACE, MOST_MESSAGES, Preview, ask, preview
from app.bulk_actions.query import query_of
from app.console.bulk_actions import PATH as OF_ACTIONS
from app.console.bulk_actions import WORDS
from app.console.held_messages import KINDS, PATH, search, sought
from app.console.queries import IN_A_FILE, ON_A_PAGE, Pairs
from app.console.scopes import OPERATOR
from app.db.database import ReadSession
from app.db.models import Account
from app.errors import ServiceError
from app.http.collections import query_pairs
from app.http.console.pages import goes_to, page
from app.http.console.searches import (
    Search,
    account_of_request,
    choose_account,
    link,
    named_account_id,
    search_page,
)
from app.http.console.tables import csv_file
from app.http.context import services
from app.sends.holds.held import WAS
from blueprints.console.blueprint import blp
from blueprints.console.list_page import status_of, texts_of

FILE_COLUMNS = ("uuid", "creation_time", "due_time", "was", "type", "email", "mobile", "group_id")


@blp.route("/holds")
class HeldMessages(MethodView):
    """The held messages of an account."""

    @blp.scope(OPERATOR)
    def get(self) -> Response:
        """A page of those that match the query, the newest first. A form leads to its query."""
        pairs = SEARCH.query()
        return search_page(SEARCH, was=WAS, act=link(f"{PATH}/preview", [one for one in pairs if one[0] != "cursor"]))

    @blp.scope(OPERATOR)
    def post(self) -> Response:
        """Asks for one of the actions that were previewed."""
        pairs, kind = query_of(request.form.get("query", "")), KINDS.get(request.form.get("action", ""))
        try:
            if kind is None:
                raise ServiceError("invalid_string", field="action", detail="Say what becomes of them.")
            with services().database.read() as session:
                found = preview(session, kind, account_of_request(session), pairs)
            with services().database.write() as transaction:
                action = ask(transaction, account_of_request(transaction), found)
        except ServiceError as error:
            return _preview(pairs, error)
        return goes_to(link(f"{OF_ACTIONS}/{action.id}"))


@blp.route("/holds.csv")
class HeldMessagesFile(MethodView):
    """The same as a file."""

    @blp.scope(OPERATOR)
    def get(self) -> Response:
        """The newest of those that match the query."""
        with services().database.read() as session:
            account = account_of_request(session)
            items = search(session, services().settings.secret_keys, account, SEARCH.query(), IN_A_FILE)[0]
        with services().database.write() as transaction:
            record(transaction, Act("recipient.exported", account.id, counts={"recipients": len(items)}))
        return csv_file("held-messages.csv", FILE_COLUMNS, ([item[name] for name in FILE_COLUMNS] for item in items))


@blp.route("/holds/preview")
class PreviewOfHeld(MethodView):
    """What releasing or ending them would be about."""

    @blp.scope(OPERATOR)
    def get(self) -> Response:
        """How many messages the query finds, and the newest of them, with what can become of them."""
        return _preview([one for one in query_pairs() if one[0] != "account"])


def _read(session: ReadSession, account: Account, pairs: Pairs) -> tuple[dict[str, Any], Pairs | None]:
    items, older = search(session, services().settings.secret_keys, account, pairs, ON_A_PAGE)
    return {"items": items}, older


SEARCH = Search(PATH, "Held messages", "held_messages.html", sought, _read, nothing={"items": []}, time="due_time")


def _preview(pairs: Pairs, error: ServiceError | None = None) -> Response:
    """What the query finds now, with why an action was refused."""
    found: Preview | None = None
    with services().database.read() as session:
        if named_account_id(session) is None:
            return choose_account(session, PATH, SEARCH.title)
        account = account_of_request(session)
        try:
            found = preview(session, next(iter(KINDS.values())), account, pairs)
        except ServiceError as refused:
            error = refused
        return page(
            "held_messages_preview.html",
            status_of(error),
            account=account,
            found=found,
            refused=texts_of(error),
            words=WORDS,
            most=MOST_MESSAGES,
            seconds=int(GRACE.total_seconds()),
            action=link(PATH),
            back=link(PATH, pairs),
        )
