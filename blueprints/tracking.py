"""The pixel and the tracked links of a message. They need no key: the token in the URL identifies the recipient.

A visit is recorded after the response, so that no page waits for a write to the database.
"""

from __future__ import annotations

import base64

from flask import Response, current_app, request
from flask.views import MethodView

from app.http.api import PUBLIC, Blueprint
from app.http.context import client_address, request_host, services
from app.http.html_pages import dead_link_page
from app.http.responses import VerbatimRedirect, not_cached
from app.tracking.devices import client_of
from app.tracking.links import LinkTarget, find_link_target, is_foreign, location_header, redirects_under
from app.tracking.recorder import VISITS, Recorder
from app.tracking.tokens import OPEN_PURPOSE, recipient_from_token
from app.tracking.visits import visit_of

blp = Blueprint("tracking", __name__, description="Opens and clicks")

PIXEL = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
"""A transparent image of one pixel."""


@blp.route("/o/<token>.gif")
class Open(MethodView):
    """The pixel of one recipient's message."""

    @blp.scope(PUBLIC)
    def get(self, token: str) -> Response:
        """Returns the image for any token, but for one of another account than that of the host; a valid one records an
        open."""
        recipient_id = recipient_from_token(services().settings.secret_keys, OPEN_PURPOSE, token)
        if recipient_id is not None:
            if is_foreign(services().database, services().settings, request_host(), recipient_id):
                return dead_link_page()
            _record_visit(recipient_id, None)
        return not_cached(Response(PIXEL, content_type="image/gif"))


@blp.route("/c/<token>")
class Click(MethodView):
    """A link of one recipient's message."""

    @blp.scope(PUBLIC)
    def get(self, token: str) -> Response:
        """Redirects to the URL in the message, and to no other, under a host of its account."""
        settings = services().settings
        with services().database.read() as session:
            target = find_link_target(session, settings.secret_keys, token)
            if target is None or not redirects_under(session, settings, request_host(), target.recipient_id):
                return dead_link_page()
        _record_visit(target.recipient_id, target)
        return not_cached(VerbatimRedirect(location_header(target.url)))


def _record_visit(recipient_id: int, target: LinkTarget | None) -> None:
    client = client_of(request.method, dict(request.headers))
    recorder: Recorder = current_app.extensions[VISITS]
    recorder.put(visit_of(services().settings, recipient_id, client, client_address(), target))
