"""The answers that the dispatchers of a drain collect together."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from app.sends.delivery.passed_on import PassedOn
from app.sends.outcomes.attempt_result import AttemptResult

STALL_TIMEOUT = 0.05
"""Seconds without any answer after which a quick connection counts as slow."""

GATHER_TIME = 0.01
"""Seconds in which more answers arrive while many messages are queued: waking up for each of them would take the
processor from the thread that sends."""

Answer = AttemptResult | PassedOn


class Answering(Protocol):
    """A dispatcher, whose length is the number of messages in flight."""

    def __len__(self) -> int: ...

    def queued(self) -> int:
        """Number of recipients that no thread has taken yet."""
        ...

    def forget(self, answers: Sequence[Answer]) -> None:
        """The recipients of these answers are not in flight any more."""
        ...

    def assist(self) -> None:
        """Starts one more thread."""
        ...


@dataclass(slots=True)
class Answers:
    """What the dispatchers of a drain have in common."""

    received: queue.SimpleQueue[Answer] = field(default_factory=queue.SimpleQueue)
    lock: threading.Lock = field(default_factory=threading.Lock)
    dispatchers: list[Answering] = field(default_factory=list)
    building_large: bool = False
    """Whether a thread builds a large message."""

    def collect(self, seconds: float) -> list[Answer]:
        """The answers so far; waits at most that long for the first one, and not at all if nothing is in flight."""
        if not any(self.dispatchers):
            return []
        answers: list[Answer] = []
        with contextlib.suppress(queue.Empty):
            answers.append(self.received.get(timeout=min(seconds, STALL_TIMEOUT)))
            if any(dispatcher.queued() for dispatcher in self.dispatchers):
                time.sleep(GATHER_TIME)
            while True:
                answers.append(self.received.get_nowait())
        for dispatcher in self.dispatchers:
            if answers:
                dispatcher.forget(answers)
            else:
                dispatcher.assist()
        return answers
