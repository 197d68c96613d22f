"""Progress of long commands: a bar with the rate, on a terminal only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import repeat

import click

Advance = Callable[[int], None]


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Advance]:
    """Shows on standard error how much of the total is done; what it yields is called with the size of each step.
    Without a total the bar only moves."""
    began, done = time.monotonic(), 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        rate = done / max(time.monotonic() - began, 0.001)
        bar.update(count, f"{rate:,.0f}/s")

    with click.progressbar(
        repeat("") if total is None else None,
        length=total,
        label=label,
        file=sys.stderr,
        hidden=not sys.stderr.isatty(),
        show_pos=True,
        item_show_func=lambda rate: rate,
    ) as bar:
        yield advance


# Progress of a command that works in several parts: a bar for each, one after the other.

Begin = Callable[[str, int], Advance]


@contextmanager
def parts_of() -> Iterator[Begin]:
    """A function that begins a part, with its name and its total, and ends the one before."""
    with ExitStack() as bars:

        def begin(label: str, total: int) -> Advance:
            bars.close()
            return bars.enter_context(progress(label, total))

        yield begin
