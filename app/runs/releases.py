"""What a resumption or a deletion has left to do with the runs of automations, in chunks of one automation after the
other, between which a worker advances what is due: a large automation holds up neither a small one nor other accounts.

The automation says what is left (`Automation.release`), so that an interruption loses nothing: the scheduler finds it.
"""

from __future__ import annotations

import logging
from functools import partial

from sqlalchemy import select

from app.db.models import Automation
from app.db.write_turns import WriteTurns
from app.runs.delete import Position, end_chunk
from app.runs.pause import release_chunk
from app.services import Services

logger = logging.getLogger(__name__)


class RunReleases:
    """The automations of which something is left, as one process remembers them."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._turns = WriteTurns(services.database, sleep=services.stopping.wait)
        self._queue: list[tuple[int, str]] = []
        """Id and `release` of automations, the next one first."""
        self._last = 0
        self._positions: dict[int, Position] = {}
        """Id of a deleted automation -> the last of its runs that has been looked at."""

    @property
    def has_left(self) -> bool:
        """Whether there may be more."""
        return bool(self._queue)

    def look(self) -> None:
        """Finds all such automations: those after the last one that had a turn come first."""
        pending = select(Automation.id, Automation.release).where(Automation.release.is_not(None))
        with self._services.database.read() as session:
            rows = session.execute(pending).all()
        self._queue = sorted(((row.id, row.release) for row in rows), key=lambda row: (row[0] <= self._last, row[0]))
        self._positions = {id_: self._positions[id_] for id_, _ in self._queue if id_ in self._positions}

    def take_turn(self) -> bool:
        """Takes a chunk of the next automation; returns whether all its held runs have been let go. One that fails or
        that others have locked is left until the next look."""
        automation_id, release = self._queue.pop(0)
        self._last, size = automation_id, self._turns.size
        try:
            if release == "end":
                last = self._positions.get(automation_id)
                chunk = partial(end_chunk, automation_id=automation_id, last=last, size=size)
                is_left, last = self._turns.take(size, chunk)
                if last is not None:
                    self._positions[automation_id] = last
            else:
                is_left = self._turns.take(size, partial(release_chunk, automation_id=automation_id, size=size))
        except Exception:
            logger.exception("cannot release or end the runs of an automation", extra={"automation": automation_id})
            return False
        if is_left:
            self._queue.append((automation_id, release))
        return not is_left and release != "end"
