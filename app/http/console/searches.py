"""Pages with a search, the query of which is in the address bar (docs/console.md#searching)."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from flask import Response, request

from app.accounts.exports import record_export
from app.console.overview import MAX_ROWS, Day, live_accounts, only_account
from app.console.queries import (
    FILE_ROWS,
    PAGE_ROWS,
    Pairs,
    SearchPage,
    SearchRequest,
    TextFilter,
    canonical_query,
    days_of,
    without_cursor,
)
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


Find = Callable[[SearchRequest], SearchPage]
"""Reads what is search_request for. Raises the errors of the query."""


def _unchanged(item: Any) -> Mapping[str, Any]:
    return item  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A table with a search: its page, and the same rows as a file (docs/console.md#searching)."""

    path: str
    title: str
    template: str
    text_filter: TextFilter
    find: Find
    columns: Sequence[str]
    """The columns of the file."""
    row: Callable[[Any], Mapping[str, Any] | None] = _unchanged
    """An item as a row of the file by these columns; None leaves it out."""
    context: Callable[[], Mapping[str, Any]] = dict
    """What the template shows beside the table, whatever is found."""
    page_context: Callable[[SearchRequest, SearchPage], Mapping[str, Any]] = lambda _search_request, _search_page: {}
    """What the template shows of what is found, beside the items."""
    record_file: Callable[[int, int], None] = lambda _account_id, _rows: None
    """Records that so many rows of the account are handed out as a file."""
    time: str = "creation_time"
    """The filter by days."""
    file_path: str = ""
    """The path of the file, unless it is that of the page with `.csv`."""
    file_name: str = ""
    """The name under which browsers store the file, unless that is the end of its path."""
    is_installation_wide: bool = False
    """Whether no account is chosen."""

    def query(self) -> Pairs:
        """The query of the request."""
        return canonical_query(query_pairs(), self.text_filter, self.time)

    def page(self, error: ServiceError | None = None, **_parts: str) -> Response:
        """What matches the query, the newest first; operators choose an account, unless there is only one. After a
        refusal it says why, and its form what was sent."""
        with services().database.read() as session:
            if self.is_installation_wide:
                return self.page_within(session, None, error)
            if named_account_id(session) is None:
                return choose_account(session, self.path, self.title)
            return self.page_within(session, account_of_request(session), error)

    def page_within(
        self, session: ReadSession, account: Account | None, error: ServiceError | None = None, **others: Any
    ) -> Response:
        """The page for an account that is known, as where the path names what belongs to the account. A form leads to
        its query."""
        pairs = self.query()
        if error is None and pairs != [pair for pair in query_pairs() if pair[0] != "account"]:
            return goes_to(link(self.path, pairs))
        try:
            search_request, search_page = self._search(session, account, pairs, PAGE_ROWS)
            page_values: Mapping[str, Any] = {
                "items": search_page.items,
                **self.page_context(search_request, search_page),
            }
        except ServiceError as refused:
            error, search_page, page_values = refused, SearchPage((), None), {"items": ()}
        template_values = {
            "form": request.form,
            **self._query_context(pairs, search_page.older),
            **self.context(),
            **page_values,
            **others,
        }
        return page_after(error, self.template, account=account, **template_values)

    def file(self) -> Response:
        """The newest that match the query as a file."""
        with services().database.read() as session:
            account = None if self.is_installation_wide else account_of_request(session)
            rows = self.rows(session, account)
        return self.file_of(rows, 0 if account is None else account.id)

    def rows(self, session: ReadSession, account: Account | None) -> Sequence[Sequence[Any]]:
        """The rows of the file."""
        search_page = self._search(session, account, self.query(), FILE_ROWS)[1]
        rows = (row for row in map(self.row, search_page.items) if row is not None)
        return [[row[name] for name in self.columns] for row in rows]

    def file_of(self, rows: Sequence[Sequence[Any]], account_id: int) -> Response:
        """The file of these rows, which is recorded."""
        self.record_file(account_id, len(rows))
        return csv_file(self.file_name or self._file_path.rpartition("/")[2], self.columns, rows)

    @property
    def _file_path(self) -> str:
        return self.file_path or f"{self.path}.csv"

    def _search(
        self, session: ReadSession, account: Account | None, pairs: Pairs, limit: int
    ) -> tuple[SearchRequest, SearchPage]:
        search_request = SearchRequest(session, services().settings.secret_keys, account, pairs, limit)
        return search_request, self.find(search_request)

    def _query_context(self, pairs: Pairs, older: Pairs | None) -> dict[str, Any]:
        """The fields of the form, and the links below the table."""
        values = dict(pairs)
        return {
            "values": values,
            "days": days_of(values, self.time),
            "older": link(self.path, older) if older else None,
            "newest": link(self.path, without_cursor(pairs)) if CURSOR in values else None,
            "all": link(self.path, []),
            "csv": link(self._file_path, pairs),
        }


