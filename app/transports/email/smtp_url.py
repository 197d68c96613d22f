"""`smtp://` and `smtps://` URLs (docs/transports.md#smtp)."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote

from app.settings import is_loopback
from app.transports import urls
from app.transports.base import OutboundEmail, TransportUrlError

# Metadata by which the events of a relay name a mail: a header field that the relay removes
# (docs/transports.md#relay-metadata).
#
# Some relays replace the Message-ID and the return path, by which a mail is known otherwise. The field is not covered
# by our signatures, which stay valid when the relay removes it.

UUID_FIELD_NAME = "tmsuuid"
NO_FIELD = "none"
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Field = Callable[[str], str]
"""Makes the header field with the uuid."""

UUID_FIELDS: Mapping[str, Field] = {
    "mailgun": lambda uuid: f'X-Mailgun-Variables: {{"{UUID_FIELD_NAME}": "{uuid}"}}',
    "postmark": lambda uuid: f"X-PM-Metadata-{UUID_FIELD_NAME}: {uuid}",
    "sparkpost": lambda uuid: f'X-MSYS-API: {{"metadata": {{"{UUID_FIELD_NAME}": "{uuid}"}}}}',
}
PROVIDER_BY_HOST = {"mailgun.org": "mailgun", "postmarkapp.com": "postmark", "sparkpostmail.com": "sparkpost"}
"""Domain of a relay's host -> the provider."""


def provider_of_host(host: str) -> str:
    """The provider of a relay by its host; `none` for any other host."""
    domain = ".".join(host.lower().rstrip(".").split(".")[-2:])
    return PROVIDER_BY_HOST.get(domain, NO_FIELD)


def with_metadata(email: OutboundEmail, provider: str) -> OutboundEmail:
    """The mail with its uuid as metadata of the provider. A blind copy has none: its events are not the recipient's."""
    field = UUID_FIELDS.get(provider)
    if field is None or not _UUID.fullmatch(email.uuid):
        return email
    return email._replace(content=f"{field(email.uuid)}\r\n".encode() + email.content)


MAX_TIMEOUT = 600.0
MAX_MESSAGES = 1_000_000


class Tls(enum.Enum):
    """How a connection is encrypted."""

    OFFERED = "offered"
    """STARTTLS if the server offers it."""
    REQUIRE = "require"
    """STARTTLS is required, and the certificate is verified."""
    NONE = "none"
    """Plain text, even if STARTTLS is offered."""
    IMPLICIT = "implicit"
    """TLS from the first byte (`smtps://`), and the certificate is verified."""


@dataclass(frozen=True, slots=True)
class SmtpSettings:
    """One relay and its options. `timeout` is in seconds, for each step."""

    host: str
    port: int
    user: str | None
    password: str | None = field(repr=False)
    tls: Tls
    timeout: float
    messages: int
    provider: str = NO_FIELD
    """The provider whose metadata names a mail in the events of the relay."""

    @property
    def verifies(self) -> bool:
        """Whether the certificate is verified.

        Without credentials and without `tls=require` it is not, as between mail servers: encryption to an unverified
        server is better than none. A password is sent only to a verified server.
        """
        return self.user is not None or self.tls in (Tls.REQUIRE, Tls.IMPLICIT)

    @property
    def may_log_in_unencrypted(self) -> bool:
        """Whether the password may be sent unencrypted: if the operator allows it, or nothing leaves the machine."""
        return self.tls is Tls.NONE or is_loopback(self.host)


def parse_smtp_url(url: str) -> SmtpSettings:
    """Parses `smtp://user:password@host:port?tls=…&timeout=…&messages=…`; raises `TransportUrlError`."""
    parts = urls.split(url)
    _check_shape(parts)
    options = urls.options(parts, ("tls", "timeout", "messages", "provider"))
    user, password = _credentials(parts)
    host = _host(parts)
    return SmtpSettings(
        host=host,
        port=_port(parts, user),
        user=user,
        password=password,
        tls=_tls(parts, options.get("tls")),
        timeout=urls.number(parts, "timeout", options.get("timeout", "30"), (0.1, MAX_TIMEOUT)),
        messages=urls.number(parts, "messages", options.get("messages", "100"), (1, MAX_MESSAGES)),
        provider=_provider(parts, options.get("provider", provider_of_host(host))),
    )


def _check_shape(parts: SplitResult) -> None:
    if parts.path not in ("", "/") or parts.fragment:
        raise TransportUrlError(f"{urls.redacted(parts)}: nothing but options follows the host and port")


def _host(parts: SplitResult) -> str:
    host = parts.hostname or ""
    if "," in host:
        raise TransportUrlError(f"{urls.redacted(parts)}: several relays are several URLs, as in smtp://one,smtp://two")
    try:
        host.encode("idna")
    except UnicodeError:
        host = ""
    if not host:
        raise TransportUrlError(f"{urls.redacted(parts)}: a host is needed, as in smtp://mail.example.com:25")
    return host


def _port(parts: SplitResult, user: str | None) -> int:
    """Relays accept mail from other servers on port 25 and from authenticated clients on port 587 (RFC 6409)."""
    if parts.port == 0:
        raise TransportUrlError(f"{urls.redacted(parts)}: the port is a number from 1 to 65535")
    if parts.port:
        return parts.port
    if parts.scheme == "smtps":
        return 465
    return 587 if user else 25


def _credentials(parts: SplitResult) -> tuple[str | None, str | None]:
    if not parts.username and not parts.password:
        return None, None
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if not user or not password:
        raise TransportUrlError(
            f"{urls.redacted(parts)}: user and password go together, as in smtp://user:password@host"
        )
    if not (user + password).isascii():
        raise TransportUrlError(f"{urls.redacted(parts)}: user and password must be ASCII")
    return user, password


def _provider(parts: SplitResult, name: str) -> str:
    if name != NO_FIELD and name not in UUID_FIELDS:
        raise TransportUrlError(
            f"{urls.redacted(parts)}: provider is one of {', '.join(sorted(UUID_FIELDS))} or {NO_FIELD}"
        )
    return name


def _tls(parts: SplitResult, value: str | None) -> Tls:
    if value not in (None, "require", "none"):
        raise TransportUrlError(f"{urls.redacted(parts)}: tls is require or none")
    if parts.scheme == "smtps":
        if value == "none":
            raise TransportUrlError(
                f"{urls.redacted(parts)}: smtps:// is always encrypted; write smtp:// with tls=none"
            )
        return Tls.IMPLICIT
    return Tls(value) if value else Tls.OFFERED
