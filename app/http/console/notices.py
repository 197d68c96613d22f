"""The line in which a page tells what the action before it has done (docs/console.md#after-an-action).

An action answers with a redirection, so the line goes to the next page in a cookie. The cookie is signed, names the
session that it is for, and is deleted by the page that shows it.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson
from flask import Response, request

from app.http.console.guard import signed_in
from app.http.context import services
from app.tracking.tokens import sign_token, verify_token

COOKIE = "tms_console_notice"
PATH = "/console"
SECONDS = 60
"""How long a line waits for its page."""
PURPOSE = "console notice"


@dataclass(frozen=True, slots=True)
class Done:
    """What an action has done, in whole sentences, and the path of the page that comes next."""

    path: str
    text: str


def announce(response: Response, text: str) -> None:
    """Has the next page of this session show the text. With the longest name in it, it fits into a cookie."""
    value = sign_token(services().settings.secret_key, PURPOSE, orjson.dumps([signed_in().session_id, text]))
    secure = request.is_secure
    response.set_cookie(COOKIE, value, max_age=SECONDS, path=PATH, secure=secure, httponly=True, samesite="Strict")


def announced() -> str | None:
    """The text that this page is to show."""
    value = request.cookies.get(COOKIE)
    if value is None or request.method != "GET":
        return None
    content = verify_token(services().settings.secret_keys, PURPOSE, value)
    if content is None:
        return None
    session_id, text = orjson.loads(content)
    return str(text) if session_id == signed_in().session_id else None


def forget(response: Response) -> None:
    """Has the browser forget the text, which the page shows."""
    response.delete_cookie(COOKIE, path=PATH, secure=request.is_secure, httponly=True, samesite="Strict")
