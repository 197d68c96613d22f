"""Counts SQL statements, for the rule that a request issues a fixed number of them."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, event


@dataclass(frozen=True)
class SentStatement:
    """A statement as the driver received it."""

    statement: str
    parameters: Any


class StatementCounter:
    """Counts the statements that are sent to an engine inside a `with` block; a statement for many rows counts once.
    Those of other threads count only with `all_threads`: they may come from an earlier test, like the statements that
    release claims once a request has failed."""

    def __init__(self, engine: Engine, all_threads: bool = False) -> None:
        self._engine = engine
        self._thread = None if all_threads else threading.get_ident()
        self.sent: list[SentStatement] = []

    @property
    def statements(self) -> list[str]:
        """The texts of the statements."""
        return [statement.statement for statement in self.sent]

    @property
    def count(self) -> int:
        """The number of statements."""
        return len(self.sent)

    def __enter__(self) -> StatementCounter:
        event.listen(self._engine, "before_cursor_execute", self._note)
        return self

    def __exit__(self, *_: object) -> None:
        event.remove(self._engine, "before_cursor_execute", self._note)

    def _note(self, connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if self._thread in (None, threading.get_ident()):
            self.sent.append(SentStatement(statement, parameters))
