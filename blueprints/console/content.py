"""What a message says, as it was sent (docs/console-messages.md#what-was-sent)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flask import Response

from app.console.content import MAX_CHARACTERS, Content, TextMessage, compose_content, find_content
from app.console.inbox import PATH as INBOX
from app.console.inbox import open_mail, to_look_at
from app.console.messages import PATH, message_of
from app.db.database import ReadSession
from app.errors import ServiceError
from app.http.console.guard import signed_in
from app.http.console.pages import link, page
from app.http.console.parts import download, framed_html, framed_image, framing, numbered, source
from app.http.context import services
from app.http.paths import request_path
from app.transports.email.read_mail import Mail, with_images
from blueprints.console.blueprint import blp

# The HTML with its images, the source and the attachments of mails: the same four pages below each page that shows one
# (docs/console-messages.md#what-was-sent).


def add_mail_parts(path: str, mail_of: Callable[..., Mail | None]) -> None:
    """Adds the pages below the path of a message, whose variable the function is called with."""

    def mail(of: Mapping[str, str]) -> Mail:
        opened_mail = mail_of(**of)
        if opened_mail is None:
            raise ServiceError("not_found", detail="The message is not an email, or it is no longer kept.")
        return opened_mail

    @blp.shows(f"{path}/html", "contact.view")
    def html(**of: str) -> Response:
        """The HTML of a mail, for the frame of its page: nothing runs in it, and nothing is loaded but its own
        images."""
        opened_mail = mail(of)
        if opened_mail.html is None:
            raise ServiceError("not_found", detail="The message has no HTML, or it is no longer kept.")
        images = f"{request_path().removesuffix('/html')}/image"
        shown_html = with_images(opened_mail.html, opened_mail.images, f"{images}?number=")
        return framed_html(shown_html, images if opened_mail.images else None)

    @blp.shows(f"{path}/image", "contact.view")
    def image(**of: str) -> Response:
        """An attached image that the HTML shows, however often, and which is loaded once: the one with the number that
        the query names, which is that of the attachment."""
        opened_mail = mail(of)
        file = numbered(opened_mail.files)
        if file.content_id not in opened_mail.images:
            raise ServiceError("not_found", detail="The attachment is not an image in the HTML.")
        return framed_image(file.media_type, file.content)

    @blp.shows(f"{path}/source", "contact.view")
    def whole_source(**of: str) -> Response:
        """The whole mail as text."""
        return source(mail(of).source)

    @blp.shows(f"{path}/attachment", "contact.view")
    def attachment(**of: str) -> Response:
        """The attachment with the number that the query names; the first is 1."""
        file = numbered(mail(of).files)
        return download(file.name, file.content)


@blp.shows("/messages/<uuid>/content", "contact.view")
def content(uuid: str) -> Response:
    """What one message says: the mail with its parts, or the text message."""
    composed_content = _content(uuid)
    test_id = composed_content.test_account_id
    captured = None if test_id is None else link(INBOX, [("uuid", composed_content.uuid)], test_id)
    of = f"{PATH}/{composed_content.uuid}"
    return framing(page("content.html", content=composed_content, of=of, captured=captured, most_shown=MAX_CHARACTERS))


def _content(uuid: str) -> Content:
    """Composed once the connection is back in its pool: a large mail takes a while."""
    settings = services().settings
    with services().database.read() as session:
        kept = find_content(session, settings, message_of(session, signed_in(), uuid))
    return compose_content(settings, kept)


add_mail_parts("/messages/<uuid>/content", lambda uuid: _content(uuid).mail)


# One message with its parts, links and checks, wherever it was found (docs/console-messages.md#inbox).


def opened_page(session: ReadSession, account_id: int, message: Mail | TextMessage, **template_values: Any) -> Response:
    """The page of a message of the account."""
    if isinstance(message, TextMessage):
        opened_values: dict[str, Any] = {"sms": message, "opened": None}
    else:
        opened = open_mail(session, services().settings.secret_keys, account_id, message)
        opened_values = {"sms": None, "opened": opened}
    return framing(page("inbox_message.html", **opened_values, **template_values, most_shown=MAX_CHARACTERS))


def add_opened_parts(path: str, find: Callable[..., Mail | TextMessage]) -> None:
    """Adds the pages of the HTML, its images, the source and the attachments, of mails alone."""

    def mail(**of: str) -> Mail | None:
        message = find(**of)
        return None if isinstance(message, TextMessage) else to_look_at(message)

    add_mail_parts(path, mail)
