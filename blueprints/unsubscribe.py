"""The pages of an opt-out link. They need no key: the token in the link identifies the recipient
(docs/unsubscribing.md).

GET shows a form, because mail and sms apps fetch links automatically; only POST unsubscribes, or takes it back.
"""

from __future__ import annotations

from flask import Response
from flask.views import MethodView

from app.db.database import Transaction
from app.http.api import PUBLIC, Blueprint
from app.http.context import services
from app.http.html_pages import dead_link_page, recipient_page
from app.http.responses import not_cached
from app.tracking.feedback_channels import (
    UnsubscribeRequest,
    apply_unsubscribe,
    find_unsubscribe_request,
    may_be_undone,
    undo_unsubscribe,
)

blp = Blueprint("unsubscribe", __name__, url_prefix="/u", description="Unsubscribe links")


@blp.route("/<token>")
class Unsubscribe(MethodView):
    """One recipient's link."""

    @blp.scope(PUBLIC)
    def get(self, token: str) -> Response:
        """The form to confirm."""
        with services().database.read() as session:
            request = find_unsubscribe_request(session, services().settings.secret_keys, token)
        return _page(token, request, "asked")

    @blp.scope(PUBLIC)
    def post(self, token: str) -> Response:
        """Unsubscribes; a repetition changes nothing."""
        request, can_undo = services().database.transact(lambda transaction: _unsubscribe(transaction, token))
        return _page(token, request, "done", can_undo=can_undo)


@blp.route("/<token>/undo")
class Undo(MethodView):
    """Taking back what the link has done."""

    @blp.scope(PUBLIC)
    def post(self, token: str) -> Response:
        """Subscribes the address again, for an hour after the link was used; then, and for what something else has
        done, it changes nothing."""
        request, undone = services().database.transact(lambda transaction: _undo(transaction, token))
        return _page(token, request, "restored" if undone else "done")


def _unsubscribe(transaction: Transaction, token: str) -> tuple[UnsubscribeRequest | None, bool]:
    request = find_unsubscribe_request(transaction, services().settings.secret_keys, token)
    if request is None:
        return None, False
    apply_unsubscribe(transaction, request)
    return request, may_be_undone(transaction, request)


def _undo(transaction: Transaction, token: str) -> tuple[UnsubscribeRequest | None, bool]:
    request = find_unsubscribe_request(transaction, services().settings.secret_keys, token)
    return request, request is not None and undo_unsubscribe(transaction, request)


def _page(token: str, request: UnsubscribeRequest | None, state: str, *, can_undo: bool = False) -> Response:
    if request is None:
        return dead_link_page()
    values = {"of": request, "path": f"/u/{token}", "state": state, "may_be_undone": can_undo}
    return not_cached(recipient_page("unsubscribe.html", 200, request.brand, **values))
