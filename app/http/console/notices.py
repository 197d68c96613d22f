"""The line in which a page tells what the action before it has done, with a button that takes it back where that is
possible (docs/console.md#after-an-action).

An action answers with a redirection, so the line goes to the next page in a cookie. The cookie is signed, names the
session that it is for, and is deleted by the page that shows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

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
    """What an action has done, in whole sentences, and the path of the page that comes next. `undo` is the path of the
    action that takes it back, which asks no question."""

    path: str
    text: str
    undo: str | None = None


class Notice(NamedTuple):
    """What the line says, and the path of the action that takes it back, if there is one."""

    text: str
    undo: str | None = None


def announce(response: Response, done: Done) -> None:
    """Has the next page of this session show what was done. With the longest name in it, it fits into a cookie."""
    content = orjson.dumps([signed_in().session_id, done.text, done.undo])
    value = sign_token(services().settings.secret_key, PURPOSE, content)
    secure = request.is_secure
    response.set_cookie(COOKIE, value, max_age=SECONDS, path=PATH, secure=secure, httponly=True, samesite="Strict")


def announced() -> Notice | None:
    """What this page is to show."""
    value = request.cookies.get(COOKIE)
    if value is None or request.method != "GET":
        return None
    content = verify_token(services().settings.secret_keys, PURPOSE, value)
    if content is None:
        return None
    session_id, *notice = orjson.loads(content)
    return Notice(*notice) if session_id == signed_in().session_id else None


def forget(response: Response) -> None:
    """Has the browser forget the text, which the page shows."""
    response.delete_cookie(COOKIE, path=PATH, secure=request.is_secure, httponly=True, samesite="Strict")
