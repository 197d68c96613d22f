"""How far a message has come on its route, within one delivery attempt."""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_NOTE = 2000


@dataclass(slots=True)
class RouteProgress:
    """The names of the transports that may still be tried, and what became of the message at those before."""

    upcoming: list[str]
    passed: list[str] = field(default_factory=list)

    def note(self, own: str | None) -> str | None:
        """The operator's note on the attempt: which transports did not take the message, and why."""
        notes = [*self.passed, *([own] if own else [])]
        return "; ".join(notes)[:MAX_NOTE] if notes else None
