"""Parts of mails, which somebody else has written, as answers that can do nothing in a browser
(docs/console-security.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from flask import Response, request

from app.errors import ServiceError
from app.http.console.guard import own_origins
from app.http.console.pages import POLICY
from app.http.paths import path_id

File = TypeVar("File")

FRAMING_POLICY = f"{POLICY}; frame-src 'self'"
"""The policy of a page with a frame."""
FRAMED_POLICY = (
    "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'self'"
)
"""The policy of the HTML in the frame: nothing runs, nothing is loaded, and its origin is nobody's."""
IMAGE_POLICY = "sandbox; default-src 'none'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
"""The policy of an image by itself."""
LINKS_DO_NOTHING = '\n<base target="_blank">'
"""Behind the HTML: its links would open windows, which the sandbox does not let them, and the frame stays."""


def framing(response: Response) -> Response:
    """A page that has a frame with the HTML of a mail."""
    response.headers["Content-Security-Policy"] = FRAMING_POLICY
    return response


def framed_html(html: str, images: str | None = None) -> Response:
    """The HTML of a mail, for such a frame alone. `images` is the path of those attached to it, if there are some: a
    browser sends the cookie of the session with requests of its own origin alone, so it has that origin then. Nothing
    runs in it that could use that, and no other address of the origin is loaded."""
    policy = FRAMED_POLICY
    if images is not None:
        sources = " ".join(dict.fromkeys(f"{origin}{images}" for origin in own_origins()))
        policy = policy.replace("sandbox", "sandbox allow-same-origin").replace("data:", f"data: {sources}")
    headers = {"Content-Security-Policy": policy}
    return Response(html + LINKS_DO_NOTHING, content_type="text/html; charset=utf-8", headers=headers)


def framed_image(media_type: str, content: bytes) -> Response:
    """An image that the HTML of a mail shows."""
    return Response(content, content_type=media_type, headers={"Content-Security-Policy": IMAGE_POLICY})


def framed_text(text: str) -> Response:
    """Words in its place, for the frame."""
    headers = {"Content-Security-Policy": FRAMED_POLICY}
    return Response(text, content_type="text/plain; charset=utf-8", headers=headers)


def source(content: bytes) -> Response:
    """A whole mail, as text."""
    return Response(content, content_type="text/plain; charset=utf-8")


def download(name: str, content: bytes) -> Response:
    """An attachment, which browsers store, whatever it is."""
    response = Response(content, content_type="application/octet-stream")
    response.headers.set("Content-Disposition", "attachment", filename=name)
    return response


def numbered(files: Sequence[File]) -> File:
    """The attachment with the number of the query; the first is 1. Raises `not_found`."""
    number = path_id(request.args.get("number", "1"))
    if not 1 <= number <= len(files):
        raise ServiceError("not_found", detail="The mail has no such attachment, or it is no longer kept.")
    return files[number - 1]
