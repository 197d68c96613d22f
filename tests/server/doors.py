"""A plugin for tests of the server: pages that hang, are large, are made part by part, fail, or return what they
received."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from pathlib import Path

from flask import Response, request
from flask.views import MethodView

from app.http.api import PUBLIC, Blueprint
from app.http.responses import json_response

blp = Blueprint("doors", __name__, url_prefix="/doors", description="Doors of the tests")


@blp.route("/hang")
class Hang(MethodView):
    """Waits until the test writes to the FIFO that the request names. A file beside it shows that the request waits."""

    @blp.scope(PUBLIC)
    def get(self) -> Response:
        """Returns what the test has written."""
        fifo = Path(request.args["fifo"])
        fifo.with_name(f"{fifo.name}.{uuid.uuid4()}").touch()
        return Response(fifo.read_bytes())


@blp.route("/large")
class Large(MethodView):
    """A large response."""

    @blp.scope(PUBLIC)
    def get(self) -> Response:
        """Returns that many bytes."""
        return Response(b"x" * int(request.args["bytes"]))


@blp.route("/parts")
class Parts(MethodView):
    """A response that is made part by part."""

    @blp.scope(PUBLIC)
    def get(self) -> Response:
        """Returns `parts` parts of `bytes` bytes each. Each part leaves a byte in a file of the test, and so does the
        end, whether or not the response is complete. With `fails`, the last part is an error."""
        count, size, file = int(request.args["parts"]), int(request.args["bytes"]), Path(request.args["file"])
        return Response(parts(count, size, file, fails="fails" in request.args))


def parts(count: int, size: int, file: Path, *, fails: bool) -> Iterator[bytes]:
    """The parts."""

    def leave(byte: bytes) -> None:
        with file.open("ab") as kept:
            kept.write(byte)

    try:
        for number in range(count):
            if fails and number == count - 1:
                raise ValueError
            leave(b"p")
            yield b"x" * size
    finally:
        leave(b"E")


@blp.route("/broken")
class Broken(MethodView):
    """A response that the server cannot send."""

    @blp.scope(PUBLIC)
    def get(self) -> Response:
        """Returns a header with a control character."""
        response = Response("x")
        response.headers._list.append(("X-Broken", "a\x01b"))
        return response


@blp.route("/what-came")
class WhatCame(MethodView):
    """The request as the application sees it."""

    @blp.scope(PUBLIC)
    def post(self) -> Response:
        """The body's length and digest, the scheme, the client and the path."""
        body = request.get_data()
        return json_response(
            {
                "length": len(body),
                "sha256": hashlib.sha256(body).hexdigest(),
                "scheme": request.scheme,
                "client": request.remote_addr,
                "script": request.script_root,
                "path": request.path,
                "query": request.query_string.decode(),
                "names": request.args.getlist("name"),
            }
        )
