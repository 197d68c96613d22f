"""Suppressions: searching what is unsubscribed or blocked, and one entry with what made it
(docs/console.md#suppressions).

Unsubscribed and blocked addresses are two tables. A page is read from each in the order of its index, and the two are
merged, so that it costs the same however many there are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, String, and_, case, cast, false, literal, null, or_, select, tuple_
from sqlalchemy.orm import Session

from app.addresses import ADDRESS_KINDS, NormalizedAddress, address_forms
from app.console.queries import Pairs, older_query
from app.contacts.blocked import BLOCKED, STATES, SUPPRESSIONS, UNSUBSCRIBED, quoting
from app.db.address_digests import PREFIX, find_digests
from app.db.expressions import in_json
from app.db.index_hints import planned_for_values
from app.db.models import Account, BlockedAddress, List, Unsubscriber
from app.errors import ServiceError
from app.ids import shown_id
from app.query import compile as compiled
from app.query.conditions import Equals, FilterCondition, Query
from app.query.cursors import CursorScope, Position
from app.query.grammar import parse_collection
from app.secret_keys import SecretKeys

PATH = "/console/suppressions"
Model = type[Unsubscriber | BlockedAddress]
MODELS: dict[str, Model] = {UNSUBSCRIBED: Unsubscriber, BLOCKED: BlockedAddress}
"""State -> its table."""


@dataclass(frozen=True, slots=True)
class Suppression:
    """An entry: `address` is None for a forgotten person, and `stored_list_id` and `list_name` are for one of all
    lists; `reason` and `reply` are those of a block."""

    state: str
    id: int
    kind: str
    address: str | None
    creation_time: datetime
    stored_list_id: int | None
    list_name: str | None
    reason: str | None
    reply: str | None

    @property
    def list_id(self) -> int | None:
        """As everybody outside sees it."""
        return shown_id(self.stored_list_id)

    @property
    def path(self) -> str:
        """That of its own page."""
        return f"{PATH}/{self.state}/{self.id}"


def search(
    session: Session, secret_keys: SecretKeys, account: Account, pairs: Pairs, limit: int
) -> tuple[Sequence[Suppression], Pairs | None]:
    """The account's entries that match, the newest first, and the query of older ones: two statements. Raises the
    errors of the query."""
    cursors = CursorScope(secret_keys, account.id, PATH)
    query = parse_collection(pairs, SUPPRESSIONS, cursors)
    with planned_for_values(session):
        found = [one for state in STATES for one in _entries(session, account.id, state, query, limit + 1)]
    found.sort(key=_order, reverse=True)
    page = found[:limit]
    position = Position(_order(page[-1])) if len(found) > limit else None
    return page, older_query(cursors, pairs, position)


def _order(one: Suppression) -> tuple[datetime, int, int]:
    return one.creation_time, STATES.index(one.state), one.id


def _entries(session: Session, account_id: int, state: str, query: Query, limit: int) -> Iterator[Suppression]:
    model = MODELS[state]
    conditions = [model.account_id == account_id]
    for one in query.conditions:
        conditions += _matching(session, model, state, one)
    if query.position is not None:
        conditions.append(_before(model, state, query.position))
    newest = _selected(state).where(*conditions).order_by(model.creation_time.desc(), model.id.desc())
    yield from (_suppression(state, row) for row in session.execute(newest.limit(limit)))


def _before(model: Model, state: str, position: Position) -> ColumnElement[bool]:
    """What comes behind the position: entries of one time are in the order of the tables, then of their ids."""
    moment, rank, entry_id = position.item
    time, own = model.creation_time, STATES.index(state)
    at = literal(moment, time.type)
    if own == rank:
        return tuple_(time, model.id) < tuple_(at, literal(entry_id, model.id.type))
    return time <= at if [own, rank] == [0, 1] else time < at


def _matching(session: Session, model: Model, state: str, condition: FilterCondition) -> list[ColumnElement[bool]]:
    name = condition.filter.name
    if name == "reply":
        return [quoting(condition) if state == BLOCKED else false()]
    if name not in ADDRESS_KINDS:
        columns: dict[str, ColumnElement[Any]] = {
            "state": literal(state),
            "creation_time": model.creation_time.expression,
        }
        columns["reason"] = BlockedAddress.reason.expression if state == BLOCKED else cast(null(), String)
        return compiled.where(Query(conditions=(condition,)), columns)
    given = [NormalizedAddress(name, str(one.value)) for one in condition.alternatives if isinstance(one, Equals)]
    if condition.op == "ne" or len(given) < len(condition.alternatives):
        column = case((model.kind == name, model.address))
        return compiled.where(Query(conditions=(condition,)), {name: column})
    # A forgotten address stands there as its digest.
    stored = [*(one.key for one in given), *find_digests(session, given)]
    return [model.kind == name, in_json(model.address, stored)]


def _selected(state: str) -> Any:
    if state == BLOCKED:
        one = BlockedAddress
        return select(one.id, one.kind, one.address, one.creation_time, null(), null(), one.reason, one.reply)
    entry = Unsubscriber
    columns = select(entry.id, entry.kind, entry.address, entry.creation_time, entry.list_id, List.name, null(), null())
    return columns.outerjoin(List, List.id == entry.list_id)


def _suppression(state: str, row: Any) -> Suppression:
    entry_id, kind, address, moment, *others = row
    shown = None if address.startswith(PREFIX) else address
    return Suppression(state, entry_id, kind, shown, moment, *others)


def suppressions_of(
    session: Session, account_id: int, list_id: int, addresses: Collection[NormalizedAddress]
) -> Sequence[Suppression]:
    """What keeps messages of the list from the addresses: two statements."""
    found: list[Suppression] = []
    for state, model in MODELS.items():
        of_any = or_(*(and_(model.kind == one.kind, model.address.in_(address_forms(one.key))) for one in addresses))
        entries = _selected(state).where(model.account_id == account_id, of_any)
        if state == UNSUBSCRIBED:
            entries = entries.where(or_(Unsubscriber.list_id.is_(None), Unsubscriber.list_id == list_id))
        found += [_suppression(state, row) for row in session.execute(entries.order_by(model.id))]
    return found


def find_suppression(session: Session, account_id: int | None, state: str, entry_id: int) -> tuple[int, Suppression]:
    """The account's entry, or that of any account for None, with the id of its account. Raises `not_found`."""
    if state not in MODELS:
        raise ServiceError("not_found")
    model = MODELS[state]
    one = _selected(state).add_columns(model.account_id).where(model.id == entry_id)
    row = session.execute(one if account_id is None else one.where(model.account_id == account_id)).first()
    if row is None:
        raise ServiceError("not_found", detail="There is no such suppression; it may have been removed.")
    return row.account_id, _suppression(state, row[:-1])
