"""Threads that cannot start."""

from __future__ import annotations

import threading


def without_memory(_thread: threading.Thread) -> None:
    """In place of `Thread.start`: what it does where the process gets no further memory or thread."""
    raise RuntimeError("can't start new thread")
