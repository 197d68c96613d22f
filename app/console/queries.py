"""Queries of the console's lists: what a form asks for, in the query language, and the page with what is older
(docs/console.md#searching)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.orm import Session

from app.addresses import normalize_address
from app.ids import id_in
from app.query.conditions import Query
from app.query.cursors import CURSOR, CursorScope, Position
from app.query.fields import Resource
from app.query.grammar import parse_collection
from app.query.reader import Page
from app.secret_keys import SecretKeys

Pairs = list[tuple[str, str]]
TextFilter = Callable[[str], tuple[str, str]]
"""The filter of a text that somebody looks for."""

PAGE_ROWS = 50
FILE_ROWS = 1000
DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
DAYS = re.compile(rf"({DAY.pattern})\.\.({DAY.pattern})")
"""The range of days that the form of a search makes."""
FIRST_DAY, LAST_DAY = "2000-01-01", "2100-01-01"
SHAPING_PARAMETERS = ("limit", "offset", "fields", "expand", "_tz", "account")
"""Parameters of the API that say how a page looks, which is for the console to say."""
INSTALLATION_ID = 0
"""Stands in cursors for an account where the whole installation is searched."""
NUMBER_SEPARATORS = {ord(character): None for character in "+ -./()"}
"""What people write before and between the digits of a number, which is stored without it."""


def canonical_query(pairs: Pairs, text_filter: TextFilter, time: str) -> Pairs:
    """The query of a form in the query language: without empty fields, with the text to find as a filter, and with its
    days as a range of the filter `time`."""
    given = {name: value.strip() for name, value in pairs}
    kept = [(name, value) for name, value in pairs if value and name not in ("find", "from", "to", *SHAPING_PARAMETERS)]
    if text := given.get("find"):
        kept.append(text_filter(text))
    first, last = given.get("from", ""), given.get("to", "")
    if first or last:
        kept.append((f"{time}:in", f"{first or FIRST_DAY}..{last or LAST_DAY}"))
    return kept


def days_of(values: Mapping[str, str], time: str) -> tuple[str, str]:
    """The days of such a query, for its form."""
    days = DAYS.fullmatch(values.get(f"{time}:in", ""))
    return (days[1], days[2]) if days else ("", "")


def address_filter(text: str) -> tuple[str, str]:
    """The filter of an email address, or of a number as people write it."""
    if "@" in text:
        return "email", text
    return "mobile", normalize_address("mobile", text.translate(NUMBER_SEPARATORS)).key


def without_cursor(pairs: Pairs) -> Pairs:
    """The query from its first page on."""
    return [pair for pair in pairs if pair[0] != CURSOR]


def name_filter(text: str) -> tuple[str, str]:
    """The filter of an id, or of a whole name."""
    return ("name", text) if id_in(text) is None else ("id", text)


def older_query(cursors: CursorScope | None, pairs: Pairs, position: Position | None) -> Pairs | None:
    """The query of the page that begins at the position; None without one, or without cursors."""
    if cursors is None or position is None:
        return None
    filters = [pair for pair in pairs if pair[0] not in ("offset", CURSOR)]
    return [*filters, (CURSOR, cursors.make(position, filters))]


@dataclass(frozen=True, slots=True)
class SearchPage:
    """What a query finds: the items of a table, the rows that they were made from, and the query of what is older, if
    there is more."""

    items: Sequence[Any]
    older: Pairs | None
    rows: Sequence[Any] = ()


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """What a page or a file asks for: what matches the query, in the account, or in the installation for None, so many
    at most."""

    session: Session
    secret_keys: SecretKeys
    account: Any
    pairs: Pairs
    limit: int

    @property
    def account_id(self) -> int:
        """The id of the account."""
        return INSTALLATION_ID if self.account is None else int(self.account.id)

    def query(self, path: str, resource: Resource) -> Query:
        """The query of the page with that path. A resource with a filter of the name `cursor` has no cursors. Raises
        the errors of the query."""
        cursors = CursorScope(self.secret_keys, self.account_id, path).at(path, resource)
        is_test = self.account is not None and self.account.test_of is not None
        return replace(parse_collection(self.pairs, resource, cursors, is_test=is_test), limit=self.limit)

    def read_page(self, path: str, resource: Resource, read: Callable[[Session, int, Query], Page]) -> SearchPage:
        """What `read` finds for that query, the newest first."""
        query = self.query(path, resource)
        page = read(self.session, self.account_id, query)
        position = page.ends.next if page.ends.has_next else None
        return SearchPage(page.items, older_query(query.cursors, self.pairs, position), page.rows)
