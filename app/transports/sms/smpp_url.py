"""`smpp://` and `smpps://` URLs (docs/sms.md#gateways)."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote

from app.transports import urls
from app.transports.base import TransportUrlError

PORT, TLS_PORT = 2775, 3550
BINDS = ("transceiver", "transmitter")
OPTIONS = ("bind", "binds", "window", "system_type", "timeout", "enquire", "tls")


class Tls(enum.Enum):
    """How a connection is encrypted."""

    NONE = "none"
    VERIFIED = "verified"
    """TLS from the first byte, and the certificate is verified."""
    UNVERIFIED = "unverified"
    """TLS from the first byte, without verifying the certificate."""


@dataclass(frozen=True, slots=True)
class SmppSettings:
    """One gateway and its options.

    `binds` is the number of binds that all processes may have together, None for no limit; `window` is the number of
    messages that may wait for their response; `timeout` is the seconds for each response, and `enquire` the idle
    seconds after which an `enquire_link` is sent.
    """

    host: str
    port: int
    tls: Tls
    user: str
    password: str = field(repr=False)
    bind: str
    binds: int | None
    window: int
    system_type: str
    timeout: float
    enquire: float

    @property
    def name(self) -> str:
        """The gateway's name in logs."""
        return f"{self.host}:{self.port}"


def parse_smpp_url(url: str) -> SmppSettings:
    """Parses `smpp://user:password@host:port?bind=…&window=…`, or `smpps://…`; raises `TransportUrlError`."""
    parts = urls.split(url)
    options = urls.options(parts, OPTIONS)
    if not parts.hostname or not parts.username or parts.path not in ("", "/"):
        raise TransportUrlError(f"{urls.redacted(parts)}: written {parts.scheme}://user:password@host:{_port(parts)}")
    bind = options.get("bind", BINDS[0])
    if bind not in BINDS:
        raise TransportUrlError(f"{urls.redacted(parts)}: bind is {' or '.join(BINDS)}")
    user, password = unquote(parts.username), unquote(parts.password or "")
    if len(user) > 15 or len(password) > 8 or not f"{user}{password}".isascii():
        limits = "the user has 15 characters at most and the password 8, all of them ASCII (SMPP 3.4)"
        raise TransportUrlError(f"{urls.redacted(parts)}: {limits}")
    return SmppSettings(
        host=parts.hostname,
        port=parts.port or _port(parts),
        tls=_tls(parts, options.get("tls")),
        user=user,
        password=password,
        bind=bind,
        binds=urls.number(parts, "binds", options["binds"], (1, 1000)) if "binds" in options else None,
        window=urls.number(parts, "window", options.get("window", "10"), (1, 1000)),
        system_type=options.get("system_type", "")[:12],
        timeout=urls.number(parts, "timeout", options.get("timeout", "10"), (0.1, 600.0)),
        enquire=urls.number(parts, "enquire", options.get("enquire", "30"), (0.1, 3600.0)),
    )


def _port(parts: SplitResult) -> int:
    """The registered ports of SMPP and of SMPP over TLS."""
    return TLS_PORT if parts.scheme == "smpps" else PORT


def _tls(parts: SplitResult, value: str | None) -> Tls:
    if parts.scheme != "smpps":
        if value is not None:
            raise TransportUrlError(f"{urls.redacted(parts)}: smpp:// is never encrypted; write smpps:// for TLS")
        return Tls.NONE
    if value not in (None, "unverified"):
        raise TransportUrlError(f"{urls.redacted(parts)}: tls is unverified, or left out")
    return Tls.UNVERIFIED if value else Tls.VERIFIED
