"""Broken rules of the domain as marshmallow messages, so that they are located and ordered like all other errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from app.sends.rules import Broken
from schemas.base import Problem

Messages = dict[str | int, Any]


def note(messages: Messages, broken: Iterable[Broken]) -> None:
    """Adds the broken rules to nested messages. A path that ends inside one that is wrong as a whole is left out."""
    for path, code, detail in broken:
        inner: Any = messages
        for key in path[:-1]:
            inner = inner.setdefault(key, {})
        inner.setdefault(path[-1], []).append(Problem(code, detail))
