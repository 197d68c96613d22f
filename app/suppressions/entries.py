"""Reading suppressions: pages of both tables together, the newest first, those of some addresses, and one entry.

Unsubscribed and blocked addresses are two tables. A page is read from each in the order of its index, and the two are
merged, so that it costs the same however many there are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

from sqlalchemy import BigInteger, Select, and_, column, false, literal, or_, select, union_all
from sqlalchemy.orm import Session

from app.addresses import NormalizedAddress, address_forms
from app.db.address_forms import PREFIX
from app.db.index_hints import planned_for_values
from app.db.models import List, Unsubscriber
from app.errors import ServiceError
from app.ids import BIGGEST, shown_id
from app.query import compile as compiled
from app.query.conditions import MAX_LIMIT, Equals, FilterCondition, Query
from app.query.cursors import Position
from app.query.times import beyond
from app.suppressions.filters import MODELS, SUPPRESSIONS, columns_of, is_listed, matching, states_of
from app.suppressions.states import BLOCKED, STATES, UNSUBSCRIBED

COLUMNS: dict[str, Any] = {name: column(name, expression.type) for name, expression in columns_of(BLOCKED).items()}
"""The columns of merged entries."""
ORDER = (COLUMNS["creation_time"], COLUMNS["rank"], COLUMNS["id"])
"""Their order: entries of one time are in the order of the states, then of their ids."""


@dataclass(frozen=True, slots=True)
class Suppression:
    """An entry: `address` is None for a forgotten person, and `stored_list_id` and `list_name` are for one of all
    lists; `reason` and `reply` are those of a block, and `uuid` is that of the message that caused it."""

    state: str
    id: int
    kind: str
    address: str | None
    creation_time: datetime
    stored_list_id: int | None
    reason: str | None
    reply: str | None
    uuid: str | None
    list_name: str | None

    @property
    def list_id(self) -> int | None:
        """The id of the list as everybody outside sees it."""
        return shown_id(self.stored_list_id)

    @property
    def position(self) -> Position:
        """The end of a page whose last entry this is."""
        return Position((self.creation_time, STATES.index(self.state), self.id))


def _select_entries(columns: Mapping[str, Any]) -> Select[Any]:
    """Selects what a `Suppression` has."""
    names = ("state", "id", "kind", "address", "creation_time", "list_id", "reason", "reply", "uuid")
    list_name = select(List.name).where(List.id == columns["list_id"]).scalar_subquery()
    return select(*(columns[name] for name in names), list_name)


def _suppression(row: Any) -> Suppression:
    state, entry_id, kind, address, *others = row
    return Suppression(state, entry_id, kind, None if address.startswith(PREFIX) else address, *others)


# Pages of both tables.


def select_page(
    session: Session, account_id: int, query: Query, entries: Select[Any], *, with_forgotten: bool = False
) -> Select[Any]:
    """Selects the page of the query and one row more, as `app.query.compile.page` does. `entries` selects some of
    `COLUMNS`. To be used inside `planned_for_values`."""
    position, offset = query.position, 0 if query.position else query.offset
    if position is not None:
        moment = cast("datetime", position.item[0])
        conditions = beyond(query.conditions, "creation_time", moment, ascending=position.backward)
        query = replace(query, conditions=conditions)
    parts: list[Select[Any]] = []
    for state in states_of(query) or STATES[:1]:
        model = MODELS[state]
        columns = (expression.label(name) for name, expression in columns_of(state).items())
        entries_of_state: Select[Any] = select(*columns).where(
            *_conditions(session, account_id, state, query, with_forgotten=with_forgotten)
        )
        part_query = replace(query, offset=0, position=_position_in(state, position))
        part = compiled.page(entries_of_state, part_query, (model.creation_time.expression, model.id.expression))
        # With 64 bits, like every offset.
        length = literal(offset + query.limit + 1, BigInteger())
        parts.append(select(*part.limit(length).subquery().c))
    merged = (union_all(*parts) if len(parts) > 1 else parts[0]).subquery("suppressions")
    is_ascending = position is not None and position.backward
    directed = (order.asc() if is_ascending else order.desc() for order in ORDER)
    page = entries.select_from(merged).order_by(*directed).limit(query.limit + 1)
    return page.offset(literal(offset, BigInteger())) if offset else page


def _conditions(
    session: Session, account_id: int, state: str, query: Query, *, with_forgotten: bool = False, counts: bool = False
) -> list[Any]:
    in_account = is_listed(state, account_id)
    if state not in states_of(query):
        return [in_account[0], false()]
    conditions = matching(session, account_id, state, query, counts=counts)
    return [*(in_account[:1] if with_forgotten else in_account), *conditions]


def _position_in(state: str, position: Position | None) -> Position | None:
    """The position among the entries with that state alone, whose order has no rank."""
    if position is None:
        return None
    time, rank, entry_id = position.item
    ranks_above = STATES.index(state) - cast("int", rank)
    if ranks_above:
        entry_id = 0 if ranks_above > 0 else BIGGEST
    return replace(position, item=(time, entry_id))


def read_entries(
    session: Session, account_id: int, query: Query, *, with_forgotten: bool = False
) -> tuple[Sequence[Suppression], bool]:
    """The entries of a page, and whether there are more."""
    with planned_for_values(session):
        page = select_page(session, account_id, query, _select_entries(COLUMNS), with_forgotten=with_forgotten)
        entries = [_suppression(row) for row in session.execute(page)]
    return compiled.split_page(entries, query)


def read_all(
    session: Session, account_id: int, query: Query, *, with_forgotten: bool = False
) -> Iterator[Sequence[Suppression]]:
    """All entries that match, page by page."""
    query, has_more = replace(query, limit=MAX_LIMIT), True
    while has_more:
        entries, has_more = read_entries(session, account_id, query, with_forgotten=with_forgotten)
        yield entries
        if entries:
            query = replace(query, position=entries[-1].position)


def count_entries(session: Session, account_id: int, query: Query) -> int:
    """How many entries match, without those of forgotten people."""
    with planned_for_values(session):
        counts = [
            compiled.count(select(MODELS[state].id).where(*_conditions(session, account_id, state, query, counts=True)))
            for state in states_of(query) or STATES[:1]
        ]
        return sum(session.execute(select(*(count.scalar_subquery() for count in counts))).one())


def query_by(**values: str | int | None) -> Query:
    """The query of the entries that have these values of filters; None stands for any value."""
    filters, given = SUPPRESSIONS.filters, [(name, value) for name, value in values.items() if value is not None]
    return Query(conditions=tuple(FilterCondition(filters[name], "eq", (Equals(value),)) for name, value in given))


# Entries of addresses, and one entry.


def suppressions_of(
    session: Session, account_id: int, list_id: int | None, addresses: Collection[NormalizedAddress]
) -> Sequence[Suppression]:
    """What keeps messages of the list from the addresses, or for None messages without a list: two statements."""
    suppressions: list[Suppression] = []
    for state, model in MODELS.items():
        has_address = or_(
            *(and_(model.kind == address.kind, model.address.in_(address_forms(address.key))) for address in addresses)
        )
        entries = _select_entries(columns_of(state)).where(model.account_id == account_id, has_address)
        if state == UNSUBSCRIBED:
            entries = entries.where(or_(Unsubscriber.list_id.is_(None), Unsubscriber.list_id == list_id))
        suppressions += map(_suppression, session.execute(entries.order_by(model.id)))
    return suppressions


def find_suppression(session: Session, account_id: int | None, state: str, entry_id: int) -> tuple[int, Suppression]:
    """The account's entry, or that of any account for None, with the id of its account. Raises `not_found`."""
    if state not in MODELS:
        raise ServiceError("not_found")
    model = MODELS[state]
    statement = _select_entries(columns_of(state)).add_columns(model.account_id).where(model.id == entry_id)
    row = session.execute(statement if account_id is None else statement.where(model.account_id == account_id)).first()
    if row is None:
        raise ServiceError("not_found", detail="There is no such suppression; it may have been removed.")
    return row.account_id, _suppression(row[:-1])
