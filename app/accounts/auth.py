"""Authentication and authorization: tokens, their lookup by hash, access levels and scopes, and when each key was last
used (docs/requests.md#keys-and-scopes)."""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import String, Update, bindparam, or_, select, update
from sqlalchemy.orm import Session

from app.clock import now
from app.db.bulk import BulkUpdate, RowValues
from app.db.database import Database
from app.db.models import Account, ApiKey, table_of
from app.db.prepared import PreparedStatement
from app.db.types import BigId, UtcDateTime
from app.errors import ServiceError
from app.network.addresses import IpAddress
from app.settings import Settings, is_loopback

TOKEN_PREFIX = "tms_"  # noqa: S105 - the recognisable start of every token, no secret
PUBLISHED_PREFIX = "tms_demo_"
"""The start of the demo's keys, which are public."""
HINT_LENGTH = 8

REPORT = ("report.view",)
LIMITED = (*REPORT, "message.view")
STANDARD = (
    *LIMITED,
    "list.view",
    "contact.view",
    "contact.create",
    "contact.update",
    "contact.delete",
    "send.email",
    "send.sms",
)
MANAGE = "manage"
"""The scope of what people set up: keys, webhooks, lists and so on. Keys of the level manager have it and nothing else,
so who reads a key that sends can neither make another one nor have events sent elsewhere. Sessions of the console have
it that a link of the command line began, and those of operators and managers who sign in by OpenID Connect."""
MANAGER = "manager"
"""The access level beside the order of the others (docs/management.md#keys)."""
SCOPES: dict[str, tuple[str, ...]] = {"report": REPORT, "limited": LIMITED, "standard": STANDARD, MANAGER: (MANAGE,)}
"""Access level -> its scopes; each level but the last includes the lower ones (docs/requests.md#keys-and-scopes)."""


def level_with(needed: Collection[str]) -> str:
    """The first access level that has one of the scopes, of which keys can have some."""
    return next(level for level, scopes in SCOPES.items() if {*needed} & {*scopes})


KEY_COLUMNS = (
    ApiKey.account_id,
    ApiKey.id.label("key_id"),
    ApiKey.name.label("key_name"),
    ApiKey.valid_until.label("key_valid_until"),
    ApiKey.access_level,
    ApiKey.creation_time.label("key_creation_time"),
    Account.allowed_networks,
    Account.rate_limit,
    Account.test_of.is_not(None).label("is_test"),
)
IS_THE_KEY = (
    ApiKey.token_hash == bindparam("token_hash", type_=String),
    ApiKey.revoked_time.is_(None),
    ApiKey.expiry_time.is_(None),
)
VALID_KEY = PreparedStatement(select(*KEY_COLUMNS).join(Account, Account.id == ApiKey.account_id).where(*IS_THE_KEY))


@dataclass(frozen=True, slots=True)
class Principal:
    """The key and the account behind a request."""

    account_id: int
    key_id: int
    key_name: str
    access_level: str
    key_creation_time: datetime
    allowed_networks: tuple[str, ...]
    rate_limit: str | None
    is_test: bool
    """Whether it is a test key (docs/testing.md)."""

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes of the key's access level."""
        return SCOPES[self.access_level]


def new_token() -> str:
    """A random token: the prefix and 256 bits."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    """The hash of a token, which is stored. A token has 256 random bits, so a fast hash without salt is enough."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def token_hint(token: str) -> str:
    """The start of a token, by which people distinguish keys."""
    return token[:HINT_LENGTH]


def bearer_token(header: str | None) -> str:
    """The token of an Authorization header. Raises `api_key_missing` or `api_key_invalid`."""
    if header is None or not header.strip():
        raise ServiceError("api_key_missing")
    scheme, _, token = header.strip().partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise ServiceError("api_key_invalid")
    return token.strip()


def refuse_published(token: str, settings: Settings, host: Callable[[], str]) -> None:
    """Raises `api_key_invalid` for a published key of the demo if other machines can reach the API, however the key
    came into the database and whatever started this process, and under each host but loopback ones: the DNS of another
    may lead to this machine, and a page of that host would be read by its scripts."""
    if token.startswith(PUBLISHED_PREFIX) and (settings.exposed or not is_loopback(host())):
        raise ServiceError("api_key_invalid")


def find_principal(session: Session, token: str) -> Principal:
    """The key with this token. Raises `api_key_invalid` for one that is unknown, revoked or has an expiry date, and for
    a former token whose overlap is over."""
    return principal_of(VALID_KEY.row(session, token_hash=hash_token(token)))


def principal_of(row: Any) -> Principal:
    """The key of a row with KEY_COLUMNS. Raises `api_key_invalid` if there is no row, or the overlap of a former token
    is over."""
    if row is None or (row.key_valid_until is not None and row.key_valid_until <= now()):
        raise ServiceError("api_key_invalid")
    return Principal(
        account_id=row.account_id,
        key_id=row.key_id,
        key_name=row.key_name,
        access_level=row.access_level,
        key_creation_time=row.key_creation_time,
        allowed_networks=tuple(row.allowed_networks),
        rate_limit=row.rate_limit,
        is_test=row.is_test,
    )


def check_allowed(allowed_networks: Sequence[str], address: IpAddress | None) -> None:
    """Checks that the client's address is in one of the networks of an account, of which there are some. Raises
    `ip_restricted`."""
    networks = (ipaddress.ip_network(text, strict=False) for text in allowed_networks)
    if address is None or not any(address in network for network in networks):
        raise ServiceError("ip_restricted")


SECONDS_BETWEEN_WRITES = 60.0
"""Seconds between two writes of when keys were used, by one process."""


class KeyUses:
    """The latest uses of keys in this process that are not written yet: noted in memory by each request, written once a
    minute.

    No request waits for it, and no two processes write the same row at once for long: the heartbeat's thread writes the
    notes of all keys in one statement, in a transaction of its own. A process that is killed loses its last minute.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._noted: dict[int, float] = {}
        self._lock = threading.Lock()
        self._due = time.monotonic() + SECONDS_BETWEEN_WRITES

    def note(self, key_id: int) -> None:
        """The key was used now."""
        moment = now().timestamp()
        with self._lock:
            self._noted[key_id] = moment

    def write_if_due(self, at_end: bool = False) -> None:
        """Called every few seconds, and once more when the process ends. Raises `SQLAlchemyError`."""
        if at_end or time.monotonic() >= self._due:
            self._due = time.monotonic() + SECONDS_BETWEEN_WRITES
            self.write()

    def write(self) -> None:
        """Writes what is noted; a later use that another process has written stays. Raises `SQLAlchemyError`, and keeps
        the notes."""
        with self._lock:
            noted, self._noted = self._noted, {}
        if not noted:
            return
        rows = [{"row": key_id, "used": datetime.fromtimestamp(noted[key_id], UTC)} for key_id in sorted(noted)]
        try:
            with self._database.write() as transaction:
                _UPDATE.run(transaction, rows)
        except BaseException:
            with self._lock:
                self._noted = noted | self._noted
            raise


def _update(values: RowValues) -> Update:
    keys = table_of(ApiKey)
    is_older = or_(keys.c.last_used_time.is_(None), keys.c.last_used_time < values["used"])
    return update(keys).where(keys.c.id == values["row"], is_older).values(last_used_time=values["used"])


_UPDATE = BulkUpdate({"row": BigId, "used": UtcDateTime()}, _update)
