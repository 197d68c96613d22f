"""The collection of an account's recipients, and all recipients that match a query, part by part."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

from sqlalchemy import BigInteger, ColumnElement, Row, Select, func, literal, select, tuple_, type_coerce
from sqlalchemy.orm import Session

from app.db.index_hints import IndexedCondition, planned_for_values
from app.db.models import Recipient, RecipientStep
from app.db.replica import ReportsDatabase
from app.query import compile as compiled
from app.query.conditions import FilterCondition, Query
from app.query.cursors import Position
from app.query.fields import Filter, FilterType, Resource
from app.query.reader import Page, Shape, read_page
from app.recipients.filters import (
    EMAIL_KEY,
    PAGE_ORDER,
    Beyond,
    answered_by_indexes,
    has_label,
    states_of,
    without_state,
)
from app.recipients.read import ANONYMOUS_RECIPIENT_SHAPE, FILTERS, PROPERTIES, RECIPIENT_SHAPE, Viewer
from app.recipients.states import RecipientState
from app.recipients.timeline import TimelineStep
from app.routing.table import DEFAULT_TRANSPORT

RECIPIENTS = Resource(
    name="recipient of a transactional send",
    collection="recipients",
    filters=FILTERS,
    fields=tuple(PROPERTIES),
    copied=("list_id", "message_id"),
)
OPERATOR_RECIPIENTS = replace(
    RECIPIENTS,
    filters={
        **FILTERS,
        "end_time": Filter("end_time", FilterType.TIMESTAMP),
        "transport": Filter("transport", FilterType.STRING),
    },
)
"""The recipients with filters for operators, in searches, exports and bulk actions: when a message bounced or failed,
and over which transport. No index answers these: they are looked up for each message that meets the other
conditions."""


def _at_its_end(column: Any) -> ColumnElement[Any]:
    """A column of the latest step by which the message bounced or failed."""
    ends = RecipientStep.step.in_((TimelineStep.BOUNCED, TimelineStep.FAILED))
    steps = select(column).where(RecipientStep.recipient_id == Recipient.id, ends).order_by(RecipientStep.id.desc())
    return steps.limit(1).correlate(Recipient).scalar_subquery()


def _collected(shape: Shape) -> Shape:
    """The shape of one recipient, in pages. The filter `group_id` also finds what a step of an automation has sent."""
    return replace(
        shape,
        resource=RECIPIENTS,
        order=PAGE_ORDER,
        filters={
            "email": EMAIL_KEY,
            "group_id": type_coerce(Recipient.group_id, BigInteger()),
            "list_id": Recipient.list_id,
            "message_id": Recipient.message_id,
            "end_time": _at_its_end(RecipientStep.time),
            "transport": _at_its_end(func.coalesce(RecipientStep.transport, DEFAULT_TRANSPORT)),
        },
    )


RECIPIENTS_SHAPE, ANONYMOUS_RECIPIENTS_SHAPE = _collected(RECIPIENT_SHAPE), _collected(ANONYMOUS_RECIPIENT_SHAPE)


def page_recipients(
    session: Session, account_id: int, query: Query, viewer: Viewer, *further: IndexedCondition | ColumnElement[bool]
) -> Page:
    """A page of the account's recipients, as the viewer may see them, which meet further conditions, too."""
    shape = RECIPIENTS_SHAPE if viewer.sees_contacts else ANONYMOUS_RECIPIENTS_SHAPE
    account_filter = Recipient.account_id == account_id
    if not query.conditions and not further:
        page = read_page(session, shape, query, account_filter)
    else:
        with planned_for_values(session):
            states, conditions = states_of(query.conditions), without_state(query)
            formed, others, order = answered_by_indexes(
                session,
                account_id,
                states,
                conditions,
                *further,
                beyond=_beyond(query.position),
                counts=query.counts_only,
            )
            shape, query = replace(shape, order=order), replace(query, conditions=others)
            page = read_page(session, shape, query, account_filter, *formed)
    if viewer.sees_contacts:
        for item in page.items:
            if item.get("reason") is not None:
                item["reason"] = viewer.redacted(item["reason"])
    return page


def _beyond(position: Position | None) -> Beyond | None:
    return None if position is None else Beyond(cast("datetime", position.item[0]), position.backward)


Place = tuple[datetime, int]
"""Creation time and id of a recipient: where it is in the order of pages."""
PLACE_COLUMNS = PAGE_ORDER
PART_SIZE = 1000


