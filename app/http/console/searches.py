"""Pages with a search, the query of which is in the address bar (docs/console.md#lists)."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any
from urllib.parse import quote, urlencode

from flask import Response

from app.console.installation import live_accounts, only_account
from app.console.overview import MOST
from app.console.queries import Pairs, Sought, canonical, days_of
from app.csv_files.reader import cell
from app.db.database import ReadSession, Transaction
from app.db.models import Account
from app.errors import CATALOGUE, ServiceError
from app.http.console.guard import chosen_account_id, signed_in
from app.http.console.pages import goes_to, page
from app.http.context import services
from app.http.responses import query_pairs
from app.ids import existing
from app.names import LONGEST_NAME
from app.query.cursors import CURSOR

ACCOUNT_NAME = "account_name"
"""The parameter by which an operator finds an account to choose, by a part of its name."""


@dataclass(frozen=True, slots=True)
class Search:
    """A page with a search. `read` gets the account, or None on a page of the installation; it returns what the
    template shows beside the form, and the query of the page with what is older, and raises the errors of the query.
    `time` is the filter by days."""

    path: str
    title: str
    template: str
    sought: Sought
    read: Callable[[ReadSession, Any, Pairs], tuple[Mapping[str, Any], Pairs | None]]
    nothing: Mapping[str, Any]
    """What the template shows of a query that is refused."""
    time: str = "creation_time"
    file: str | None = None
    """The path of the same as a file, unless it is that of the page with `.csv`."""

    def query(self) -> Pairs:
        """The query of the request."""
        return canonical(query_pairs(), self.sought, self.time)


def search_page(search: Search, status: int = 200, refused: Sequence[str] = (), **others: Any) -> Response:
    """The page of an account. Operators choose one, unless there is only one. `refused` says why a change on it was,
    and then `status` is that of the refusal."""
    with services().database.read() as session:
        account_id = named_account_id(session)
        if account_id is None:
            return choose_account(session, search.path, search.title)
        account = existing(session.get(Account, account_id), "account", account_id)
        return search_within(search, session, account, status, refused, **others)


def search_within(
    search: Search,
    session: ReadSession,
    account: Account,
    status: int = 200,
    refused: Sequence[str] = (),
    **others: Any,
) -> Response:
    """The page of an account that is known, as where the path names what is the account's."""
    if not refused and _is_form(search):
        return goes_to(link(search.path, search.query()))
    return _answer(search, session, account, status=status, refused=refused, **others)


def installation_search_page(search: Search, **others: Any) -> Response:
    """The page of the whole installation."""
    if _is_form(search):
        return goes_to(link(search.path, search.query()))
    with services().database.read() as session:
        return _answer(search, session, None, **others)


def _is_form(search: Search) -> bool:
    """Whether the request is that of a form, which leads to its query."""
    return search.query() != [one for one in query_pairs() if one[0] != "account"]


def _answer(
    search: Search,
    session: ReadSession,
    account: Account | None,
    *,
    status: int = 200,
    refused: Sequence[str] = (),
    **others: Any,
) -> Response:
    pairs = search.query()
    try:
        shown, older = search.read(session, account, pairs)
    except ServiceError as error:
        shown, older, refused = search.nothing, None, [one.developer_message for one in error.errors]
        status = CATALOGUE[error.code].status
    known = {**of_query(search, pairs, older), **shown, **others}
    return page(search.template, status, account=account, refused=refused, **known)


def of_query(search: Search, pairs: Pairs, older: Pairs | None) -> dict[str, Any]:
    """The fields of the form, and the links below the table."""
    values = dict(pairs)
    return {
        "values": values,
        "days": days_of(values, search.time),
        "older": link(search.path, older) if older else None,
        "newest": link(search.path, [one for one in pairs if one[0] != CURSOR]) if CURSOR in values else None,
        "all": link(search.path, []),
        "csv": link(search.file or f"{search.path}.csv", pairs),
        "link": link,
    }


def choose_account(session: ReadSession, path: str, title: str) -> Response:
    """The page on which an operator says which account another page shows."""
    part = dict(query_pairs()).get(ACCOUNT_NAME, "").strip()[:LONGEST_NAME]
    accounts = live_accounts(session, part)
    return page(
        "choose_account.html", accounts=accounts, most=MOST, field=ACCOUNT_NAME, part=part, of=path, title=title
    )


def named_account_id(session: ReadSession | Transaction) -> int | None:
    """The id of the account that the request names, or of the only one; None where an operator has to choose."""
    return chosen_account_id() or only_account(session)


def account_of_request(session: ReadSession | Transaction) -> Account:
    """The account that the request names, or the only one. Raises `not_found` where there is none."""
    account_id = named_account_id(session)
    return existing(None if account_id is None else session.get(Account, account_id), "account", account_id or 0)


def link(path: str, pairs: Pairs | None = None, account_id: int | None = None) -> str:
    """The path with the query, for operators with an account: that of the request, unless another one is given."""
    chosen = (account_id or chosen_account_id()) if signed_in().is_operator else None
    named = [*(pairs or []), *([("account", str(chosen))] if chosen is not None else [])]
    return f"{path}?{urlencode(named, quote_via=quote, safe=':,', errors='replace')}" if named else path


# Tables of the console as CSV files (docs/console.md#tables).

Rows = Iterable[Sequence[Any]]


def csv_file(name: str, head: Sequence[str], rows: Rows) -> Response:
    """The rows as a file that the browser stores under the name; spreadsheets evaluate nothing in it. There are no more
    of them than a page of the API has."""
    return _attached(name, _text([head]) + _cells(rows))


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
