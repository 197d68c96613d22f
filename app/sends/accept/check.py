"""The state of a send while its rules are checked: the draft, what it refers to, and the errors so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import CursorResult, Executable
from sqlalchemy.orm import Session

from app.errors import ErrorCollector
from app.sends.accept.content import Content
from app.sends.accept.draft import SendDraft
from app.sends.accept.references import SendReferences


@dataclass(frozen=True, slots=True)
class SendCheck:
    """The state that the checks of a send share. All rules are checked before the send is refused
    (docs/requests.md#errors)."""

    session: Session
    account_id: int
    draft: SendDraft
    content: Content
    references: SendReferences
    errors: ErrorCollector = field(default_factory=ErrorCollector)

    def rows(self, statement: Executable) -> CursorResult[*tuple[Any, ...]]:
        """The result of a statement, without the ORM."""
        return self.session.connection().execute(statement)
