"""Pages that a person sees, and what a browser may do with them."""

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

FOR_PERSONS = frozenset({"u", "c"})
"""The first segments of links that stand in messages: whoever follows one gets a page, also when it fails."""

TEMPLATE = Path(__file__).parent.parent / "templates" / "page.html"


def _policy() -> str:
    """Nothing is loaded and nothing runs; the one style is the page's own."""
    style = re.search(r"<style>(.*?)</style>", TEMPLATE.read_text("utf-8"), re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style[1].encode() if style else b"").digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


HEADERS = {
    "Content-Security-Policy": _policy(),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def protect(response: Response) -> None:
    """The headers of every answer outside of the API: its links hold tokens, and browsers open them."""
    response.headers.update(HEADERS)


def is_for_persons(error: ServiceError) -> bool:
    """Whether a person waits for this answer. What the server itself refuses was not sent by a browser, unless it was
    refused for want of a free thread."""
    if first_segment() not in FOR_PERSONS:
        return False
    return FAULT not in request.environ or error.code == "service_unavailable"


def error_page(code: Code, headers: Mapping[str, str]) -> Response:
    """The error in words for somebody who knows nothing of an API."""
    response = make_response(render_template("error.html", message=code.message), code.status, dict(headers))
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Robots-Tag"] = "noindex"
    return response