def export_recorder(action: str, noun: str) -> Callable[[int, int], None]:
    """A function that records the export of a file: the action, and how many rows were handed out."""

    def record(account_id: int, rows: int) -> None:
        counts: dict[str, Any] = {noun: rows}
        record_export(services().database, action, account_id, **counts)

    return record


def choose_account(session: ReadSession, path: str, title: str) -> Response:
    """The page on which an operator says which account another page shows."""
    part = dict(query_pairs()).get(ACCOUNT_NAME, "").strip()[:LONGEST_NAME]
    accounts = live_accounts(session, part)
    return page(
        "choose_account.html", accounts=accounts, most=MAX_ROWS, field=ACCOUNT_NAME, part=part, of=path, title=title
    )


def named_account_id(session: ReadSession | Transaction) -> int | None:
    """The id of the account that the request names, or of the only one; None where an operator has to choose."""
    chosen = chosen_account_id()
    return only_account(session) if chosen is None else chosen


def account_of_request(session: ReadSession | Transaction) -> Account:
    """The account that the request names, or the only one. Raises `not_found` where there is none."""
    account_id = named_account_id(session)
    return existing(None if account_id is None else session.get(Account, account_id), "account", account_id or 0)


# Tables of the console as CSV files (docs/console.md#searching).

Rows = Iterable[Sequence[Any]]


def csv_file(name: str, head: Sequence[str], rows: Rows) -> Response:
    """The rows as a file that the browser stores under the name; spreadsheets evaluate nothing in it. There are no more
    of them than a page of the API has."""
    return _attachment(name, _text([head]) + _cells(rows))


def day_file(day: Day) -> Response:
    """The last hours in numbers: a row for each, the newest first."""
    rows = zip(day.hours, *(chart.values for chart in day.charts), strict=True)
    return csv_file("day.csv", ["hour", *(chart.name for chart in day.charts)], reversed([*rows]))


def table_file(name: str, columns: Sequence[str], items: Iterable[Mapping[str, Any]]) -> Response:
    """The items as a CSV file, with the values of these columns."""
    return csv_file(name, columns, ([item[column] for column in columns] for item in items))


def csv_stream(name: str, head: Sequence[str], parts: Iterable[Rows]) -> Response:
    """A CSV file of rows that come part by part: each part is sent before the next one is read. `parts` keeps none that
    it has handed out, as a generator does: a browser may take its time."""
    return _attachment(name, chain([_text([head])], map(_cells, parts)))


def _cells(rows: Rows) -> bytes:
    return _text([cell(value) for value in row] for row in rows)


def _text(rows: Rows) -> bytes:
    text = io.StringIO()
    # Quoted, so that a semicolon in a text does not start a new cell in locales where it is the separator.
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _attachment(name: str, text: bytes | Iterator[bytes]) -> Response:
    disposition = f'attachment; filename="{name}"'
    return Response(text, content_type="text/csv; charset=utf-8", headers={"Content-Disposition": disposition})
