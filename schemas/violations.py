"""Broken rules of the domain as marshmallow messages, so that they are located and ordered like all other errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from marshmallow.exceptions import SCHEMA

from app.sends.accept.rules import Violation
from schemas.base import Problem

Messages = dict[str | int, Any]


def add_violations(messages: Messages, violations: Iterable[Violation]) -> None:
    """Adds the broken rules to nested messages; an attribute may be wrong in its parts and as a whole."""
    for path, code, detail, follows in violations:
        inner: Any = messages
        for key in path[:-1]:
            inner = inner.setdefault(key, {})
        found = inner.setdefault(path[-1], [])
        if isinstance(found, dict):
            found = found.setdefault(SCHEMA, [])
        found.append(Problem(code, detail, follows=follows))
