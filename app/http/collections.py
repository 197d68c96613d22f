"""Collection responses: the envelope around a page (specification: Collection envelope)."""

from __future__ import annotations

from urllib.parse import quote

from flask import Response, request

from app.http.responses import json_response
from app.query.conditions import Query
from app.query.fields import Resource
from app.query.links import envelope
from app.query.reader import Page


def query_pairs() -> list[tuple[str, str]]:
    """The query parameters in the order in which they came, each as often as it came."""
    return list(request.args.items(multi=True))


def collection_response(resource: Resource, query: Query, page: Page) -> Response:
    """200 with the page's items under the resource's key in `_embedded`."""
    path = quote(request.path.rstrip("/"))
    body = envelope(path, query, size=page.size, has_next=page.has_next)
    body["_embedded"] = {resource.collection: page.items}
    return json_response(body)
