"""Rendering the console's pages, and its errors as pages (docs/console.md#security)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from flask import Response, g, make_response, render_template, request

from app.console.scopes import MANAGE, OPERATOR
from app.console.sessions import SignedIn
from app.distribution import COMMAND_LINE
from app.errors import Code, ServiceError
from app.http.collections import query_bytes
from app.http.console import filters
from app.http.console.assets import asset_url
from app.http.console.cookies import forget_session_token
from app.http.console.origin import comes_from_elsewhere
from app.http.context import request_host, services
from app.http.paths import first_segment, request_path

CONSOLE = "console"
"""The first path segment."""
HOME = "/console"
SIGN_IN = "/console/sign-in"
PAGES = (
    (HOME, "o", "Overview", "report.view"),
    ("/console/messages", "m", "Messages", "report.view"),
    ("/console/groups", "r", "Groups", "report.view"),
    ("/console/lists", "l", "Lists", "list.view"),
    ("/console/people", "p", "People", MANAGE),
    ("/console/stored-messages", "t", "Stored messages", "message.view"),
    ("/console/automations", "u", "Automations", "report.view"),
    ("/console/suppressions", "s", "Suppressions", "contact.view"),
    ("/console/inbox", "i", "Inbox", "contact.view"),
    ("/console/webhooks", "w", "Webhooks", "report.view"),
    ("/console/domains", "d", "Domains", "contact.view"),
    ("/console/queues", "q", "Queues", "contact.view"),
    ("/console/keys", "k", "Keys", MANAGE),
    ("/console/accounts", "c", "Accounts", OPERATOR),
    ("/console/audit", "a", "Audit log", OPERATOR),
)
"""Path, key behind `g`, name and scope of the pages in the navigation."""
WANTED = re.compile(r"/console(?:[/?][!-\[\]-~]*)?")
"""A path of the console, in ASCII and without backslashes, which browsers read as slashes."""
CLIMBING = re.compile(r"/(?:\.|%2e){0,2}(?:/|\Z)", re.IGNORECASE)
"""A segment with which a path leads elsewhere: empty, or dots."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""What a page may do, unless it has a policy of its own (app/http/console/parts.py)."""
HEADERS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Robots-Tag": "noindex",
}


def is_console() -> bool:
    """Whether the request is for a page of the console, under a host of this installation. Under another, whose DNS
    somebody else may own, there is no console."""
    return is_console_path() and services().settings.is_own_host(request_host())


def is_console_path() -> bool:
    """Whether the path is one of the console's, under whichever host."""
    return first_segment() == CONSOLE


def add_headers(response: Response) -> None:
    """The headers of every response of the console."""
    for name, value in HEADERS.items():
        response.headers[name] = value
    response.headers.setdefault("Content-Security-Policy", POLICY)
    response.headers.setdefault("Cache-Control", "no-store")


def page(template: str, status: int = 200, **values: Any) -> Response:
    """An HTML page."""
    signed_in: SignedIn | None = g.get("signed_in")
    known = {
        "signed_in": signed_in,
        "pages": [one[:3] for one in PAGES if signed_in is not None and one[3] in signed_in.scopes],
        "path": request_path(),
        "here": here(),
        "command_line": COMMAND_LINE,
        "asset_url": asset_url,
        **filters.FUNCTIONS,
    }
    return make_response(render_template(f"console/{template}", **known, **values), status)


def here() -> str:
    """The path with its query, for this page again."""
    query = query_bytes().decode("ascii", "replace")
    return request_path() + (f"?{query}" if query else "")


def goes_to(path: str) -> Response:
    """Sends the browser to another page of the console, by GET."""
    return Response(status=303, headers={"Location": path})


def wanted_path(text: str | None) -> str:
    """Where to go after signing in: a path of the console, never another site."""
    text = text or ""
    is_ours = WANTED.fullmatch(text) is not None and CLIMBING.search(text.partition("?")[0]) is None
    return text if is_ours and not text.startswith(SIGN_IN) else HOME


def error_page(error: ServiceError, code: Code, headers: Mapping[str, str]) -> Response:
    """The error as a page. Who is not signed in comes to the page to do so, and back."""
    if code.status == 401:
        return _sign_in_first()
    first = error.errors[0]
    response = page("error.html", code.status, code=code, detail=first.developer_message)
    response.headers.extend({name: value for name, value in headers.items() if name != "WWW-Authenticate"})
    return response


def _sign_in_first() -> Response:
    if request.headers.get("HX-Request"):
        return make_response("", 401, {"HX-Refresh": "true"})
    if request.method != "GET":
        return forgetting(goes_to(SIGN_IN))
    if comes_from_elsewhere():
        # A browser sends its cookie once the page itself, not the other site, asks for the next one.
        return page("again.html")
    return forgetting(page("sign_in.html", 401, wanted=wanted_path(here()), reason=None))


def forgetting(response: Response) -> Response:
    """The response, with which the browser forgets a session that has ended."""
    forget_session_token(response)
    return response
