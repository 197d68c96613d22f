"""Pages with a search, the query of which is in the address bar (docs/console.md#lists)."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from flask import Response, request

from app.accounts.exports import record_export
from app.console.overview import MOST, Day, live_accounts, only_account
from app.console.queries import IN_A_FILE, ON_A_PAGE, Asked, Found, Pairs, Sought, canonical, days_of, whole
from app.csv_files.reader import cell
from app.db.database import ReadSession, Transaction
from app.db.models import Account
from app.errors import ServiceError
from app.http.console.guard import chosen_account_id
from app.http.console.pages import goes_to, link, page, page_after
from app.http.context import services
from app.http.responses import query_pairs
from app.ids import existing
from app.names import LONGEST_NAME
from app.query.cursors import CURSOR

ACCOUNT_NAME = "account_name"
"""The parameter by which an operator finds an account to choose, by a part of its name."""


Find = Callable[[Asked], Found]
"""Reads what is asked for. Raises the errors of the query."""


def _as_it_is(item: Any) -> Mapping[str, Any]:
    return item  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A table with a search: its page, and the same rows as a file (docs/console.md#tables)."""

    path: str
    title: str
    template: str
    sought: Sought
    find: Find
    columns: Sequence[str]
    """Of the file."""
    row: Callable[[Any], Mapping[str, Any] | None] = _as_it_is
    """An item as a row of the file by these columns; None leaves it out."""
    known: Callable[[], Mapping[str, Any]] = dict
    """What the template shows beside the table, whatever is found."""
    shown: Callable[[Asked, Found], Mapping[str, Any]] = lambda _asked, _found: {}
    """What it shows of what is found, beside the items."""
    recorded: Callable[[int, int], None] = lambda _account_id, _rows: None
    """Records that so many rows of the account are handed out as a file."""
    time: str = "creation_time"
    """The filter by days."""
    file_path: str = ""
    """The path of the file, unless it is that of the page with `.csv`."""
    file_name: str = ""
    """What browsers store it as, unless that is the end of its path."""
    of_installation: bool = False
    """Whether no account is chosen."""

    def query(self) -> Pairs:
        """The query of the request."""
        return canonical(query_pairs(), self.sought, self.time)

    def page(self, error: ServiceError | None = None, **_parts: str) -> Response:
        """What matches the query, the newest first; operators choose an account, unless there is only one. After a
        refusal it says why, and its form what was sent."""
        with services().database.read() as session:
            if self.of_installation:
                return self.page_within(session, None, error)
            if named_account_id(session) is None:
                return choose_account(session, self.path, self.title)
            return self.page_within(session, account_of_request(session), error)

    def page_within(
        self, session: ReadSession, account: Account | None, error: ServiceError | None = None, **others: Any
    ) -> Response:
        """The same of an account that is known, as where the path names what is the account's. A form leads to its
        query."""
        pairs = self.query()
        if error is None and pairs != [one for one in query_pairs() if one[0] != "account"]:
            return goes_to(link(self.path, pairs))
        try:
            asked, found = self._found(session, account, pairs, ON_A_PAGE)
            shown: Mapping[str, Any] = {"items": found.items, **self.shown(asked, found)}
        except ServiceError as refused:
            error, found, shown = refused, Found((), None), {"items": ()}
        known = {"form": request.form, **self._of_query(pairs, found.older), **self.known(), **shown, **others}
        return page_after(error, self.template, account=account, **known)

    def file(self) -> Response:
        """The newest that match the query as a file."""
        with services().database.read() as session:
            account = None if self.of_installation else account_of_request(session)
            rows = self.rows(session, account)
        return self.file_of(rows, 0 if account is None else account.id)

    def rows(self, session: ReadSession, account: Account | None) -> Sequence[Sequence[Any]]:
        """The rows of the file."""
        found = self._found(session, account, self.query(), IN_A_FILE)[1]
        rows = (row for row in map(self.row, found.items) if row is not None)
        return [[row[name] for name in self.columns] for row in rows]

    def file_of(self, rows: Sequence[Sequence[Any]], account_id: int) -> Response:
        """The file of these rows, which is recorded."""
        self.recorded(account_id, len(rows))
        return csv_file(self.file_name or self._file_path.rpartition("/")[2], self.columns, rows)

    @property
    def _file_path(self) -> str:
        return self.file_path or f"{self.path}.csv"

    def _found(self, session: ReadSession, account: Account | None, pairs: Pairs, limit: int) -> tuple[Asked, Found]:
        asked = Asked(session, services().settings.secret_keys, account, pairs, limit)
        return asked, self.find(asked)

    def _of_query(self, pairs: Pairs, older: Pairs | None) -> dict[str, Any]:
        """The fields of the form, and the links below the table."""
        values = dict(pairs)
        return {
            "values": values,
            "days": days_of(values, self.time),
            "older": link(self.path, older) if older else None,
            "newest": link(self.path, whole(pairs)) if CURSOR in values else None,
            "all": link(self.path, []),
            "csv": link(self._file_path, pairs),
        }


