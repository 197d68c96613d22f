"""Trying webhooks out and sending events again in the console, as the command line does (docs/console.md#webhooks)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.orm import Session

from app.db.database import Transaction
from app.db.lookup import find_by_name_or_id
from app.db.models import List, Webhook
from app.errors import ServiceError
from app.events.redeliver import replay_since
from app.query.times import instant_span


def lists_named(session: Session, account_id: int, text: str) -> Sequence[int] | None:
    """The ids of the lists of which each line has a name or an id; None for no line. Raises `invalid_id`."""
    names = [line.strip() for line in text.splitlines() if line.strip()]
    return [find_by_name_or_id(session, List, account_id, name, "list").id for name in names] or None


def time_of(text: str) -> datetime:
    """The time of a form, in UTC. Raises `invalid_iso_date_time`."""
    seconds = ":00" if text.count(":") == 1 else ""
    try:
        return instant_span(f"{text}{seconds}", None)[0]
    except ValueError:
        detail = f"{text!r} is no time such as 2026-01-31T10:00, and no date."
        raise ServiceError("invalid_iso_date_time", field="since", detail=detail) from None


def replay_webhook(transaction: Transaction, webhook: Webhook, since: datetime) -> None:
    """Sends it again what it was sent since then, as far as events are kept. Raises `conflict` if nothing was."""
    if not replay_since(transaction, webhook, since):
        raise ServiceError("conflict", field="since", detail="Nothing that is still kept was sent to it since then.")
