"""Accounts, their API keys, their sending domains and their sms senders."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, UniqueConstraint, false, true
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import (
    IMPERSONAL,
    AccountId,
    Base,
    BigInt,
    Confidential,
    Encrypted,
    Identity,
    Impersonal,
    Timestamps,
    partial_index,
)
from app.db.types import BigId, Json


class Account(Timestamps, Base):
    """A tenant. Nothing of one account is visible to another.

    A test account belongs to the account `test_of`: its keys are test keys, and what it sends is captured
    (docs/testing.md).
    """

    __tablename__ = "accounts"
    __table_args__: Any = (Index("ix_accounts_test_of", "test_of", unique=True), {"sqlite_autoincrement": True})

    id: Mapped[Identity]
    name: Mapped[Impersonal] = mapped_column(unique=True)
    owner_email: Mapped[Confidential | None]
    owner_confirmed: Mapped[bool] = mapped_column(default=False)
    allowed_networks: Mapped[list[Any]] = mapped_column(Json, default=list, info=IMPERSONAL)
    """CIDR blocks; empty: no restriction."""
    default_from_name: Mapped[Confidential | None]
    default_from_address: Mapped[Confidential | None]
    rate_limit: Mapped[Impersonal | None]
    """In the form of the setting RATE_LIMIT; null: the setting applies."""
    track_opens: Mapped[bool] = mapped_column(default=True, server_default=true())
    track_clicks: Mapped[bool] = mapped_column(default=True, server_default=true())
    """Whether opens and clicks of the account's emails are tracked."""
    machine_events: Mapped[bool] = mapped_column(default=False, server_default=false())
    """Whether opens and clicks by machines cause events, too (docs/tracking.md#machines)."""
    email_priority: Mapped[Impersonal] = mapped_column(default="normal", server_default="normal")
    sms_priority: Mapped[Impersonal] = mapped_column(default="normal", server_default="normal")
    """The priority of sends of the type that have none (docs/waiting.md#priority)."""
    brand_name: Mapped[Impersonal | None]
    brand_colour: Mapped[Impersonal | None]
    """On the pages that recipients see (docs/unsubscribing.md#pages-for-recipients); null: none."""
    time_zone: Mapped[Impersonal] = mapped_column(default="UTC", server_default="UTC")
    """The IANA name of the zone of times in personalisation and automations
    (docs/personalisation.md#time-zone)."""
    retain_content: Mapped[Impersonal | None]
    retain_recipients: Mapped[Impersonal | None]
    retain_captured: Mapped[Impersonal | None]
    retain_logs: Mapped[Impersonal | None]
    """Retention of the log of webhook deliveries."""
    retain_audit: Mapped[Impersonal | None]
    """Each in the form of the setting of its name; null: the setting applies."""
    has_digests: Mapped[bool] = mapped_column(default=False, server_default=false())
    """Whether any of its suppressions is kept under a digest (docs/privacy.md#what-is-kept): without one, looking
    suppressions up costs nothing more."""
    test_of: Mapped[int | None] = mapped_column(BigId)
    """No foreign key: SQLite would have to build the table anew. `accounts delete` deletes the test account, too."""


class ApiKey(Base):
    """A key, of which only the SHA-256 is stored (docs/requests.md#keys-and-scopes)."""

    __tablename__ = "api_keys"
    __table_args__ = (UniqueConstraint("account_id", "name"), {"sqlite_autoincrement": True})

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    name: Mapped[Impersonal]
    token_hash: Mapped[Confidential] = mapped_column(unique=True)
    token_hint: Mapped[Impersonal]
    """The first characters, to distinguish keys in a listing."""
    access_level: Mapped[Impersonal]
    creation_time: Mapped[datetime]
    expiry_time: Mapped[datetime | None]
    """A key with an expiry date is incompatible with this API, even before that date
    (docs/requests.md#keys-and-scopes)."""
    revoked_time: Mapped[datetime | None]
    last_used_time: Mapped[datetime | None]
    """To the minute (app/accounts/auth.py)."""
    former_name: Mapped[Impersonal | None]
    """The name that it had before another key got it, because this one was rotated or revoked."""
    list_id: Mapped[BigInt | None]
    """The list of mails that are submitted with the key and name none (docs/smtp-submission.md#list-and-group). No
    foreign key: SQLite would have to build the table anew."""
    valid_until: Mapped[datetime | None]
    """When the overlap of the rotation ends, for a former secret (docs/requests.md#rotating-a-key)."""


