"""Rendering the console's pages, and its errors as pages (docs/console-security.md)."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

from flask import Response, g, make_response, render_template, request
from markupsafe import Markup, escape

from app.accounts.sessions import BrowserSession
from app.audit.values import host_of
from app.clock import timestamp
from app.console.queries import Pairs
from app.distribution import COMMAND_LINE
from app.errors import CATALOGUE, Code, ServiceError
from app.http.console import notices
from app.http.console.assets import asset_url
from app.http.console.guard import SESSION_COOKIE, chosen_account_id, comes_from_elsewhere, signed_in
from app.http.console.navigation import HOME, may_open, navigation_at
from app.http.console.notices import Done
from app.http.context import request_host, services
from app.http.paths import first_segment, request_path
from app.http.responses import query_bytes
from app.maintenance.words import lasting
from app.resources.definition import Attribute, Choice

# How the pages write times, durations and numbers. Pure.

MOMENT = re.compile(r"\b([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)\b")
STATE_CLASSES = {
    "queued": "waits",
    "deferred": "warns",
    "sending": "waits",
    "uncertain": "warns",
    "held": "warns",
    "paused": "warns",
    "sent": "good",
    "delivered": "good",
    "bounced": "bad",
    "failed": "bad",
}
"""State of a recipient -> the class of its word."""


def time(moment: datetime | str | None) -> Markup:
    """The time in UTC, which a script writes in the zone of the reader; the exact time shows on hover."""
    if moment is None:
        return Markup('<span class="none">–</span>')
    exact = moment if isinstance(moment, str) else timestamp(moment)
    readable = exact.replace("T", " ").removesuffix("Z")
    return Markup('<time datetime="{}" title="{} UTC">{} UTC</time>').format(exact, readable, readable[:16])


def sentence(text: str) -> Markup:
    """A text, with the times in it as `time` writes them."""
    parts = MOMENT.split(text)
    return Markup().join(time(part) if index % 2 else escape(part) for index, part in enumerate(parts))


CELL = re.compile(r'<(?:tr|td|th scope="(?:col|row)")(?=[ >])')
HEADING = re.compile(r'<th scope="col"[^>]*>([^<]*)')


def with_labels(table: str) -> Markup:
    """The rows of a table, in which each cell names the heading of its column. On a telephone, where a row is a card,
    that is shown beside the value."""
    labels, column = HEADING.findall(table), 0

    def labelled(match: re.Match[str]) -> str:
        nonlocal column
        start = match[0]
        column = 0 if start == "<tr" else column + 1
        has_label = 0 < column <= len(labels) and not start.endswith('"col"')
        return f'{start} data-label="{labels[column - 1]}"' if has_label else start

    return Markup(CELL.sub(labelled, table))  # noqa: S704 - the template has escaped what is not its own


def number(value: float) -> str:
    """The number in whole, with its thousands apart."""
    return f"{value:,.0f}".replace(",", "\u202f")


def state_class(state: str) -> str:
    """The class of the word for a recipient's state."""
    return STATE_CLASSES.get(state, "waits")


def cell(attribute: Attribute, value: Any) -> Any:
    """A value of a defined noun, as its table shows it."""
    if value is None:
        return attribute.empty_meaning or time(None)
    if isinstance(attribute.kind, Choice):
        return attribute.kind.words.get(value, value)
    return time(value) if isinstance(value, datetime) else value


FUNCTIONS: dict[str, Any] = {
    "cell": cell,
    "time": time,
    "sentence": sentence,
    "number": number,
    "with_labels": with_labels,
    "duration": lasting,
    "state_class": state_class,
    "host_of": host_of,
}
"""What templates call."""


