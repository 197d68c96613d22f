"""Copies of lists and messages in test accounts that were made by processes of a release from before copies had the ids
of their originals (docs/testing.md#copies): while an upgrade replaces the processes, those still write them.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Table, delete, insert, literal, select, update
from sqlalchemy.orm import Session

from app.db.models import Account, Base, List, Message, table_of
from app.ids import copied_id

REFERENCES = {List: "list_id", Message: "message_id"}
"""What is copied -> the columns of other tables with its id."""


def renumber_late_copies(session: Session, test_account_id: int) -> int:
    """Gives copies that have an id of their own the id that the original has, negated, and lets everything that the
    test account has refer to it. Returns how many there were."""
    renumbered = 0
    for model, column in REFERENCES.items():
        table = table_of(model)
        late = select(table.c.id, table.c.copy_of).where(
            table.c.account_id == test_account_id, table.c.copy_of.is_not(None), table.c.id != -table.c.copy_of
        )
        for row_id, original_id in session.execute(late).all():
            _add_under_new_id(session, table, test_account_id, row_id, original_id)
            for referring in _referring(column):
                session.execute(
                    update(referring)
                    .where(referring.c.account_id == test_account_id, referring.c[column] == row_id)
                    .values({column: copied_id(original_id)})
                )
            session.execute(delete(table).where(table.c.account_id == test_account_id, table.c.id == row_id))
            renumbered += 1
    return renumbered


def renumber_all_late_copies(session: Session) -> int:
    """The same in every test account."""
    tests = session.scalars(select(Account.id).where(Account.test_of.is_not(None)).order_by(Account.id)).all()
    return sum(renumber_late_copies(session, test) for test in tests)


def _add_under_new_id(session: Session, table: Table, test_account_id: int, row_id: int, original_id: int) -> None:
    """Adds the copy once more. An original has one copy only, so the other is none from here on."""
    others = [column for column in table.columns if column.name not in ("id", "copy_of")]
    other = select(*others, literal(copied_id(original_id)), literal(original_id)).where(
        table.c.account_id == test_account_id, table.c.id == row_id
    )
    session.execute(
        update(table).where(table.c.account_id == test_account_id, table.c.id == row_id).values(copy_of=None)
    )
    session.execute(insert(table).from_select([*(column.name for column in others), "id", "copy_of"], other))


def _referring(column: str) -> Iterator[Table]:
    """The tables with such a column, wherever they stand."""
    return (table for table in Base.metadata.sorted_tables if column in table.c)
