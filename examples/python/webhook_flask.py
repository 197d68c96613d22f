"""A receiver of webhooks with Flask, at /webhooks.

pip install flask ./clients/python
TMS_WEBHOOK_SECRETS=secret python examples/python/webhook_flask.py 5000
"""

from __future__ import annotations

import os
import sys

from flask import Flask, request
from transactional_messaging import SignatureError
from transactional_messaging.events import Event
from transactional_messaging.webhooks import HEADER, RecentBatches, verify

app = Flask(__name__)
app.config["MAX_CONTENT_LENGTH"] = 32 * 1024 * 1024
SECRETS = os.environ["TMS_WEBHOOK_SECRETS"].split(",")  # while a secret is being rotated there are two
recent = RecentBatches()


@app.post("/webhooks")
def receive() -> tuple[str, int]:
    """Answers 204, once the events are processed, and 401 to what the service has not signed."""
    try:
        batch = verify(request.get_data(), request.headers.get(HEADER, ""), SECRETS)
    except SignatureError as error:
        return f"{error}\n", 401
    if batch not in recent:
        for event in batch.events:
            process(event)
        recent.add(batch)
    return "", 204


def process(event: Event) -> None:
    """Write it to your database here, and do what takes long later: the next batch waits for this answer."""
    print(event.object, event.event, event.email or event.id, flush=True)


if __name__ == "__main__":
    app.run(port=int(sys.argv[1]))
