"""HTML pages for recipients, and the headers that tell browsers what such a page may do."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from flask import Response, make_response, render_template, request

from app.errors import Code, ServiceError
from app.http.context import FAULT
from app.http.paths import first_segment

PAGE_SEGMENTS = frozenset({"u", "c"})
"""First path segments of links in messages: a recipient who follows one gets a page, also for an error."""

TEMPLATE = Path(__file__).parent.parent / "templates" / "page.html"


def _policy() -> str:
    """No resource is loaded and no script runs; the only style is the page's own."""
    style = re.search(r"<style>(.*?)</style>", TEMPLATE.read_text("utf-8"), re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style[1].encode() if style else b"").digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


SECURITY_HEADERS = {
    "Content-Security-Policy": _policy(),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def add_security_headers(response: Response) -> None:
    """For every response outside the API: the URLs contain tokens, and browsers open them. A page that runs scripts has
    a policy of its own."""
    for name, value in SECURITY_HEADERS.items():
        response.headers.setdefault(name, value)


def expects_html(error: ServiceError) -> bool:
    """Whether the client is a browser. An invalid request was not sent by one; a valid one that found no free thread
    may have been."""
    if first_segment() not in PAGE_SEGMENTS:
        return False
    return FAULT not in request.environ or error.code == "service_unavailable"


def error_page(code: Code, headers: Mapping[str, str]) -> Response:
    """The error as a page for an end user."""
    response = make_response(render_template("error.html", message=code.message), code.status, dict(headers))
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Robots-Tag"] = "noindex"
    return response
