"""Messages that are held after a restore, for operators: searching them, and releasing or ending all that a search
shows (docs/console.md#held-messages)."""

from __future__ import annotations

from typing import Any

from flask import Response
from flask.views import MethodView

from app.accounts.exports import record_export
from app.accounts.sessions import OPERATOR
from app.console.held_messages import KINDS, PATH, search, sought
from app.console.queries import IN_A_FILE, ON_A_PAGE, Pairs
from app.db.database import ReadSession
from app.db.models import Account
from app.http.console.searches import (
    Search,
    account_of_request,
    csv_file,
    link,
    search_page,
)
from app.http.context import services
from app.query.cursors import CURSOR
from app.sends.holds.held import WAS
from blueprints.console.blueprint import blp
from blueprints.console.bulk_actions import BulkPreview

FILE_COLUMNS = ("uuid", "creation_time", "due_time", "was", "type", "email", "mobile", "group_id")


@blp.route("/holds")
class HeldMessages(MethodView):
    """The held messages of an account."""

    @blp.scope(OPERATOR)
    def get(self) -> Response:
        """A page of those that match the query, the newest first. A form leads to its query."""
        pairs = SEARCH.query()
        return search_page(SEARCH, was=WAS, act=link(f"{PATH}/preview", [one for one in pairs if one[0] != CURSOR]))

    @blp.scope(OPERATOR)
    def post(self) -> Response:
        """Asks for one of the actions that were previewed."""
        return PREVIEW.asked()


@blp.route("/holds.csv")
class HeldMessagesFile(MethodView):
    """The held messages of the page as a file."""

    @blp.scope(OPERATOR)
    def get(self) -> Response:
        """The newest of those that match the query."""
        with services().database.read() as session:
            account = account_of_request(session)
            items = search(session, services().settings.secret_keys, account, SEARCH.query(), IN_A_FILE)[0]
        record_export(services().database, "recipient.exported", account.id, recipients=len(items))
        return csv_file("held-messages.csv", FILE_COLUMNS, ([item[name] for name in FILE_COLUMNS] for item in items))


@blp.route("/holds/preview")
class PreviewOfHeld(MethodView):
    """What releasing or ending them would be about."""

    @blp.scope(OPERATOR)
    def get(self) -> Response:
        """How many messages the query finds, and the newest of them, with what can become of them."""
        return PREVIEW.shown()


def _read(session: ReadSession, account: Account, pairs: Pairs) -> tuple[dict[str, Any], Pairs | None]:
    items, older = search(session, services().settings.secret_keys, account, pairs, ON_A_PAGE)
    return {"items": items}, older


SEARCH = Search(PATH, "Held messages", "held_messages.html", sought, _read, nothing={"items": []}, time="due_time")
PREVIEW = BulkPreview("held_messages_preview.html", KINDS, PATH, PATH, SEARCH.title)
