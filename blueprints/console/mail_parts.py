"""The HTML with its images, the source and the attachments of mails: the same four pages below each page that shows one
(docs/console.md#what-was-sent)."""

from __future__ import annotations

from collections.abc import Callable

from flask import Response
from flask.views import MethodView

from app.errors import ServiceError
from app.http.console.parts import download, framed_html, framed_image, numbered, source
from app.http.paths import request_path
from app.transports.email.read_mail import Mail, with_images
from blueprints.console.blueprint import blp


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
