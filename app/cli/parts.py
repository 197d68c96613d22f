"""Progress of a command that works in several parts: a bar for each, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from app.cli.progress import Advance, progress

Begin = Callable[[str, int], Advance]


@contextmanager
def parts_of() -> Iterator[Begin]:
    """A function that begins a part, with its name and its total, and ends the one before."""
    with ExitStack() as shown:

        def begin(label: str, total: int) -> Advance:
            shown.close()
            return shown.enter_context(progress(label, total))

        yield begin
