"""Which requests come from the console's own pages (docs/console.md#security).

The cookie is no proof: to `SameSite`, another port of the same host is the same site.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from flask import request

from app.errors import ServiceError
from app.http.context import services

READING = frozenset({"GET", "HEAD", "OPTIONS"})


def check_origin() -> None:
    """Raises `permission_denied` for a request that may change something and does not come from a page of this very
    origin, as far as its browser says."""
    if request.method in READING:
        return
    site = request.headers.get("Sec-Fetch-Site")
    is_own = site == "same-origin" if site is not None else request.headers.get("Origin") in own_origins()
    if not is_own:
        raise ServiceError("permission_denied", detail="This request does not come from a page of the console.")


def comes_from_elsewhere() -> bool:
    """Whether somebody followed a link of another site, with which browsers send no strict cookie."""
    return request.method == "GET" and request.headers.get("Sec-Fetch-Site") == "cross-site"


def own_origins() -> tuple[str, str]:
    """The origin of the request, and that which browsers see where a proxy does not tell."""
    public = urlsplit(services().settings.public_url)
    return request.host_url.rstrip("/"), f"{public.scheme}://{public.netloc}"
