"""The page of an opt-out link. It needs no key: the token in the link identifies the recipient
(docs/inbound.md#unsubscribing).

GET shows a form, because mail and sms apps fetch links automatically; only POST unsubscribes.
"""

from __future__ import annotations

from flask import Response, make_response, render_template
from flask.views import MethodView

from app.db.database import Transaction
from app.http.api import PUBLIC, Blueprint
from app.http.context import services
from app.http.responses import not_cached
from app.tracking.unsubscribe import UnsubscribeRequest, apply_unsubscribe, find_unsubscribe_request

blp = Blueprint("unsubscribe", __name__, url_prefix="/u", description="Opt-out links")


@blp.route("/<token>")
class Unsubscribe(MethodView):
    """One recipient's link."""

    @blp.scope(PUBLIC)
    def get(self, token: str) -> Response:
        """The form to confirm."""
        with services().database.read() as session:
            unsubscribe_request = find_unsubscribe_request(session, services().settings.secret_keys, token)
        return _page(unsubscribe_request, done=False)

    @blp.scope(PUBLIC)
    def post(self, token: str) -> Response:
        """Unsubscribes; a repetition changes nothing."""
        unsubscribe_request = services().database.transact(lambda transaction: _unsubscribe(transaction, token))
        return _page(unsubscribe_request, done=True)


def _unsubscribe(transaction: Transaction, token: str) -> UnsubscribeRequest | None:
    unsubscribe_request = find_unsubscribe_request(transaction, services().settings.secret_keys, token)
    if unsubscribe_request is not None:
        apply_unsubscribe(transaction, unsubscribe_request)
    return unsubscribe_request


def _page(unsubscribe_request: UnsubscribeRequest | None, *, done: bool) -> Response:
    """An HTML page, also for the 404 of an unknown link, because the client is a browser."""
    page = render_template("unsubscribe.html", unsubscribe_request=unsubscribe_request, done=done)
    return not_cached(make_response(page, 200 if unsubscribe_request else 404))
