"""What a message says, as it was sent (docs/console.md#what-was-sent)."""

from __future__ import annotations

from flask import Response
from flask.views import MethodView

from app.console.content import MOST_SHOWN, Content, compose_content, find_content
from app.console.inbox.captured import PATH as INBOX
from app.console.messages import PATH, message_of
from app.errors import ServiceError
from app.http.console.guard import signed_in
from app.http.console.pages import page
from app.http.console.parts import download, framed_html, framing, numbered, source
from app.http.console.searches import link
from app.http.context import services
from app.transports.email.read_mail import Mail
from blueprints.console.blueprint import blp


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


@blp.route("/messages/<uuid>/content/html")
class ContentHtml(MethodView):
    """The HTML of a mail, for the frame of its page."""

    @blp.scope("contact.view")
    def get(self, uuid: str) -> Response:
        """The HTML, in which nothing runs and nothing is loaded."""
        html = _content(uuid).html
        if html is None:
            raise ServiceError("not_found", detail="The message has no HTML, or it is not kept any more.")
        return framed_html(html)


@blp.route("/messages/<uuid>/content/source")
class ContentSource(MethodView):
    """The source of a mail."""

    @blp.scope("contact.view")
    def get(self, uuid: str) -> Response:
        """The whole mail as text."""
        return source(_mail(uuid).source)


@blp.route("/messages/<uuid>/content/attachment")
class ContentAttachment(MethodView):
    """An attachment of a mail."""

    @blp.scope("contact.view")
    def get(self, uuid: str) -> Response:
        """The one with the number that the query names; the first is 1."""
        found = numbered(_mail(uuid).files)
        return download(found.name, found.content)


def _mail(uuid: str) -> Mail:
    mail = _content(uuid).mail
    if mail is None:
        raise ServiceError("not_found", detail="The message is no mail, or it is not kept any more.")
    return mail


def _content(uuid: str) -> Content:
    """Composed once the connection is back in its pool: a large mail takes a while."""
    settings = services().settings
    with services().database.read() as session:
        kept = find_content(session, settings, message_of(session, signed_in(), uuid))
    return compose_content(settings, kept)
