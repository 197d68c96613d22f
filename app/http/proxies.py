"""Forwarding headers of trusted proxies (TRUSTED_PROXIES): client address, scheme and host of a request."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from werkzeug.middleware.proxy_fix import ProxyFix

WITH_PORT = re.compile(r"\[(?P<six>[^\]]*)\](?::\d+)?|(?P<four>[^:]*):\d+")

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


def behind_proxies(application: WSGIApplication, hops: int) -> ProxyFix:
    """The application behind that many proxies."""

    def normalised(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        environ["REMOTE_ADDR"] = without_port(environ.get("REMOTE_ADDR", ""))
        environ["wsgi.url_scheme"] = "https" if environ["wsgi.url_scheme"].strip().lower() == "https" else "http"
        return application(environ, start_response)

    return ProxyFix(normalised, x_for=hops, x_proto=hops, x_host=hops)


def without_port(address: str) -> str:
    """The address of `1.2.3.4:5678`, `[2001:db8::1]:5678` and `[2001:db8::1]`; any other text as it is."""
    match = WITH_PORT.fullmatch(address.strip())
    return address.strip() if match is None else match["six"] or match["four"] or ""
