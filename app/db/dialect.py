"""Which of the two databases a session uses. Only `app/db` asks: everything outside gets statements that fit both."""

from __future__ import annotations

from sqlalchemy.orm import Session


def is_postgresql(session: Session) -> bool:
    return session.get_bind().dialect.name == "postgresql"