CONSOLE = "console"
"""The first path segment."""
SIGN_IN = "/console/sign-in"
CONSOLE_PATH = re.compile(r"/console(?:[/?][!-\[\]-~]*)?")
"""A path of the console, in ASCII and without backslashes, which browsers read as slashes."""
LEAVING_SEGMENT = re.compile(r"/(?:\.|%2e){0,2}(?:/|\Z)", re.IGNORECASE)
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
    who: BrowserSession | None = g.get("signed_in")
    notice, chosen = notices.announced() if who is not None else None, g.get("chosen_account")
    context = {
        "signed_in": who,
        "navigation": None if who is None else navigation_at(request_path(), who.scopes, chosen and chosen.id),
        "chosen_account": chosen,
        "path": request_path(),
        "here": here(),
        "link": link,
        "may_open": lambda path: who is not None and may_open(path, who.scopes),
        "command_line": COMMAND_LINE,
        "provider_name": services().settings.provider_name,
        "provider_only": services().settings.oidc_only,
        "asset_url": asset_url,
        "notice": notice,
        **FUNCTIONS,
    }
    response = make_response(render_template(f"console/{template}", **context, **values), status)
    if notice is not None:
        notices.forget(response)
    return response


def here() -> str:
    """The path with its query, for this page again."""
    query = query_bytes().decode("ascii", "replace")
    return request_path() + (f"?{query}" if query else "")


def link(path: str, pairs: Pairs | None = None, account_id: int | None = None) -> str:
    """The path with the query; for who sees all accounts with one of them: that of the request, unless another one is
    given."""
    chosen = (account_id or chosen_account_id()) if signed_in().sees_all_accounts else None
    named = [*(pairs or []), *([("account", str(chosen))] if chosen is not None else [])]
    return f"{path}?{urlencode(named, quote_via=quote, safe=':,', errors='replace')}" if named else path


def goes_to(path: str) -> Response:
    """Sends the browser to another page of the console, by GET."""
    return Response(status=303, headers={"Location": path})


def redirect_after(done: Done) -> Response:
    """Sends the browser to the page that comes after an action, and has that say what was done."""
    response = goes_to(done.path if "?" in done.path else link(done.path))
    notices.announce(response, done)
    return response


def path_after_sign_in(text: str | None) -> str:
    """The path to go to after signing in: one of the console, never another site."""
    text = text or ""
    is_ours = CONSOLE_PATH.fullmatch(text) is not None and LEAVING_SEGMENT.search(text.partition("?")[0]) is None
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
        return SESSION_COOKIE.forget(goes_to(SIGN_IN))
    if comes_from_elsewhere():
        # A browser sends its cookie once the page itself, not the other site, asks for the next one.
        return page("again.html")
    return SESSION_COOKIE.forget(page("sign_in.html", 401, next_path=path_after_sign_in(here()), reason=None))


def form_texts(*names: str) -> dict[str, str]:
    """Name of each of these fields -> its text in the form of the request, without spaces around it."""
    return {name: request.form.get(name, "").strip() for name in names}


# How a page tells of a change that was refused.


def page_after(error: ServiceError | None, template: str, **values: Any) -> Response:
    """The page, which tells of a refusal if there was one: by its status, and by `refused`."""
    return page(template, status_of(error), **{"refused": texts_of(error), **values})


def texts_of(error: ServiceError | None) -> Sequence[str]:
    """What a refusal says, if there is one."""
    return [] if error is None else [field_error.developer_message for field_error in error.errors]


def errors_at(error: ServiceError | None, fields: Collection[str]) -> tuple[dict[str, str], list[str]]:
    """Field -> the text of its error, and the texts of the errors that belong to none of these fields of a page. An
    error within a field, such as `allowed_networks.0`, is at the field."""
    texts_by_field, other_texts = dict[str, str](), list[str]()
    for field_error in error.errors if error else ():
        name = (field_error.field or "").partition(".")[0]
        if field_error.collection is None and name in fields:
            texts_by_field[name] = field_error.developer_message
        else:
            other_texts.append(field_error.developer_message)
    return texts_by_field, other_texts


def status_of(error: ServiceError | None) -> int:
    """The status of the page that tells of the refusal; 200 without one."""
    return 200 if error is None else CATALOGUE[error.code].status
