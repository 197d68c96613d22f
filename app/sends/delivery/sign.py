"""DKIM signatures with the keys of the sender's domain, each decrypted once. Pure; no database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from app.infrastructure.secrets import decrypt
from app.recipients.reasons import Lacking
from app.secret_keys import SecretKeys
from app.tracking.sender_hosts import NO_HOSTS, SenderHosts
from app.transports.base import OutboundEmail
from app.transports.email import dkim


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A DKIM key as the database stores it; the private key is encrypted."""

    id: int
    domain: str
    selector: str
    private_key: str = field(repr=False)


class SendingDomain(NamedTuple):
    """What the domain of a sender has: its active DKIM keys, and its hosts; and what it lacks, or the domain of the
    blind copies."""

    keys: Sequence[StoredKey] = ()
    hosts: SenderHosts = NO_HOSTS
    lacking: Lacking | None = None


NO_DOMAIN = SendingDomain()


def signed(email: OutboundEmail, keys: Sequence[StoredKey], secret_keys: SecretKeys, moment: datetime) -> OutboundEmail:
    """The mail with a signature of each key. `moment` is the time of acceptance, like the Date header.

    Raises `SecretUnreadable` for a key that was stored under another SECRET_KEY: mail that should be signed is not sent
    unsigned.
    """
    if not keys:
        return email
    signers = [_signer(key, secret_keys) for key in keys]
    return email._replace(content=dkim.sign(email.content, signers, moment))


@lru_cache(maxsize=1024)
def _signer(key: StoredKey, secret_keys: SecretKeys) -> dkim.Signer:
    return dkim.open_signer(key.domain, key.selector, decrypt(secret_keys, key.private_key))
