"""Named transports, the accounts that may name them, the routes that choose them (docs/routes.md), and what relays
refuse."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, PrimaryKeyConstraint, SmallInteger
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import (
    IMPERSONAL,
    AccountId,
    Base,
    BigInt,
    Encrypted,
    Identity,
    Impersonal,
    Timestamps,
    partial_index,
)
from app.db.types import BigId, Json


class Transport(Timestamps, Base):
    """A transport of the installation with a name, beside the two in the settings."""

    __tablename__ = "transports"

    id: Mapped[Identity]
    name: Mapped[Impersonal] = mapped_column(unique=True)
    type: Mapped[Impersonal]
    """`email` or `sms`."""
    url: Mapped[Encrypted]
    """The URL with its password."""
    enabled: Mapped[bool]
    connections: Mapped[int | None]
    """Connections of one worker; null: as the setting SEND_CONNECTIONS says."""
    messages_per_second: Mapped[float | None]
    """The limit of all workers together; null: no limit."""
    any_account: Mapped[bool]
    """Whether the sends of every account may name it."""


class TransportAccount(Base):
    """An account whose sends may name a transport."""

    __tablename__ = "transport_accounts"
    __table_args__ = (PrimaryKeyConstraint("transport_id", "account_id"),)

    transport_id: Mapped[int] = mapped_column(BigId, ForeignKey("transports.id", ondelete="CASCADE"))
    account_id: Mapped[AccountId]


class Route(Timestamps, Base):
    """A rule for the messages of one type: those that meet all its conditions go over its transports. A condition that
    is null or empty is met by every message."""

    __tablename__ = "routes"

    id: Mapped[Identity]
    name: Mapped[Impersonal] = mapped_column(unique=True)
    type: Mapped[Impersonal]
    position: Mapped[int]
    """From 1; of the routes of its type that a message meets, the first is taken."""
    account_id: Mapped[int | None] = mapped_column(BigId, ForeignKey("accounts.id", ondelete="CASCADE"))
    sender_domain: Mapped[Impersonal | None]
    priority: Mapped[Impersonal | None]
    country_prefixes: Mapped[list[Any]] = mapped_column(Json, info=IMPERSONAL)
    transports: Mapped[list[Any]] = mapped_column(Json, info=IMPERSONAL)
    """Names, in the order in which they are tried."""


class RoutingVersion(Base):
    """The version of all transports and routes, by which workers notice a change; no row while there are none."""

    __tablename__ = "routing_version"
    __table_args__ = ()

    id: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    """Always 1."""
    version: Mapped[Impersonal]
    """Another random text after each change."""


IS_OPEN = "ended_time IS NULL"


class RelayRefusal(Base):
    """What a transport has refused of an account's emails, for reasons that lie in no mailbox, since it last accepted
    one (docs/retries.md#a-relay-that-refuses-everything).

    From `noticed_time` on it counts as a relay that refuses everything: no attempt but one starts before `until_time`.
    The next email that is accepted sets `ended_time`, or deletes a row of which nobody took notice.
    """

    __tablename__ = "relay_refusals"
    __table_args__ = (
        partial_index("ix_relay_refusals_open", "account_id", "transport", unique=True, where=IS_OPEN),
        Index("ix_relay_refusals_last_time", "last_time"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    transport: Mapped[Impersonal]
    """The name of the transport; `default` for the one in the settings."""
    domains: Mapped[dict[str, str]] = mapped_column(Json, info=IMPERSONAL)
    """The domains of the latest recipients, with the times of their refusals."""
    reply: Mapped[Impersonal]
    """The transport's answer, without the address of the recipient."""
    first_time: Mapped[datetime]
    last_time: Mapped[datetime]
    """The time of the last refusal."""
    noticed_time: Mapped[datetime | None]
    until_time: Mapped[datetime | None]
    bounced: Mapped[int]
    """Messages that it has refused before it was noticed, and that have bounced by that."""
    failures: Mapped[int]
    """Tries that were refused since it was noticed."""
    probe_id: Mapped[BigInt | None]
    """The recipient of the latest try. No foreign key: it may be deleted."""
    ended_time: Mapped[datetime | None]
