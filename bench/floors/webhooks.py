"""The floor of case F, a process of its own: `python -m bench.floors.webhooks WEBHOOK URL KEY:SECRET…`.

For each batch it has one select, the signatures that the wire format requires, one POST over a persistent connection
and one durable delete. It has no lease, no batch contents and no delivery log: after a crash it sends events again in
other batches, and two such processes would send everything twice.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import sys
import time
import uuid
from urllib.parse import urlsplit

import jwt
import psycopg
from redis import Redis

from bench.processes import CaseFailure
from bench.stack import plain_url

WAKE_UP = "bench:webhooks"
OLDEST = "SELECT id, payload FROM events WHERE webhook_id = %s ORDER BY id LIMIT 1000"


def main(webhook_id: int, url: str, signers: list[tuple[str, str]]) -> None:
    """Waits for a wake-up, sends all events, and waits again."""
    redis = Redis.from_url(os.environ["REDIS_URL"], socket_timeout=None)
    target = urlsplit(url)
    receiver = http.client.HTTPConnection(target.hostname or "", target.port)
    with psycopg.connect(plain_url(os.environ["DATABASE_URL"]), autocommit=True, prepare_threshold=0) as database:
        while True:
            redis.blpop([WAKE_UP])
            while rows := database.execute(OLDEST, (webhook_id,)).fetchall():
                body = b'{"events":[' + ",".join([payload for _, payload in rows]).encode() + b"]}"
                headers = {"Content-Type": "application/json", "Service-Signature": _sign(webhook_id, body, signers)}
                receiver.request("POST", target.path, body, headers)
                response = receiver.getresponse()
                response.read()
                if response.status != 204:
                    raise CaseFailure(f"the receiver answered {response.status}")
                database.execute("DELETE FROM events WHERE id = ANY(%s)", ([row[0] for row in rows],))


def _sign(webhook_id: int, body: bytes, signers: list[tuple[str, str]]) -> str:
    moment = int(time.time())
    claims = {
        "iss": os.environ["PUBLIC_URL"],
        "sub": str(webhook_id),
        "iat": moment,
        "exp": moment + 300,
        "jti": str(uuid.uuid4()),
        "body_sha256": hashlib.sha256(body).hexdigest(),
    }
    return ",".join(jwt.encode(claims, secret, headers={"kid": key_id}) for key_id, secret in signers)


if __name__ == "__main__":
    pairs = [argument.partition(":") for argument in sys.argv[3:]]
    main(int(sys.argv[1]), sys.argv[2], [(key_id, secret) for key_id, _, secret in pairs])
