"""The reference at `/docs`: its page, its assets and its policy (docs/openapi.md#reference).

The assets come from a package of the registry, and nothing is loaded from elsewhere, so the page also works offline.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path

from flask import Response, render_template, request

from app.errors import ServiceError
from app.http.responses import static_response

STATIC_FOLDER = Path(__file__).parent.parent / "static"
PACKAGE = "flask_swagger_ui"
MEDIA_TYPES = {
    "reference.js": "text/javascript; charset=utf-8",
    "favicon-32x32.png": "image/png",
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "swagger-ui.css": "text/css; charset=utf-8",
}
"""The assets; no other file of the package is served."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
"""Scripts and requests of this origin alone. The styles that the package sets on its elements are inline."""

SECONDS_IN_CACHE = 3600


def page() -> Response:
    """The HTML page."""
    return Response(
        render_template("reference.html"),
        content_type="text/html; charset=utf-8",
        headers={"Content-Security-Policy": POLICY},
    )


def asset(name: str) -> Response:
    """One file that the page loads. Raises `not_found`."""
    if name not in MEDIA_TYPES:
        raise ServiceError("not_found")
    response = static_response(_content(name), MEDIA_TYPES[name])
    response.cache_control.public = True
    response.cache_control.max_age = SECONDS_IN_CACHE
    response.add_etag()
    response.make_conditional(request)
    return response


@cache
def _content(name: str) -> bytes:
    """Read once: a process serves these few files from memory."""
    path = STATIC_FOLDER / name
    return path.read_bytes() if path.is_file() else (files(PACKAGE) / "dist" / name).read_bytes()
