"""Metadata by which the events of a relay name a mail: a header field that the relay removes
(docs/transports.md#relay-metadata).

Some relays replace the Message-ID and the return path, by which a mail is known otherwise. The field is not covered by
our signatures, which stay valid when the relay removes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from app.transports.base import OutboundEmail

NAME = "tmsuuid"
NONE = "none"
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Field = Callable[[str], str]
"""Makes the header field with the uuid."""

FIELDS: Mapping[str, Field] = {
    "mailgun": lambda uuid: f'X-Mailgun-Variables: {{"{NAME}": "{uuid}"}}',
    "postmark": lambda uuid: f"X-PM-Metadata-{NAME}: {uuid}",
    "sparkpost": lambda uuid: f'X-MSYS-API: {{"metadata": {{"{NAME}": "{uuid}"}}}}',
}
HOSTS = {"mailgun.org": "mailgun", "postmarkapp.com": "postmark", "sparkpostmail.com": "sparkpost"}
"""Domain of a relay's host -> the provider."""


def provider_of_host(host: str) -> str:
    """The provider of a relay by its host; `none` for any other host."""
    domain = ".".join(host.lower().rstrip(".").split(".")[-2:])
    return HOSTS.get(domain, NONE)


def with_metadata(email: OutboundEmail, provider: str) -> OutboundEmail:
    """The mail with its uuid as metadata of the provider. A blind copy has none: its events are not the recipient's."""
    field = FIELDS.get(provider)
    if field is None or not _UUID.fullmatch(email.uuid):
        return email
    return email._replace(content=f"{field(email.uuid)}\r\n".encode() + email.content)
