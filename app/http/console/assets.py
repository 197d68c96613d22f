"""Styles and scripts of the console: files of this package, some of them of others
(docs/console-development.md#assets).

The URL of a file contains its hash, so browsers keep it for ever, and never mix the files of two releases.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from flask import Response

from app.errors import ServiceError
from app.http.responses import static_response

STATIC = Path(__file__).parents[2] / "static"
FOLDERS = (STATIC / "console", STATIC / "vendor")
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Suffix -> media type; files with another suffix are not served."""
HASH_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Asset:
    """One file, with the hash that its URL contains."""

    content: bytes
    media_type: str
    hash: str


@cache
def assets() -> dict[str, Asset]:
    """All files by name, read once."""
    assets_by_name = {}
    for folder in FOLDERS:
        for path in folder.iterdir():
            if path.suffix in MEDIA_TYPES:
                content = path.read_bytes()
                digest = hashlib.sha256(content).hexdigest()[:HASH_LENGTH]
                assets_by_name[path.name] = Asset(content, MEDIA_TYPES[path.suffix], digest)
    return assets_by_name


def asset_url(name: str) -> str:
    """Where a page finds the file."""
    return f"/console/assets/{assets()[name].hash}/{name}"


def asset(hash_: str, name: str) -> Response:
    """The file. Raises `not_found` also for another hash: a cache would keep the wrong file for ever."""
    static_asset = assets().get(name)
    if static_asset is None or static_asset.hash != hash_:
        raise ServiceError("not_found")
    response = static_response(static_asset.content, static_asset.media_type)
    response.cache_control.public = True
    response.cache_control.max_age = 31_536_000
    response.cache_control.immutable = True
    return response
