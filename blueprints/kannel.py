"""Callbacks of Kannel: receipts of text messages, and replies. They need no key: the URL has a token or a secret.

Kannel sends the body of a response to the author of the reply, so responses are empty.
"""

from __future__ import annotations

from urllib.parse import parse_qsl

from flask import Response
from flask.views import MethodView

from app.http.api import PUBLIC, Blueprint
from app.http.context import services
from app.http.responses import query_bytes, query_pairs
from app.inbound.kannel import take_kannel_receipt, take_kannel_reply

blp = Blueprint("kannel", __name__, url_prefix="/inbound/kannel", description="Callbacks of an SMS gateway")


@blp.route("/dlr/<token>")
class KannelReceipt(MethodView):
    """The receipt of one text message."""

    @blp.scope(PUBLIC)
    def get(self, token: str) -> Response:
        """Applies the receipt; a repetition changes nothing."""
        parameters = dict(query_pairs())
        take_kannel_receipt(services(), token, parameters.get("type", ""), parameters.get("answer", ""))
        return Response(status=200)


@blp.route("/mo")
class KannelReply(MethodView):
    """A reply: a text message from a person."""

    @blp.scope(PUBLIC)
    def get(self) -> Response:
        """Processes the reply. Its bytes are in the character set named in the request."""
        raw = parse_qsl(query_bytes().decode("latin-1"), keep_blank_values=True, encoding="latin-1")
        parameters = {name: value.encode("latin-1") for name, value in raw}
        take_kannel_reply(services(), parameters.get("secret", b"").decode("latin-1"), parameters)
        return Response(status=200)
