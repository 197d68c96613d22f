"""What an account sends from one of its senders or domains (docs/console.md#questions)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from app.clock import timestamp
from app.db.models import Domain, Message, Send, SmsSender

MAX_SENDS, MAX_MESSAGES = 1000, 5000
"""The newest sends and stored messages that are looked at."""
Matches = Callable[[Any], ColumnElement[bool]]
"""The condition that a column with an address is about what is looked for."""


def uses_of_sender(session: Session, sender: SmsSender) -> Sequence[str]:
    """What the sender is used for, in sentences: one statement."""
    return _uses(session, sender.account_id, lambda column: column == sender.address)


def uses_of_domain(session: Session, domain: Domain) -> Sequence[str]:
    """What the domain is used for, in sentences: one statement."""
    end = f"@{domain.name}"
    return _uses(session, domain.account_id, lambda column: func.lower(column).endswith(end, autoescape=True))


def _uses(session: Session, account_id: int, matches: Matches) -> Sequence[str]:
    sends = select(Send.from_address, Send.creation_time).where(Send.account_id == account_id)
    newest = sends.order_by(Send.id.desc()).limit(MAX_SENDS).subquery()
    last_time = select(func.max(newest.c.creation_time)).where(matches(newest.c.from_address))
    messages = select(Message.from_address).where(Message.account_id == account_id)
    latest = messages.order_by(Message.creation_time.desc(), Message.id.desc()).limit(MAX_MESSAGES).subquery()
    number = select(func.count()).select_from(latest).where(matches(latest.c.from_address))
    last, stored = session.execute(select(last_time.scalar_subquery(), number.scalar_subquery())).one()
    return [
        f"None of the latest {MAX_SENDS:,} sends is from it."
        if last is None
        else f"Its last message was accepted at {timestamp(last)}.",
        *([f"{stored:,} stored {'message has' if stored == 1 else 'messages have'} it as sender."] if stored else []),
    ]
