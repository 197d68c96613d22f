"""The collection of an account's recipients, and all recipients that match a query, part by part."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Row, Select, func, literal, select, tuple_, type_coerce
from sqlalchemy.orm import Session

from app.db.database import Database
from app.db.index_hints import planned_for_values
from app.db.models import Recipient, RecipientStep
from app.query import compile as compiled
from app.query.conditions import FilterCondition, Query
from app.query.fields import Filter, FilterType, Resource
from app.query.reader import Page, Shape, read_page
from app.recipients.filters import EMAIL_KEY, STATE, answered_by_indexes, in_states, states_of
from app.recipients.read import ANONYMOUS, FILTERS, PROPERTIES, RECIPIENT, Viewer
from app.recipients.states import RecipientState
from app.recipients.timeline import TimelineStep
from app.routing.table import DEFAULT

RECIPIENTS = Resource(
    name="recipient of a transactional send",
    collection="recipients",
    filters=FILTERS,
    fields=tuple(PROPERTIES),
    copied=("list_id", "message_id"),
)
SEARCHED = replace(
    RECIPIENTS,
    filters={
        **FILTERS,
        "end_time": Filter("end_time", FilterType.TIMESTAMP),
        "transport": Filter("transport", FilterType.STRING),
    },
)
"""The same for operators, in searches, exports and bulk actions: when a message bounced or failed, and over which
transport. No index answers these: they are looked up for each message that meets the other conditions."""


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
        order=(Recipient.creation_time, Recipient.id),
        filters={
            "email": EMAIL_KEY,
            "group_id": type_coerce(Recipient.group_id, BigInteger()),
            "list_id": Recipient.list_id,
            "message_id": Recipient.message_id,
            "end_time": _at_its_end(RecipientStep.time),
            "transport": _at_its_end(func.coalesce(RecipientStep.transport, DEFAULT)),
        },
    )


WHOLE, WITHOUT_CONTACTS = _collected(RECIPIENT), _collected(ANONYMOUS)


def page_recipients(session: Session, account_id: int, query: Query, viewer: Viewer) -> Page:
    """A page of the account's recipients, as the viewer may see them."""
    shape = WHOLE if viewer.sees_contacts else WITHOUT_CONTACTS
    of_account = Recipient.account_id == account_id
    if not query.conditions:
        page = read_page(session, shape, query, of_account)
    else:
        with planned_for_values(session):
            formed, others = answered_by_indexes(session, account_id, query.conditions)
            page = read_page(session, shape, replace(query, conditions=others), of_account, *formed)
    if viewer.sees_contacts:
        for item in page.items:
            if item.get("reason") is not None:
                item["reason"] = viewer.redacted(item["reason"])
    return page


Place = tuple[datetime, int]
"""Creation time and id of a recipient: where it is in the order of pages."""
ORDER: tuple[Any, ...] = (Recipient.creation_time, Recipient.id)
AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Matching:
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
    ) -> Matching:
        """The recipients that match the query and are in a state that is among these."""
        others = tuple(one for one in query.conditions if one.filter.name != STATE)
        states = [state for state in states_of(query.conditions) if state in among]
        return cls(account_id, others, states, newest)

    @property
    def conditions(self) -> list[ColumnElement[bool]]:
        """What they meet beside their state, for recipients that are known: without the help of an index."""
        plain = compiled.where(Query(conditions=self.others), WHOLE.filter_columns)
        return [Recipient.account_id == self.account_id, *plain]

    def next(self, session: Session, columns: Sequence[Any], after: Place | None, most: int) -> Sequence[Row[Any]]:
        """The next ones behind a place, with their creation time and id behind the columns."""
        with planned_for_values(session):
            found = self._select(session, columns, after).order_by(*ORDER).limit(most)
            return session.execute(found).all()

    def newest_ones(
        self, session: Session, columns: Sequence[Any], most: int, *further: ColumnElement[bool]
    ) -> Sequence[Row[Any]]:
        """The newest ones that meet further conditions, too, from the newest on."""
        with planned_for_values(session):
            found = (
                self._select(session, columns, None)
                .where(*further)
                .order_by(*(column.desc() for column in ORDER))
                .limit(most)
            )
            return session.execute(found).all()

    def count(self, session: Session, most: int) -> int:
        """How many they are; one more than `most` stands for more than that."""
        with planned_for_values(session):
            some = self._select(session, (), None).limit(most + 1).subquery()
            return session.scalar(select(func.count()).select_from(some)) or 0

    def _select(self, session: Session, columns: Sequence[Any], after: Place | None) -> Select[Any]:
        formed, others = answered_by_indexes(session, self.account_id, self.others)
        place = (column.label(f"place_{number}") for number, column in enumerate(ORDER))
        found = select(*columns, *place).where(
            Recipient.account_id == self.account_id,
            in_states(session, self.account_id, self.states),
            *formed,
            *compiled.where(Query(conditions=others), WHOLE.filter_columns),
        )
        if after is not None:
            found = found.where(tuple_(*ORDER) > _place(after))
        return found if self.newest is None else found.where(tuple_(*ORDER) <= _place(self.newest))


def parts_of(database: Database, matching: Matching, columns: Sequence[Any]) -> Iterator[Sequence[Row[Any]]]:
    """All recipients that match, each part read by a session of its own."""
    after: Place | None = None
    while True:
        with database.read() as session:
            rows = matching.next(session, columns, after, AT_ONCE)
        if rows:
            yield rows
        if len(rows) < AT_ONCE:
            return
        after = place_of(rows[-1])


def place_of(row: Sequence[Any]) -> Place:
    """The place of a row of `next` in the order."""
    return row[-2], row[-1]


def newest_place(session: Session, account_id: int) -> Place | None:
    """The place of the newest recipient of the account; None without any."""
    newest = select(*ORDER).where(Recipient.account_id == account_id).order_by(*(column.desc() for column in ORDER))
    row = session.execute(newest.limit(1)).first()
    return None if row is None else place_of(row)


def _place(place: Place) -> Any:
    return tuple_(*(literal(value, column.type) for value, column in zip(place, ORDER, strict=True)))
