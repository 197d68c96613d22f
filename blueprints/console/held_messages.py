"""Messages that are held after a restore, for operators: searching them, and releasing or ending all that a search
shows (docs/console-messages.md#held-messages)."""

from __future__ import annotations

from flask import Response

from app.accounts.sessions import OPERATOR
from app.bulk_actions.kinds import DROP_AS_FAILED, DROP_AS_SENT, RELEASE
from app.console.bulk_actions import HELD_PATH
from app.console.queries import without_cursor
from app.http.console.pages import link
from app.http.console.searches import Search, export_recorder
from app.sends.holds.held import FORMER_STATES, HELD_MESSAGES_SHAPE, page_held
from blueprints.console.blueprint import blp
from blueprints.console.bulk_actions import BulkPreview

KINDS = {kind.name: kind for kind in (RELEASE, DROP_AS_SENT, DROP_AS_FAILED)}
"""What can be done to all that a search shows, in the order of its buttons."""
SEARCH = Search(
    path=HELD_PATH,
    title="Held messages",
    template="held_messages.html",
    text_filter=lambda text: ("uuid", text),
    find=lambda search_request: search_request.read_page(HELD_PATH, HELD_MESSAGES_SHAPE.resource, page_held),
    columns=("uuid", "creation_time", "due_time", "was", "type", "email", "mobile", "group_id"),
    context=lambda: {"was": FORMER_STATES},
    page_context=lambda search_request, _: {"act": link(f"{HELD_PATH}/preview", without_cursor(search_request.pairs))},
    record_file=export_recorder("recipient.exported", "recipients"),
    time="due_time",
    file_name="held-messages.csv",
)
blp.searches(SEARCH, OPERATOR)
PREVIEW = BulkPreview("held_messages_preview.html", KINDS, HELD_PATH, HELD_PATH, SEARCH.title)


@blp.shows("/holds/preview", OPERATOR)
def preview() -> Response:
    """How many messages the query finds, and the newest of them, with what can become of them."""
    return PREVIEW.show()


@blp.takes("/holds", OPERATOR)
def ask() -> Response:
    """Asks for one of the actions that were previewed."""
    return PREVIEW.submit()
