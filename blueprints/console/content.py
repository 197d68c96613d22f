"""What a message says, as it was sent (docs/console.md#what-was-sent)."""

from __future__ import annotations

from flask import Response
from flask.views import MethodView

from app.console.content import MOST_SHOWN, Content, compose_content, find_content
from app.console.inbox.captured import PATH as INBOX
from app.console.messages import PATH, message_of
from app.http.console.guard import signed_in
from app.http.console.pages import page
from app.http.console.parts import framing
from app.http.console.searches import link
from app.http.context import services
from blueprints.console.blueprint import blp
from blueprints.console.mail_parts import add_mail_parts


@blp.route("/messages/<uuid>/content")
class MessageContent(MethodView):
    """What one message says."""

    @blp.scope("contact.view")
    def get(self, uuid: str) -> Response:
        """The mail with its parts, or the text message."""
        content = _content(uuid)
        test_id = content.test_account_id
        captured = None if test_id is None else link(INBOX, [("uuid", content.uuid)], test_id)
        of = f"{PATH}/{content.uuid}"
        return framing(page("content.html", content=content, of=of, captured=captured, most_shown=MOST_SHOWN))


def _content(uuid: str) -> Content:
    """Composed once the connection is back in its pool: a large mail takes a while."""
    settings = services().settings
    with services().database.read() as session:
        kept = find_content(session, settings, message_of(session, signed_in(), uuid))
    return compose_content(settings, kept)


add_mail_parts("/messages/<uuid>/content", "content", lambda uuid: _content(uuid).mail)
