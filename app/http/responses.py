"""JSON responses (docs/requests.md#responses), those of collections among them: the envelope around a page
(docs/querying.md#pages)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson
from flask import Response, request
from werkzeug.datastructures import Headers

from app.http.context import SHARED_KEY

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment
from itertools import islice
from urllib.parse import parse_qsl

from app.http.context import principal, services
from app.http.paths import request_path
from app.query.conditions import Query
from app.query.cursors import CursorScope
from app.query.fields import Resource
from app.query.grammar import parse_collection
from app.query.links import envelope
from app.query.parameters import LINK_PARAMETERS, MAX_PARAMETERS
from app.query.reader import Page

JSON = "application/json; charset=UTF-8"
TIMESTAMP_FORMAT = orjson.OPT_UTC_Z | orjson.OPT_OMIT_MICROSECONDS
"""orjson options for timestamps of a body: `YYYY-MM-DDTHH:MM:SSZ` (docs/requests.md#timestamps)."""


def json_response(body: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A response with a JSON object."""
    return Response(orjson.dumps(body, option=TIMESTAMP_FORMAT), status, headers, content_type=JSON)


def static_response(content: bytes, content_type: str) -> Response:
    """A response with bytes that the process keeps, whoever reads them: the server does not copy them."""
    request.environ[SHARED_KEY] = True
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


# Collections.


def query_pairs() -> list[tuple[str, str]]:
    """The query parameters in the order in which they came, each as often as it came.

    Bytes that are not UTF-8 become U+FFFD, which is not a number and in no stored text that matters; Flask's own parser
    fails on those that are not percent-encoded.
    """
    return parse_qsl(query_bytes().decode("utf-8", "replace"), keep_blank_values=True, errors="replace")


def query_bytes() -> bytes:
    """The raw query string, cut after one parameter more than any query may have."""
    parameters = filter(None, request.query_string.split(b"&"))
    return b"&".join(islice(parameters, MAX_PARAMETERS + len(LINK_PARAMETERS) + 1))


def collection_query(resource: Resource) -> Query:
    """The query of a request for a collection. Raises the errors of its parameters."""
    return parse_collection(query_pairs(), resource, cursor_scope(_path()), is_test=principal().is_test)


def cursor_scope(path: str) -> CursorScope:
    """The cursors of this collection of the account."""
    return CursorScope(services().settings.secret_keys, principal().account_id, path)


def collection_response(resource: Resource, query: Query, page: Page) -> Response:
    """200 with the page's items under the resource's key in `_embedded`."""
    body = envelope(_path(), query, page.ends)
    body["_embedded"] = {resource.collection: page.items}
    return json_response(body)


def _path() -> str:
    return request_path().rstrip("/")
