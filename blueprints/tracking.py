"""What a marked message asks for: its pixel, and the links that lead on. No key: the token is what a reader has.

The answer comes first and the record after it: a page that a person wants to see waits for no writer of the database.
"""

from __future__ import annotations

import base64

from flask import Response, current_app, make_response, render_template, request
from flask.views import MethodView

from app.http.api import PUBLIC, Blueprint
from app.http.context import client_address, services
from app.http.redirect import VerbatimRedirect
from app.tracking.devices import client_of
from app.tracking.link_targets import LinkTarget, find_link_target, location_header
from app.tracking.recorder import VISITS, Recorder
from app.tracking.tokens import OPEN, recipient_from_token
from app.tracking.visits import visit_of

blp = Blueprint("tracking", __name__, description="Opens and clicks")

PIXEL = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
"""A transparent image of one pixel."""


@blp.route("/o/<token>.gif")
class Open(MethodView):
    """The pixel of one recipient's message."""

    @blp.scope(PUBLIC)
    def get(self, token: str) -> Response:
        """The image, for any token; a valid one records that its message was opened."""
        recipient_id = recipient_from_token(services().settings.secret_key, OPEN, token)
        if recipient_id is not None:
            _note(recipient_id, None)
        return _uncached(Response(PIXEL, content_type="image/gif"))


@blp.route("/c/<token>")
class Click(MethodView):
    """A link of one recipient's message."""

    @blp.scope(PUBLIC)
    def get(self, token: str) -> Response:
        """On to the place that the message names, and to no other."""
        with services().database.read() as session:
            target = find_link_target(session, services().settings.secret_key, token)
        if target is None:
            return _uncached(make_response(render_template("dead_link.html"), 404))
        _note(target.recipient_id, target)
        return _uncached(VerbatimRedirect(location_header(target.url)))


def _note(recipient_id: int, target: LinkTarget | None) -> None:
    client = client_of(request.method, dict(request.headers))
    recorder: Recorder = current_app.extensions[VISITS]
    recorder.put(visit_of(services().settings, recipient_id, client, client_address(), target))


def _uncached(response: Response) -> Response:
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Robots-Tag"] = "noindex"
    return response
