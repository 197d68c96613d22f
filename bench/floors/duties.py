"""The floors of A and D1 with the duties that the bare floors leave out, written as leanly.

Every request looks up its key with the account and the list of its path, counts against a rate in Redis, and writes a
line of the log and the metrics. A send also looks up the account with its group and domains, and the list with its
fields. Rules, errors, other forms of the request and retries are still left out. So this shows what the work costs,
where the bare floors show what the answer costs.
"""

from __future__ import annotations

import hashlib
import logging
import time
import uuid

import orjson
from flask import Response, abort, g, request
from prometheus_client import Counter, Histogram
from redis import Redis

from app.settings import from_environment
from bench.floors.api import connection
from bench.floors.writing import application

__all__ = ["application"]

LIMIT, SECONDS = 1_000_000, 1

KEY = """
SELECT k.account_id, k.id, k.access_level, k.creation_time, a.allowed_networks, a.rate_limit
FROM api_keys k JOIN accounts a ON a.id = k.account_id
WHERE k.token_hash = %s AND k.revoked_time IS NULL AND k.expiry_time IS NULL
"""
KEY_AND_LIST = """
SELECT k.account_id, k.id, k.access_level, k.creation_time, a.allowed_networks, a.rate_limit, l.id, l.name, l.system,
    l.allow_duplicates, f.id, f.key, f.name, f.type, f.options
FROM api_keys k JOIN accounts a ON a.id = k.account_id
LEFT JOIN lists l ON l.account_id = k.account_id AND l.id = %s LEFT JOIN list_fields f ON f.list_id = l.id
WHERE k.token_hash = %s AND k.revoked_time IS NULL AND k.expiry_time IS NULL ORDER BY f.position, f.id
"""
REFERENCES = """
SELECT a.owner_confirmed, a.default_from_name, a.default_from_address, a.track_opens, a.track_clicks, g.id, g.type,
    EXISTS (SELECT 1 FROM domains d WHERE d.account_id = a.id AND d.name = %s AND d.verified_time IS NOT NULL)
FROM accounts a LEFT JOIN transactional_groups g ON g.account_id = a.id AND g.name = %s WHERE a.id = %s
"""
LIST = """
SELECT l.id, l.name, l.system, l.allow_duplicates, f.id, f.key, f.name, f.type, f.options
FROM lists l LEFT JOIN list_fields f ON f.list_id = l.id WHERE l.account_id = %s AND l.id = %s
ORDER BY f.position, f.id
"""
SCOPES = {"standard": {"GET", "POST"}}

REQUESTS = Counter("floor_requests", "Requests.", ["method", "status"])
REQUEST_SECONDS = Histogram("floor_request_seconds", "Their time.")

access = logging.getLogger("floor.access")
access.setLevel(logging.INFO)
access.addHandler(logging.StreamHandler())
access.propagate = False
redis = Redis.from_url(from_environment().redis_url)


@application.before_request
def admit() -> None:
    """Checks key, scope and rate; for a send, also what it refers to."""
    g.request_id, g.started = uuid.uuid4().hex, time.perf_counter()
    token = request.headers.get("Authorization", "").removeprefix("Bearer ")
    hashed, list_id = hashlib.sha256(token.encode()).hexdigest(), (request.view_args or {}).get("list_id")
    statement, given = (KEY, (hashed,)) if list_id is None else (KEY_AND_LIST, (list_id, hashed))
    row = connection().execute(statement, given).fetchone()
    if row is None or request.method not in SCOPES[row[2]] or row[4]:
        abort(403)
    g.account_id = row[0]
    key = f"floor:rate:{row[1]}:{int(time.time() // SECONDS)}"
    g.used = int(redis.incr(key))
    if g.used == 1:
        redis.expire(key, SECONDS + 1)
    if request.endpoint == "send":
        _look_up()


def _look_up() -> None:
    body = orjson.loads(request.get_data())
    domain = body["from_address"].rpartition("@")[2]
    references = connection().execute(REFERENCES, (domain, body["group_name"], g.account_id)).fetchone()
    fields = connection().execute(LIST, (g.account_id, body["list_id"])).fetchall()
    if references is None or not references[0] or not references[-1] or not fields:
        abort(422)


@application.after_request
def record(response: Response) -> Response:
    """Adds headers, and writes metrics and log."""
    seconds = time.perf_counter() - g.started
    response.headers["X-Request-Id"] = g.request_id
    response.headers["RateLimit-Limit"] = str(LIMIT)
    response.headers["RateLimit-Remaining"] = str(LIMIT - g.used)
    response.headers["RateLimit-Reset"] = str(SECONDS)
    REQUESTS.labels(request.method, response.status_code).inc()
    REQUEST_SECONDS.observe(seconds)
    line = {
        "time": time.time(),
        "message": f"{request.method} {request.path} {response.status_code}",
        "request_id": g.request_id,
        "milliseconds": round(seconds * 1000, 1),
        "account_id": g.account_id,
    }
    access.info(orjson.dumps(line).decode())
    return response
