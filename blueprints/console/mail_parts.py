"""The HTML, the source and the attachments of mails: the same three pages below each page that shows one
(docs/console.md#what-was-sent)."""

from __future__ import annotations

from collections.abc import Callable

from flask import Response
from flask.views import MethodView

from app.errors import ServiceError
from app.http.console.parts import download, framed_html, numbered, source
from app.transports.email.read_mail import Mail
from blueprints.console.blueprint import blp


def add_mail_parts(
    path: str, name: str, mail_of: Callable[..., Mail | None], html_of: Callable[..., str | None]
) -> None:
    """Adds the pages below the path of a message, whose variable both functions are called with. Their endpoints begin
    with the name."""

    def mail(**of: str) -> Mail:
        found = mail_of(**of)
        if found is None:
            raise ServiceError("not_found", detail="The message is no mail, or it is not kept any more.")
        return found

    @blp.route(f"{path}/html", endpoint=f"{name}_html")
    class Html(MethodView):
        """The HTML of a mail, for the frame of its page."""

        @blp.scope("contact.view")
        def get(self, **of: str) -> Response:
            """The HTML, in which nothing runs and nothing is loaded."""
            html = html_of(**of)
            if html is None:
                raise ServiceError("not_found", detail="The message has no HTML, or it is not kept any more.")
            return framed_html(html)

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
