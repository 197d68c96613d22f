"""Work that waits for other machines, such as name servers, in threads of a worker: a job must not wait for them.

Each piece of work is under a lease while it is carried out. Whoever dies leaves the lease, and another process begins
the piece again when it has run out.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from sqlalchemy.exc import SQLAlchemyError

from app.db.outage import log_failure

Piece = TypeVar("Piece")

MAX_THREADS = 4
"""Pieces of one kind that a process carries out at the same time."""
LEASE_SECONDS = 60.0
"""Seconds; a piece has ended long before, since whatever it waits for has a deadline."""

logger = logging.getLogger(__name__)


class LeasedWork(Generic[Piece]):
    """The threads of one process for one kind of work. `claim` takes the next piece under a lease, None if nothing is
    due; `carry_out` raises nothing but `SQLAlchemyError`. `noun` is what the log calls a piece."""

    def __init__(
        self,
        noun: str,
        stopping: threading.Event,
        claim: Callable[[], Piece | None],
        carry_out: Callable[[Piece], None],
    ) -> None:
        self._noun, self._stopping = noun, stopping
        self._claim, self._carry_out = claim, carry_out
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begins what is due, as far as there are threads; these go on with the rest."""
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        while len(self._threads) < MAX_THREADS and (piece := self._claim()) is not None:
            thread = threading.Thread(target=self._run, args=(piece,), name=self._noun, daemon=True)
            thread.start()
            self._threads.append(thread)

    def wait(self) -> None:
        """Waits until no thread is running."""
        for thread in self._threads:
            thread.join()

    def _run(self, first: Piece) -> None:
        piece: Piece | None = first
        try:
            while piece is not None:
                self._carry_out(piece)
                piece = None if self._stopping.is_set() else self._claim()
        except SQLAlchemyError as error:
            log_failure(logger, f"a {self._noun} was interrupted, and begins again within a minute", error)
