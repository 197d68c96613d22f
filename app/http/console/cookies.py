"""The cookie of a session (docs/console.md#sessions).

Over https its name begins with `__Host-`, so that a browser takes it from this host over https alone, and no other host
of the domain can set it. Over plain http, which `REQUIRE_HTTPS` then allows, it has another name: browsers would not
keep a secure one.
"""

from __future__ import annotations

from datetime import timedelta

from flask import Response, request

SECURE = "__Host-tms_console"
PLAIN = "tms_console"


def _name() -> str:
    return SECURE if request.is_secure else PLAIN


def session_token() -> str | None:
    """The token that the browser has sent, if any."""
    return request.cookies.get(_name()) or None


def set_session_token(response: Response, token: str, lifetime: timedelta) -> None:
    """Has the browser keep the token, and send it with requests that come from this site."""
    response.set_cookie(
        _name(),
        token,
        max_age=int(lifetime.total_seconds()),
        path="/",
        secure=request.is_secure,
        httponly=True,
        samesite="Strict",
    )


def forget_session_token(response: Response) -> None:
    """Has the browser forget it."""
    response.delete_cookie(_name(), path="/", secure=request.is_secure, httponly=True, samesite="Strict")
