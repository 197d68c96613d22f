"""One message with its parts, links and checks, wherever it was found (docs/console.md#inbox)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Response

from app.console.content import MOST_SHOWN, TextMessage
from app.console.inbox.opened import open_mail, to_look_at
from app.db.database import ReadSession
from app.http.console.pages import page
from app.http.console.parts import framing
from app.http.context import services
from app.transports.email.read_mail import Mail
from blueprints.console.mail_parts import add_mail_parts


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
