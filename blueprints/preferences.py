"""The page on which a recipient chooses among lists (docs/preferences.md). It needs no key: the token in the link
identifies the recipient.

GET shows the page, because mail and sms apps fetch links automatically; only POST changes anything.
"""

from __future__ import annotations

from collections.abc import Sequence

from flask import Response
from flask.views import MethodView

from app.addresses import ADDRESS_KINDS
from app.db.database import ReadSession, Transaction
from app.http.api import PUBLIC, Blueprint
from app.http.bodies import form_fields
from app.http.context import services
from app.http.html_pages import dead_link_page, recipient_page
from app.http.responses import not_cached
from app.preferences.choose import MAX_FIELDS, Choices, choose, read_choices
from app.preferences.offered import OfferedList, offered_lists, with_channels
from app.tracking.feedback_channels import UnsubscribeRequest, find_unsubscribe_request
from app.tracking.tokens import PREFERENCES_PURPOSE

MAX_BYTES = 16 * 1024
"""Of a form: more than all fields of the largest page take."""

blp = Blueprint("preferences", __name__, url_prefix="/p", description="Preferences links")


@blp.route("/<token>")
class Preferences(MethodView):
    """One recipient's link."""

    @blp.scope(PUBLIC)
    def get(self, token: str) -> Response:
        """The offered lists, each with what the recipient gets of it."""
        with services().database.read() as session:
            request = _request(session, token)
            offered = _offered(session, request) if request else []
        return _page(request, offered)

    @blp.scope(PUBLIC)
    def post(self, token: str) -> Response:
        """Changes what the form has changed; a repetition changes nothing."""
        choices = read_choices(form_fields(MAX_BYTES, MAX_FIELDS))
        chosen = services().database.transact(lambda transaction: _chosen(transaction, token, choices))
        return _page(*chosen, is_saved=True)


def _request(session: ReadSession, token: str) -> UnsubscribeRequest | None:
    return find_unsubscribe_request(session, services().settings.secret_keys, token, PREFERENCES_PURPOSE)


def _offered(session: ReadSession, request: UnsubscribeRequest) -> Sequence[OfferedList]:
    return with_channels(session, request, offered_lists(session, request.account_id))


def _chosen(
    transaction: Transaction, token: str, choices: Choices
) -> tuple[UnsubscribeRequest | None, Sequence[OfferedList]]:
    request = _request(transaction, token)
    return request, choose(transaction, request, choices) if request else []


def _page(request: UnsubscribeRequest | None, offered: Sequence[OfferedList], *, is_saved: bool = False) -> Response:
    if request is None:
        return dead_link_page()
    kinds = [kind for kind in ADDRESS_KINDS if any(kind in each.channels for each in offered)]
    values = {"address": request.address, "offered": offered, "kinds": kinds, "is_saved": is_saved}
    return not_cached(recipient_page("preferences.html", 200, request.brand, **values))
