"""What the provider of OpenID Connect is to be asked now. Apart from what asks it: the scheduler only looks."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement, exists, select
from sqlalchemy.orm import Session

from app.clock import now
from app.db.models import ConsoleSession, ConsoleSignIn
from app.settings import Settings


def has_due(session: Session, settings: Settings) -> bool:
    """Whether there is anything."""
    if not settings.oidc_issuer:
        return False
    moment = now()
    return any(session.scalar(select(exists().where(*due))) for due in (due_attempts(moment), due_checks(moment)))


def due_attempts(moment: datetime) -> tuple[ColumnElement[bool], ...]:
    """Attempts to sign in that wait for a worker."""
    return ConsoleSignIn.due_time <= moment, ConsoleSignIn.end_time > moment


def due_checks(moment: datetime) -> tuple[ColumnElement[bool], ...]:
    """Sessions of people whose roles are to be checked."""
    return ConsoleSession.check_time <= moment, ConsoleSession.end_time > moment
