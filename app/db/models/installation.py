"""Tables about the installation itself: its processes, its schema, its keys, checks that wait, and how far
purging is.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, Index, SmallInteger, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import AUTOINCREMENT, AccountId, Base, BigInt, Encrypted, Identity, Impersonal
from app.db.types import BigId


class DigestKey(Base):
    """The key of the digests of forgotten addresses, which is made when the first suppressed one is forgotten
    (docs/privacy.md#what-is-kept), and those of the seals of the audit log (docs/audit.md#seals).

    They are random, and not derived from SECRET_KEY: that may be rotated, and what was digested is not there any more
    to be digested anew.
    """

    __tablename__ = "digest_key"
    __table_args__ = ()

    id: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    """1: that of forgotten addresses; from 2 on: those of seals, of which the last is in use."""
    key: Mapped[Encrypted]


class InstallationKey(Base):
    """The SECRET_KEY of the installation: that of its first process, and since then the one of the last rotation
    (docs/secrets.md#one-key-for-all-hosts). One row at most."""

    __tablename__ = "installation_key"
    __table_args__ = ()

    id: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    """Always 1."""
    fingerprint: Mapped[Impersonal]


class Remains(Base):
    """One row, from a removal until the maintenance has cleaned the files (docs/privacy.md#remains-in-files)."""

    __tablename__ = "remains"
    __table_args__ = ()

    id: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    """Always 1."""
    since_time: Mapped[datetime]
    """The time of the last removal."""


class SchemaState(Base):
    """Which code works with the schema (app/db/phases.py); one row, written with each migration."""

    __tablename__ = "schema_state"
    __table_args__ = ()

    id: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    """Always 1."""
    oldest_code: Mapped[Impersonal]
    """The oldest code that works with the schema."""
    code_in_use: Mapped[Impersonal]
    """The oldest code that processes may still run: contracting migrations wait for it."""


class RunningProcess(Base):
    """A process with its latest heartbeat (docs/monitoring/metrics.md#heartbeats)."""

    __tablename__ = "processes"
    __table_args__ = ()

    name: Mapped[Impersonal] = mapped_column(primary_key=True)
    """Host, process id, and the id of the boot with a random part."""
    roles: Mapped[Impersonal]
    """What it does, separated by commas."""
    host: Mapped[Impersonal]
    version: Mapped[Impersonal]
    start_time: Mapped[datetime]
    seen_time: Mapped[datetime]
    """When its main loop last turned."""
    secret_keys: Mapped[Impersonal | None]
    """Short fingerprints of the SECRET_KEYs that it knows, separated by commas; it signs with the first."""
    clock_difference: Mapped[float | None]
    """By how many seconds the clock of its host is ahead of the database's; None for SQLite."""


class NetworkCheck(Base):
    """A check that somebody has asked for, until its result is stored with what it is about."""

    __tablename__ = "network_checks"
    __table_args__ = (UniqueConstraint("account_id", "kind", "object_id"), AUTOINCREMENT)

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    kind: Mapped[Impersonal]
    """`domain` or `webhook`."""
    object_id: Mapped[int] = mapped_column(BigId)
    """The id of the domain or webhook. No foreign key: the check of one that was deleted finds nothing."""
    asked_by: Mapped[Impersonal]
    """Who asked for the check, as the audit log names its actors."""
    creation_time: Mapped[datetime]
    lease_time: Mapped[datetime | None]
    """Until when the process that has begun it may take; another one begins it again then."""


class PurgePosition(Base):
    """The account's sends up to this one have been looked at in a stage of purging: `content` or `recipients`."""

    __tablename__ = "purge_positions"
    __table_args__ = ()

    account_id: Mapped[int] = mapped_column(
        BigId, ForeignKey("accounts.id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    stage: Mapped[Impersonal] = mapped_column(primary_key=True)
    send_id: Mapped[BigInt] = mapped_column(default=0)
    """No foreign key: the send may be gone."""


class DelayedPurge(Base):
    """A send before the position that was not ready to be purged."""

    __tablename__ = "delayed_purges"
    __table_args__ = (Index("ix_delayed_purges_since", "account_id", "stage", "since"),)

    send_id: Mapped[int] = mapped_column(
        BigId, ForeignKey("sends.id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    stage: Mapped[Impersonal] = mapped_column(primary_key=True)
    account_id: Mapped[AccountId]
    since: Mapped[datetime]
    """When the send had its last outcome, or was found to have none: the retention counts from then at least."""
