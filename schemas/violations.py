"""Violations as marshmallow messages, so that they are located and ordered like all other errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from marshmallow.exceptions import SCHEMA

from app.sends.accept.draft import Violation
from schemas.base import Problem

Messages = dict[str | int, Any]


def add_violations(messages: Messages, violations: Iterable[Violation]) -> None:
    """Adds the violations to nested messages; an attribute may have errors of its parts and of its own."""
    for path, code, detail, follows in violations:
        inner: Any = messages
        for key in path[:-1]:
            inner = inner.setdefault(key, {})
        problems = inner.setdefault(path[-1], [])
        if isinstance(problems, dict):
            problems = problems.setdefault(SCHEMA, [])
        problems.append(Problem(code, detail, follows=follows))
