"""The key of the digests under which suppressions of forgotten addresses are kept (docs/privacy.md#what-is-kept).

It is random and stored encrypted, like other secrets: SECRET_KEY may be rotated, and the addresses are not there any
more to make their digests anew.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from functools import partial

from app.addresses import NormalizedAddress
from app.infrastructure.address_digest import address_digest
from app.infrastructure.secrets import SecretUnreadable, decrypt, encrypt
from app.settings import Settings

logger = logging.getLogger(__name__)


def new_digest_key(secret_key: str) -> str:
    """A random key, as it is stored."""
    return encrypt(secret_key, secrets.token_urlsafe(32))


def open_digest_key(settings: Settings, stored: str) -> Callable[[NormalizedAddress], str] | None:
    """The function that makes digests. None for a key that was stored under another SECRET_KEY: the service goes on
    without these suppressions, and says so."""
    try:
        return partial(address_digest, decrypt(settings.secret_keys, stored))
    except SecretUnreadable as error:
        logger.error("suppressions of forgotten addresses do not apply: %s", error)
        return None
