"""Who is signed in to the console (docs/console.md#sessions)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, UniqueConstraint, false
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import (
    AUTOINCREMENT,
    IMPERSONAL,
    Base,
    Confidential,
    Encrypted,
    Identity,
    Impersonal,
    Timestamps,
)
from app.db.types import BigId, Json


class ConsoleLink(Base):
    """A link that signs in once. It is deleted when it is used; only the SHA-256 of its token is stored."""

    __tablename__ = "console_links"
    __table_args__ = (Index("ix_console_links_end_time", "end_time"), AUTOINCREMENT)

    id: Mapped[Identity]
    token_hash: Mapped[Confidential] = mapped_column(unique=True)
    account_id: Mapped[int | None] = mapped_column(BigId, ForeignKey("accounts.id", ondelete="CASCADE"))
    """Null: it signs in an operator, who sees all accounts."""
    made_by: Mapped[Impersonal]
    """The operating system's user who made it, as in the audit log."""
    end_time: Mapped[datetime]
    emergency: Mapped[bool] = mapped_column(default=False, server_default=false())
    """Whether it signs in an operator although people sign in by their provider alone (OIDC_ONLY)."""


class ConsolePerson(Timestamps, Base):
    """Somebody who has signed in by OpenID Connect (docs/sign-in.md). Issuer and subject say who it is. What else is
    here is as the provider said last. Other tables and the audit log have only the id, so that nobody knows who it was
    once the row is deleted."""

    __tablename__ = "console_people"
    __table_args__ = (UniqueConstraint("issuer", "subject"), AUTOINCREMENT)

    id: Mapped[Identity]
    issuer: Mapped[Impersonal]
    subject: Mapped[Confidential]
    name: Mapped[Impersonal | None]
    email: Mapped[Confidential | None]
    grants: Mapped[list[Any]] = mapped_column(Json, info=IMPERSONAL)
    """Pairs of a role and the id of the account in which the person has it, null for all accounts."""


class ConsoleSignIn(Base):
    """An attempt to sign in by OpenID Connect, from the button to the session: a browser waits for it while a worker
    asks the provider."""

    __tablename__ = "console_sign_ins"
    __table_args__ = (
        Index("ix_console_sign_ins_due_time", "due_time"),
        Index("ix_console_sign_ins_end_time", "end_time"),
        AUTOINCREMENT,
    )

    id: Mapped[Identity]
    token_hash: Mapped[Confidential] = mapped_column(unique=True)
    """The SHA-256 of the cookie of the browser that has begun it."""
    state: Mapped[Impersonal]
    """`begun`, `ready` for the provider, `answered` by it, `accepted`, or `refused`."""
    secret: Mapped[Encrypted]
    """What the next step needs, such as the code of the provider."""
    wanted_path: Mapped[Impersonal]
    reason: Mapped[Impersonal | None]
    """Why it was refused, for the person."""
    person_id: Mapped[int | None] = mapped_column(BigId, ForeignKey("console_people.id", ondelete="CASCADE"))
    due_time: Mapped[datetime | None]
    """Since when a worker may go on with it; null while the browser or the provider has to."""
    end_time: Mapped[datetime]


class ConsoleSession(Base):
    """A browser that is signed in by a key, a link or OpenID Connect. Only the SHA-256 of its token is stored."""

    __tablename__ = "console_sessions"
    __table_args__ = (
        Index("ix_console_sessions_end_time", "end_time"),
        Index("ix_console_sessions_key_id", "key_id"),
        Index("ix_console_sessions_person_id", "person_id"),
        Index("ix_console_sessions_check_time", "check_time"),
        AUTOINCREMENT,
    )

    id: Mapped[Identity]
    token_hash: Mapped[Confidential] = mapped_column(unique=True)
    account_id: Mapped[int | None] = mapped_column(BigId, ForeignKey("accounts.id", ondelete="CASCADE"))
    """Null: an operator's, who sees all accounts."""
    key_id: Mapped[int | None] = mapped_column(BigId, ForeignKey("api_keys.id", ondelete="CASCADE"))
    """The key that signed in; null: a link did, or the provider of OpenID Connect."""
    name: Mapped[Impersonal]
    """The name of the key, of the user who made the link, or `person` with the number of who signed in."""
    creation_time: Mapped[datetime]
    end_time: Mapped[datetime]
    person_id: Mapped[int | None] = mapped_column(BigId)
    """Who has signed in by OpenID Connect. No foreign key: SQLite adds none to a table."""
    role: Mapped[Impersonal | None]
    """`operator`, `manager` or `reader`, as the provider said; `operator` also after a link for emergencies. Null after
    a key or another link."""
    refresh_token: Mapped[Encrypted | None]
    """With which the provider is asked whether the person still has the role."""
    check_time: Mapped[datetime | None]
    """When it is asked next; null without a refresh token."""
