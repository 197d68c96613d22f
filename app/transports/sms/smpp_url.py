"""`smpp://` and `smpps://` URLs (docs/sms.md#gateways)."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote

from app.transports import urls
from app.transports.base import TransportUrlError

PORT, TLS_PORT = 2775, 3550
BINDS = ("transceiver", "transmitter")
OPTIONS = ("bind", "window", "system_type", "timeout", "enquire", "tls")


class Tls(enum.Enum):
    """How a connection is encrypted."""

    NONE = "none"
    VERIFIED = "verified"
    """TLS from the first byte, and the certificate must be right."""
    UNVERIFIED = "unverified"
    """TLS from the first byte, with whoever answers."""


@dataclass(frozen=True, slots=True)
class SmppSettings:
    """One gateway and how to speak with it.

    `window` is the number of messages that may wait for their answer; `timeout` is the seconds for each answer, and
    `enquire` those of silence after which the gateway is asked whether it is still there.
    """

    host: str
    port: int
    tls: Tls
    user: str
    password: str = field(repr=False)
    bind: str
    window: int
    system_type: str
    timeout: float
    enquire: float

    @property
    def name(self) -> str:
        """The gateway in logs."""
        return f"{self.host}:{self.port}"


def parse_smpp_url(url: str) -> SmppSettings:
    """Read `smpp://user:password@host:port?bind=…&window=…`, or `smpps://…`; raises `TransportUrlError`."""
    parts = urls.split(url)
    given = urls.options(parts, OPTIONS)
    if not parts.hostname or not parts.username or parts.path not in ("", "/"):
        raise TransportUrlError(f"{urls.shown(parts)}: written {parts.scheme}://user:password@host:{_port(parts)}")
    bind = given.get("bind", BINDS[0])
    if bind not in BINDS:
        raise TransportUrlError(f"{urls.shown(parts)}: bind is {' or '.join(BINDS)}")
    user, password = unquote(parts.username), unquote(parts.password or "")
    if len(user) > 15 or len(password) > 8 or not f"{user}{password}".isascii():
        limits = "the user has 15 characters at most and the password 8, all of them ASCII (SMPP 3.4)"
        raise TransportUrlError(f"{urls.shown(parts)}: {limits}")
    return SmppSettings(
        host=parts.hostname,
        port=parts.port or _port(parts),
        tls=_tls(parts, given.get("tls")),
        user=user,
        password=password,
        bind=bind,
        window=urls.number(parts, "window", given.get("window", "10"), (1, 1000)),
        system_type=given.get("system_type", "")[:12],
        timeout=urls.number(parts, "timeout", given.get("timeout", "10"), (0.1, 600.0)),
        enquire=urls.number(parts, "enquire", given.get("enquire", "30"), (0.1, 3600.0)),
    )


def _port(parts: SplitResult) -> int:
    """The ports that are registered for SMPP and for SMPP over TLS."""
    return TLS_PORT if parts.scheme == "smpps" else PORT


def _tls(parts: SplitResult, wish: str | None) -> Tls:
    if parts.scheme != "smpps":
        if wish is not None:
            raise TransportUrlError(f"{urls.shown(parts)}: smpp:// is never encrypted; write smpps:// for TLS")
        return Tls.NONE
    if wish not in (None, "unverified"):
        raise TransportUrlError(f"{urls.shown(parts)}: tls is unverified, or left out")
    return Tls.UNVERIFIED if wish else Tls.VERIFIED
