"""A receiver of webhooks without a framework, for any WSGI server.

pip install ./clients/python
TMS_WEBHOOK_SECRETS=secret python examples/python/webhook_wsgi.py 5001
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING
from wsgiref.simple_server import make_server

from transactional_messaging import SignatureError
from transactional_messaging.events import Event
from transactional_messaging.webhooks import HEADER, RecentBatches, verify

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

MOST_BYTES = 32 * 1024 * 1024
SECRETS = os.environ["TMS_WEBHOOK_SECRETS"].split(",")  # while a secret is being rotated there are two
VARIABLE = "HTTP_" + HEADER.upper().replace("-", "_")
recent = RecentBatches()


def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Answers 204, once the events are processed, and 401 to what the service has not signed."""
    length = environ.get("CONTENT_LENGTH", "")
    if environ["REQUEST_METHOD"] != "POST" or not length.isdecimal() or int(length) > MOST_BYTES:
        start_response("400 Bad Request", [("Content-Length", "0")])
        return []
    try:
        batch = verify(environ["wsgi.input"].read(int(length)), environ.get(VARIABLE, ""), SECRETS)
    except SignatureError as error:
        text = f"{error}\n".encode()
        start_response("401 Unauthorized", [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
        return [text]
    if batch not in recent:
        for event in batch.events:
            process(event)
        recent.add(batch)
    start_response("204 No Content", [])
    return []


def process(event: Event) -> None:
    """Write it to your database here, and do what takes long later: the next batch waits for this answer."""
    print(event.object, event.event, event.email or event.id, flush=True)


if __name__ == "__main__":
    with make_server("127.0.0.1", int(sys.argv[1]), application) as server:
        server.serve_forever()
