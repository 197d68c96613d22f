"""Texts that contain one of some words, for tables in which no index finds them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement, collate, false, func, or_
from sqlalchemy.orm import Session

from app.db.dialect import is_postgresql


def contains_any(session: Session, text: Any, words: Collection[str], *, fold: bool = True) -> ColumnElement[bool]:
    """The condition that the text has one of the words, which are ASCII. With `fold` they are lower case, and the case
    of the text makes no difference: of other letters SQLite knows no case, and PostgreSQL takes three times as long
    with them."""
    if is_postgresql(session):
        text = collate(text, "C")
        position = func.strpos
    else:
        position = func.instr
    searched = func.lower(text) if fold else text
    return or_(false(), *(position(searched, word) > 0 for word in words))