class Domain(Base):
    """A domain that the account may send from (docs/sending.md#senders)."""

    __tablename__ = "domains"
    __table_args__ = (UniqueConstraint("account_id", "name"), {"sqlite_autoincrement": True})

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    name: Mapped[Impersonal]
    """Lower-case, international domains in their ASCII form."""
    creation_time: Mapped[datetime]
    verified_time: Mapped[datetime | None]
    """Null until the domain counts as configured."""
    trusted: Mapped[bool] = mapped_column(default=False, server_default=false())
    """Configured by decision of the operator, whatever a lookup of its records finds."""
    tracking_host: Mapped[Impersonal | None]
    tracking_host_ready: Mapped[bool] = mapped_column(default=False, server_default=false())
    """Where links of its mails lead, and whether it is used: it is the account's, and its records are right or the
    domain is trusted (docs/deliverability.md#hosts-of-a-domain)."""
    return_path_host: Mapped[Impersonal | None]
    return_path_host_ready: Mapped[bool] = mapped_column(default=False, server_default=false())
    """The domain of the return path of its mails, likewise."""
    checked_time: Mapped[datetime | None]
    findings: Mapped[dict[str, Any] | None] = mapped_column(Json, info=IMPERSONAL)
    """Result of the last lookup: under `records`, the purpose, name, state and texts of each record."""


class AccountHost(Base):
    """A host that a sending domain of the account has or had: nobody else has it meanwhile, and links of the account's
    mails lead under it from then on (docs/deliverability.md#hosts-of-a-domain). Test accounts have none."""

    __tablename__ = "account_hosts"
    __table_args__: Any = (
        UniqueConstraint("account_id", "host"),
        Index("ix_account_hosts_host", "host"),
        partial_index("ix_account_hosts_held", "host", unique=True, where="released_time IS NULL"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    host: Mapped[Impersonal]
    proof: Mapped[Impersonal]
    """`domain`: it stands below a verified domain of the account; `operator`: the operator named it."""
    creation_time: Mapped[datetime]
    released_time: Mapped[datetime | None]
    """Since when no verified domain of the account has it any more."""


class DkimKey(Base):
    """A signing key of a domain; every active key of a domain signs each of its messages
    (docs/deliverability.md#rotating-keys)."""

    __tablename__ = "dkim_keys"
    __table_args__ = (UniqueConstraint("domain_id", "selector"), {"sqlite_autoincrement": True})

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    domain_id: Mapped[int] = mapped_column(BigId, ForeignKey("domains.id", ondelete="CASCADE"))
    selector: Mapped[Impersonal]
    algorithm: Mapped[Impersonal]
    """`rsa` or `ed25519`."""
    private_key: Mapped[Encrypted]
    public_key: Mapped[Impersonal]
    """Base64, as in the DNS record."""
    creation_time: Mapped[datetime]
    state: Mapped[Impersonal] = mapped_column(default="active", server_default="active")
    """`pending` until its record is published, `active`, or `retired`."""
    retired_time: Mapped[datetime | None]


class SmsSender(Base):
    """An approved sender of text messages; it may be assigned to one list (docs/sending.md#senders)."""

    __tablename__ = "sms_senders"
    __table_args__ = (UniqueConstraint("account_id", "address"), {"sqlite_autoincrement": True})

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    address: Mapped[Confidential]
    kind: Mapped[Impersonal]
    """`virtual_number`, `number` or `alphanumeric`."""
    list_id: Mapped[int | None] = mapped_column(BigId, ForeignKey("lists.id", ondelete="SET NULL"))
    messages_per_second: Mapped[float | None]
    """Rate at which the gateway accepts messages from this sender; null: unlimited."""
    note: Mapped[Impersonal | None]
    creation_time: Mapped[datetime]
