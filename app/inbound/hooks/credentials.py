"""Secrets that a relay repeats in each request, because it signs nothing. Pure."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Iterator
from typing import ClassVar, Self

from app.inbound.hooks.base import HookRefused, HookRequest
from app.settings import Settings

MAX_HEADER_LENGTH = 1000


class SecretHook:
    """A hook that knows requests by such a secret."""

    setting: ClassVar[str]
    """The attribute of the settings that has it."""

    def __init__(self, secret: str) -> None:
        self._secret = secret

    @classmethod
    def of(cls, settings: Settings) -> Self | None:
        """None without the setting."""
        secret: str = getattr(settings, cls.setting)
        return cls(secret) if secret else None

    def check(self, request: HookRequest) -> None:
        """Raises `HookRefused` for a request without the secret."""
        check_secret(request, self._secret)


def check_secret(request: HookRequest, expected: str) -> None:
    """Accepts the secret as the last segment of the path, as the password of basic authentication, or as a bearer
    token. Raises `HookRefused`."""
    if not any(hmac.compare_digest(expected.encode(), given.encode()) for given in _given(request)):
        raise HookRefused("it does not have the secret")


def _given(request: HookRequest) -> Iterator[str]:
    if request.secret:
        yield request.secret
    scheme, _, value = request.headers.get("authorization", "")[:MAX_HEADER_LENGTH].partition(" ")
    if scheme.lower() == "bearer":
        yield value.strip()
    elif scheme.lower() == "basic":
        yield _password(value)


def _password(value: str) -> str:
    """The password of basic authentication (RFC 7617), whatever the user is."""
    try:
        decoded = base64.b64decode(value.strip(), validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return ""
    return decoded.partition(":")[2]
