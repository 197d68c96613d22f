"""What a message says, as it was sent (docs/console.md#what-was-sent)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Response
from flask.views import MethodView

from app.console.content import MOST_SHOWN, Content, TextMessage, compose_content, find_content
from app.console.inbox.captured import PATH as INBOX
from app.console.inbox.opened import open_mail, to_look_at
from app.console.messages import PATH, message_of
from app.db.database import ReadSession
from app.errors import ServiceError
from app.http.console.guard import signed_in
from app.http.console.pages import page
from app.http.console.parts import download, framed_html, framed_image, framing, numbered, source
from app.http.console.searches import link
from app.http.context import services
from app.http.paths import request_path
from app.transports.email.read_mail import Mail, with_images
from blueprints.console.blueprint import blp

# The HTML with its images, the source and the attachments of mails: the same four pages below each page that shows one
# (docs/console.md#what-was-sent).


def add_mail_parts(path: str, name: str, mail_of: Callable[..., Mail | None]) -> None:
    """Adds the pages below the path of a message, whose variable the function is called with. Their endpoints begin
    with the name."""

    def mail(**of: str) -> Mail:
        found = mail_of(**of)
        if found is None:
            raise ServiceError("not_found", detail="The message is no mail, or it is not kept any more.")
        return found

    _add_html(path, name, mail)
    _add_files(path, name, mail)


def _add_html(path: str, name: str, mail: Callable[..., Mail]) -> None:
    @blp.route(f"{path}/html", endpoint=f"{name}_html")
    class Html(MethodView):
        """The HTML of a mail, for the frame of its page."""

        @blp.scope("contact.view")
        def get(self, **of: str) -> Response:
            """The HTML, in which nothing runs, and nothing is loaded but its own images."""
            found = mail(**of)
            if found.html is None:
                raise ServiceError("not_found", detail="The message has no HTML, or it is not kept any more.")
            images = f"{request_path().removesuffix('/html')}/image"
            html = with_images(found.html, found.images, f"{images}?number=")
            return framed_html(html, images if found.images else None)

    @blp.route(f"{path}/image", endpoint=f"{name}_image")
    class Image(MethodView):
        """An attached image that the HTML shows, however often, and which is loaded once."""

        @blp.scope("contact.view")
        def get(self, **of: str) -> Response:
            """The one with the number that the query names, which is that of the attachment."""
            found = mail(**of)
            file = numbered(found.files)
            if file.content_id not in found.images:
                raise ServiceError("not_found", detail="The attachment is no image in the HTML.")
            return framed_image(file.media_type, file.content)


def _add_files(path: str, name: str, mail: Callable[..., Mail]) -> None:
    @blp.route(f"{path}/source", endpoint=f"{name}_source")
    class Source(MethodView):
        """The source of a mail."""

        @blp.scope("contact.view")
        def get(self, **of: str) -> Response:
            """The whole mail as text."""
            return source(mail(**of).source)

    @blp.route(f"{path}/attachment", endpoint=f"{name}_attachment")
    class Attachment(MethodView):
        """An attachment of a mail."""

        @blp.scope("contact.view")
        def get(self, **of: str) -> Response:
            """The one with the number that the query names; the first is 1."""
            found = numbered(mail(**of).files)
            return download(found.name, found.content)


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


# One message with its parts, links and checks, wherever it was found (docs/console.md#inbox).


def opened_page(session: ReadSession, account_id: int, message: Mail | TextMessage, **known: Any) -> Response:
    """The page of a message of the account."""
    if isinstance(message, TextMessage):
        shown: dict[str, Any] = {"sms": message, "opened": None}
    else:
        opened = open_mail(session, services().settings.secret_keys, account_id, message)
        shown = {"sms": None, "opened": opened}
    return framing(page("inbox_message.html", **shown, **known, most_shown=MOST_SHOWN))


def add_opened_parts(path: str, name: str, find: Callable[..., Mail | TextMessage]) -> None:
    """Adds the pages of the HTML, its images, the source and the attachments, of mails alone."""

    def mail(**of: str) -> Mail | None:
        found = find(**of)
        return None if isinstance(found, TextMessage) else to_look_at(found)

    add_mail_parts(path, name, mail)
