"""Workers that end as SIGKILL would end them, at a statement of the test's choice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import Engine, event


class SimulatedKill(BaseException):
    """Ends the worker: nothing that it would do afterwards happens."""


@contextmanager
def killed_at(engine: Engine, number: int) -> Iterator[None]:
    """Kills the worker at its statement of that number, and lets the database end its transaction."""
    sent = 0

    def count(*_: Any) -> None:
        nonlocal sent
        sent += 1
        if sent == number:
            raise SimulatedKill

    event.listen(engine, "before_cursor_execute", count)
    try:
        with suppress(SimulatedKill):
            yield
    finally:
        event.remove(engine, "before_cursor_execute", count)
