"""DKIM signatures with the keys of the sender's domain, each decrypted once. Pure; no database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

from app.infrastructure.secrets import decrypt
from app.recipients.reasons import Lacking
from app.secret_keys import SecretKeys
from app.settings import Settings
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


@dataclass(slots=True)
class SendingDomain:
    """What the domain of a sender has: its active DKIM keys, and its hosts; and what it lacks, or the domain of the
    blind copies. Threads share it."""

    keys: Sequence[StoredKey] = ()
    hosts: SenderHosts = NO_HOSTS
    lacking: Lacking | None = None
    _signers: Sequence[dkim.Signer] = field(default=(), init=False, compare=False)

    def signed(self, email: OutboundEmail, settings: Settings, moment: datetime) -> OutboundEmail:
        """The mail with a signature of each key. `moment` is the time of acceptance, like the Date header. What
        SECRET_KEY and its fallbacks are is read once, for the first mail.

        Raises `SecretUnreadable` for a key that was stored under another SECRET_KEY: mail that should be signed is not
        sent unsigned.
        """
        if not self.keys:
            return email
        if not self._signers:
            secret_keys = settings.secret_keys
            self._signers = [_signer(key, secret_keys) for key in self.keys]
        return email._replace(content=dkim.sign(email.content, self._signers, moment))


NO_DOMAIN = SendingDomain()


@lru_cache(maxsize=1024)
def _signer(key: StoredKey, secret_keys: SecretKeys) -> dkim.Signer:
    return dkim.open_signer(key.domain, key.selector, decrypt(secret_keys, key.private_key))
