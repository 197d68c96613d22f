"""The doors for Kannel: receipts of text messages and replies to them. No key: a token or a secret stands in the URL.

Kannel sends what it is answered to the person who wrote, so answers are empty.
"""

from __future__ import annotations

from urllib.parse import parse_qsl

from flask import Response
from flask.views import MethodView

from app.http.api import PUBLIC, Blueprint
from app.http.collections import query_bytes, query_pairs
from app.http.context import services
from app.inbound.kannel import take_kannel_receipt, take_kannel_reply

blp = Blueprint("kannel", __name__, url_prefix="/inbound/kannel", description="Callbacks of an sms gateway")


@blp.route("/dlr/<token>")
class KannelReceipt(MethodView):
    """The end of one text message."""

    @blp.scope(PUBLIC)
    def get(self, token: str) -> Response:
        """Takes the receipt in; one that comes again changes nothing."""
        given = dict(query_pairs())
        take_kannel_receipt(services(), token, given.get("type", ""), given.get("answer", ""))
        return Response(status=200)


@blp.route("/mo")
class KannelReply(MethodView):
    """A text message that a person sent."""

    @blp.scope(PUBLIC)
    def get(self) -> Response:
        """Takes the reply in. Its bytes are in the character set that the call itself names."""
        raw = parse_qsl(query_bytes().decode("latin-1"), keep_blank_values=True, encoding="latin-1")
        given = {name: value.encode("latin-1") for name, value in raw}
        take_kannel_reply(services(), given.get("secret", b"").decode("latin-1"), given)
        return Response(status=200)
