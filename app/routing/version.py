"""The version of the transports and routes: another one after each change, so that workers know when to read them
again, and none at all while an installation has neither."""

from __future__ import annotations

import uuid
from typing import Any

from sqlalchemy import delete, or_, select
from sqlalchemy.orm import Session

from app.db.database import Transaction
from app.db.models import Route, RoutingVersion, Transport
from app.db.upsert import upsert

ROW = 1

VERSION: Any = select(RoutingVersion.version).where(RoutingVersion.id == ROW).scalar_subquery()
"""The version as part of another statement, where it costs no round trip."""


def current_version(session: Session) -> str | None:
    """The version; None while there is nothing."""
    return session.scalar(select(RoutingVersion.version).where(RoutingVersion.id == ROW))


def renew_version(transaction: Transaction) -> None:
    """Called in the transaction of every change."""
    transaction.flush()
    is_any = select(or_(select(Transport.id).exists(), select(Route.id).exists()))
    if transaction.scalar(is_any):
        row = {"id": ROW, "version": str(uuid.uuid4())}
        transaction.execute(upsert(transaction, RoutingVersion, row, index=["id"], update=_with_version(row)))
    else:
        transaction.execute(delete(RoutingVersion))


def _with_version(row: dict[str, Any]) -> Any:
    return lambda _: {"version": row["version"]}
