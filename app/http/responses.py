"""JSON responses (docs/requests.md#responses)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson
from flask import Response, request
from werkzeug.datastructures import Headers

from app.http.context import SHARED

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment


JSON = "application/json; charset=UTF-8"
TIMESTAMP_FORMAT = orjson.OPT_UTC_Z | orjson.OPT_OMIT_MICROSECONDS
"""orjson options for timestamps of a body: `YYYY-MM-DDTHH:MM:SSZ` (docs/requests.md#timestamps)."""


def json_response(body: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A response with a JSON object."""
    return Response(orjson.dumps(body, option=TIMESTAMP_FORMAT), status, headers, content_type=JSON)


def static_response(content: bytes, content_type: str) -> Response:
    """A response with bytes that the process keeps, whoever reads them: the server does not copy them."""
    request.environ[SHARED] = True
    return Response(content, content_type=content_type)


def not_cached(response: Response) -> Response:
    """The response to a link with a token: no cache and no search engine may store it."""
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Robots-Tag"] = "noindex"
    return response


def no_content() -> Response:
    """204, without a body."""
    response = Response(status=204)
    response.headers["Content-Type"] = JSON
    return response


# Redirects to URLs of tenants.


class VerbatimRedirect(Response):
    """Redirects to `url`, an ASCII text, exactly as it is: Werkzeug rewrites a Location, and fails for a URL that it
    cannot parse."""

    def __init__(self, url: str) -> None:
        super().__init__("See the Location header.\n", 302, content_type="text/plain; charset=utf-8")
        self._url = url

    def get_wsgi_headers(self, environ: WSGIEnvironment) -> Headers:
        headers = super().get_wsgi_headers(environ)
        headers["Location"] = self._url
        return headers
