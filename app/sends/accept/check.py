"""A send while its rules are checked: what was asked for, where to look, and what was found wrong so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import CursorResult, Executable

from app.db.database import Transaction
from app.errors import ErrorCollector
from app.sends.accept.content import Content
from app.sends.accept.draft import SendDraft
from app.sends.accept.references import SendReferences


@dataclass(frozen=True, slots=True)
class SendCheck:
    """One check of a send. Everything is looked at before anything is refused (docs/requests.md#errors)."""

    transaction: Transaction
    account_id: int
    draft: SendDraft
    content: Content
    references: SendReferences
    errors: ErrorCollector = field(default_factory=ErrorCollector)

    def rows(self, statement: Executable) -> CursorResult[*tuple[Any, ...]]:
        """What the database answers, as plain rows."""
        return self.transaction.connection().execute(statement)
