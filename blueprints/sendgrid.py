"""SendGrid's event webhook, which is also an example of how a relay can report over HTTP.

It needs no key: the URL contains SENDGRID_WEBHOOK_SECRET. Without that setting the endpoint is `not_found`.
"""

from __future__ import annotations

import hmac

from flask import Response, request
from flask.views import MethodView

from app.errors import ServiceError
from app.http.api import PUBLIC, Blueprint
from app.http.bodies import check_encoding, json_value
from app.http.context import services
from app.inbound.sendgrid import take_sendgrid_events

blp = Blueprint("sendgrid", __name__, url_prefix="/inbound/sendgrid", description="Events of the relay SendGrid")


@blp.route("/<secret>")
class SendgridEvents(MethodView):
    """Batches of events."""

    @blp.scope(PUBLIC)
    def post(self, secret: str) -> Response:
        """Applies the events; repetitions change nothing. 503 makes SendGrid retry."""
        expected = services().settings.sendgrid_webhook_secret
        if not expected or not hmac.compare_digest(expected.encode(), secret.encode()):
            raise ServiceError("not_found")
        if not take_sendgrid_events(services(), _events()):
            raise ServiceError("service_unavailable")
        return Response(status=204)


def _events() -> list[object]:
    check_encoding()
    events = json_value(request.get_data())
    if not isinstance(events, list):
        raise ServiceError("invalid_request", detail="The body must be an array of events.")
    return events
