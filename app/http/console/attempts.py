"""How often one client may try to sign in (docs/console.md#signing-in).

Keys and links have 256 random bits, so that nobody guesses one: the limit keeps attempts from loading the database.
"""

from __future__ import annotations

import ipaddress
import logging
import time

from redis.exceptions import RedisError

from app.errors import ServiceError
from app.http.context import client_address, services
from app.http.rate_limit import increment

MOST = 10
SECONDS = 60
NETWORK_BITS = 64
"""Of an IPv6 address: whoever has one has all of that network."""

logger = logging.getLogger(__name__)


def count_attempt() -> None:
    """Counts an attempt. Raises `too_many_requests`. Without Redis there is no limit: the console is needed then."""
    parts = services()
    if parts.redis_breaker.is_open:
        return
    moment = time.time()
    window = int(moment // SECONDS)
    try:
        used = increment(parts.redis, f"tms:console:{_client()}:{window}", SECONDS)
    except RedisError as error:
        parts.redis_breaker.open()
        logger.warning("attempts to sign in are not limited: Redis does not answer", extra={"error": str(error)})
        return
    if used > MOST:
        raise ServiceError("too_many_requests", retry_after=max(1, int((window + 1) * SECONDS - moment + 0.999)))


def _client() -> str:
    address = client_address()
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, NETWORK_BITS), strict=False))
    return str(address or "local")
