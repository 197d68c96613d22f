"""Collection responses: the envelope around a page (docs/querying.md#pages)."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from urllib.parse import parse_qsl

from flask import Response, request

from app.http.context import principal, services
from app.http.paths import request_path
from app.http.responses import json_response
from app.query.conditions import Query
from app.query.copies import with_copies
from app.query.cursors import CursorScope
from app.query.fields import Resource
from app.query.grammar import parse_collection
from app.query.links import envelope
from app.query.parameters import LINK_PARAMETERS, MAX_PARAMETERS
from app.query.reader import Page


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


def collection_query(resource: Resource, copied: Collection[str] = ()) -> Query:
    """The query of a request for a collection. Raises the errors of its parameters.

    The filters `copied` are by ids of lists or messages, which a test key names by those of the originals.
    """
    query = parse_collection(query_pairs(), resource, cursor_scope(_path()))
    return with_copies(query, copied) if principal().is_test else query


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
