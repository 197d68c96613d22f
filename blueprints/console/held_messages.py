"""Messages that are held after a restore, for operators: searching them, and releasing or ending all that a search
shows (docs/console-messages.md#held-messages)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.accounts.sessions import OPERATOR
from app.bulk_actions.kinds import DROP_AS_FAILED, DROP_AS_SENT, RELEASE
from app.console.bulk_actions import HELD_PATH
from app.console.offers import chosen, newest
from app.console.queries import SearchPage, SearchRequest, without_cursor
from app.db.models import Group
from app.http.console.pages import link
from app.http.console.searches import Search, export_recorder
from app.ids import id_in
from app.sends.holds.held import FORMER_STATES, HELD_MESSAGES_SHAPE, page_held
from blueprints.console.blueprint import blp
from blueprints.console.bulk_actions import BulkPreview

KINDS = {kind.name: kind for kind in (RELEASE, DROP_AS_SENT, DROP_AS_FAILED)}
"""What can be done to all that a search shows, in the order of its buttons."""


def _page_context(search_request: SearchRequest, search_page: SearchPage) -> Mapping[str, Any]:
    """The groups of the messages and of the filter by name, and those that the form offers."""
    session, account_id, pairs = search_request.session, search_request.account_id, search_request.pairs
    filtered = [id_ for name, value in pairs if name == "group_id" and (id_ := id_in(value)) is not None]
    named = chosen(session, Group, account_id, {*filtered, *(item["group_id"] for item in search_page.items)})
    offered = {offer.id: offer for offer in (*named, *newest(session, Group, account_id))}
    return {
        "act": link(f"{HELD_PATH}/preview", without_cursor(pairs)),
        "group_names": {offer.id: offer.label for offer in named},
        "groups": [*offered.values()],
    }


SEARCH = Search(
    path=HELD_PATH,
    title="Held messages",
    template="held_messages.html",
    text_filter=lambda text: ("uuid", text),
    find=lambda search_request: search_request.read_page(HELD_PATH, HELD_MESSAGES_SHAPE.resource, page_held),
    columns=("uuid", "creation_time", "due_time", "was", "type", "email", "mobile", "group_id"),
    context=lambda: {"was": FORMER_STATES},
    page_context=_page_context,
    record_file=export_recorder("recipient.exported", "recipients"),
    time="due_time",
    file_name="held-messages.csv",
)
blp.searches(SEARCH, OPERATOR)
PREVIEW = BulkPreview("held_messages_preview.html", KINDS, HELD_PATH, HELD_PATH, SEARCH.title)
PREVIEW.add_views("/holds/preview", OPERATOR)