def exported(action: str, noun: str) -> Callable[[int, int], None]:
    """Records such an act, with how many of them are handed out."""

    def record(account_id: int, rows: int) -> None:
        counts: dict[str, Any] = {noun: rows}
        record_export(services().database, action, account_id, **counts)

    return record


def choose_account(session: ReadSession, path: str, title: str) -> Response:
    """The page on which an operator says which account another page shows."""
    part = dict(query_pairs()).get(ACCOUNT_NAME, "").strip()[:LONGEST_NAME]
    accounts = live_accounts(session, part)
    return page(
        "choose_account.html", accounts=accounts, most=MOST, field=ACCOUNT_NAME, part=part, of=path, title=title
    )


def named_account_id(session: ReadSession | Transaction) -> int | None:
    """The id of the account that the request names, or of the only one; None where an operator has to choose."""
    chosen = chosen_account_id()
    return only_account(session) if chosen is None else chosen


def account_of_request(session: ReadSession | Transaction) -> Account:
    """The account that the request names, or the only one. Raises `not_found` where there is none."""
    account_id = named_account_id(session)
    return existing(None if account_id is None else session.get(Account, account_id), "account", account_id or 0)


# Tables of the console as CSV files (docs/console.md#tables).

Rows = Iterable[Sequence[Any]]


def csv_file(name: str, head: Sequence[str], rows: Rows) -> Response:
    """The rows as a file that the browser stores under the name; spreadsheets evaluate nothing in it. There are no more
    of them than a page of the API has."""
    return _attached(name, _text([head]) + _cells(rows))


def day_file(day: Day) -> Response:
    """The last hours in numbers: a row for each, the newest first."""
    rows = zip(day.hours, *(one.values for one in day.charts), strict=True)
    return csv_file("day.csv", ["hour", *(one.name for one in day.charts)], reversed([*rows]))


def table_file(name: str, columns: Sequence[str], items: Iterable[Mapping[str, Any]]) -> Response:
    """The items as such a file, with these of their values."""
    return csv_file(name, columns, ([item[column] for column in columns] for item in items))


def csv_stream(name: str, head: Sequence[str], parts: Iterable[Rows]) -> Response:
    """The same of rows that come part by part: each part is sent before the next one is read. `parts` keeps none that
    it has handed out, as a generator does: a browser may take its time."""
    return _attached(name, chain([_text([head])], map(_cells, parts)))


def _cells(rows: Rows) -> bytes:
    return _text([cell(value) for value in row] for row in rows)


def _text(rows: Rows) -> bytes:
    text = io.StringIO()
    # Quoted, so that a semicolon in a text does not start a new cell in locales where it is the separator.
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _attached(name: str, text: bytes | Iterator[bytes]) -> Response:
    disposition = f'attachment; filename="{name}"'
    return Response(text, content_type="text/csv; charset=utf-8", headers={"Content-Disposition": disposition})
