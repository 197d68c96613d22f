"""Redirects to URLs of tenants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import Response
from werkzeug.datastructures import Headers

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment


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