@dataclass(frozen=True, slots=True)
class MatchingRecipients:
    """The recipients of an account that meet the conditions and are in one of the states, up to the newest one."""

    account_id: int
    others: tuple[FilterCondition, ...]
    states: Sequence[RecipientState]
    newest: Place | None = None

    @classmethod
    def of(
        cls,
        account_id: int,
        query: Query,
        among: Collection[RecipientState] = tuple(RecipientState),
        newest: Place | None = None,
    ) -> MatchingRecipients:
        """The recipients that match the query and are in a state that is among these."""
        others = without_state(query)
        states = [state for state in states_of(query.conditions) if state in among]
        return cls(account_id, others, states, newest)

    @property
    def conditions(self) -> list[ColumnElement[bool]]:
        """What they meet beside their state, for recipients that are known: without the help of an index."""
        labels = [has_label(condition) for condition in self.others if condition.filter.type is FilterType.LABEL]
        others = tuple(condition for condition in self.others if condition.filter.type is not FilterType.LABEL)
        plain = compiled.where(Query(conditions=others), RECIPIENTS_SHAPE.filter_columns)
        return [Recipient.account_id == self.account_id, *labels, *plain]

    def next(self, session: Session, columns: Sequence[Any], after: Place | None, most: int) -> Sequence[Row[Any]]:
        """The next ones behind a place, with their creation time and id behind the columns."""
        with planned_for_values(session):
            statement, order = self._select(session, columns, after)
            return session.execute(statement.order_by(*order).limit(most)).all()

    def newest_ones(
        self, session: Session, columns: Sequence[Any], most: int, *further: IndexedCondition
    ) -> Sequence[Row[Any]]:
        """The newest ones that meet further conditions, too, from the newest on."""
        with planned_for_values(session):
            statement, order = self._select(session, columns, None, *further)
            newest = statement.order_by(*(column.desc() for column in order))
            return session.execute(newest.limit(most)).all()

    def count(self, session: Session, most: int) -> int:
        """How many they are; one more than `most` stands for more than that."""
        with planned_for_values(session):
            statement, _ = self._select(session, (), None, counts=True)
            some = statement.limit(most + 1).subquery()
            return session.scalar(select(func.count()).select_from(some)) or 0

    def _select(
        self,
        session: Session,
        columns: Sequence[Any],
        after: Place | None,
        *further: IndexedCondition,
        counts: bool = False,
    ) -> tuple[Select[Any], tuple[Any, Any]]:
        """The recipients behind the place, and the columns of their order."""
        formed, others, order = answered_by_indexes(
            session,
            self.account_id,
            self.states,
            self.others,
            *further,
            beyond=None if after is None else Beyond(after[0], ascending=True),
            counts=counts,
        )
        place = (column.label(f"place_{number}") for number, column in enumerate(order))
        statement = select(*columns, *place).where(
            Recipient.account_id == self.account_id,
            *formed,
            *compiled.where(Query(conditions=others), RECIPIENTS_SHAPE.filter_columns),
        )
        if after is not None:
            statement = statement.where(tuple_(*order) > _place(after))
        if self.newest is not None:
            statement = statement.where(tuple_(*order) <= _place(self.newest))
        return statement, order


def parts_of(
    reports: ReportsDatabase, matching: MatchingRecipients, columns: Sequence[Any]
) -> Iterator[Sequence[Row[Any]]]:
    """All recipients that match, each part read by a session of its own."""
    after: Place | None = None
    while True:
        with reports.read(matching.account_id) as session:
            rows = matching.next(session, columns, after, PART_SIZE)
        if rows:
            yield rows
        if len(rows) < PART_SIZE:
            return
        after = place_of(rows[-1])


def place_of(row: Sequence[Any]) -> Place:
    """The place of a row of `next` in the order."""
    return row[-2], row[-1]


def newest_place(session: Session, account_id: int) -> Place | None:
    """The place of the newest recipient of the account; None without any."""
    newest = (
        select(*PLACE_COLUMNS)
        .where(Recipient.account_id == account_id)
        .order_by(*(column.desc() for column in PLACE_COLUMNS))
    )
    row = session.execute(newest.limit(1)).first()
    return None if row is None else place_of(row)


def _place(place: Place) -> Any:
    return tuple_(*(literal(value, column.type) for value, column in zip(place, PLACE_COLUMNS, strict=True)))
