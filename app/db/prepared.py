"""Statements of the hottest paths: built once, and on PostgreSQL run on the driver's own cursor.

Measured for a select of one row by its key (microseconds of processor time): 200 built anew and through the ORM, 60 as
a kept statement of SQLAlchemy's, 30 on the driver's cursor, which also has PostgreSQL plan it only once. The values
come as the engine would give them: both use the driver's conversions for every type of ours. SQLite keeps SQLAlchemy's
way, which its types need.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any

import psycopg
from sqlalchemy import Connection, Select, SelectBase, UpdateBase
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from app.db.types import dump_json

_PSYCOPG: Any = postgresql.psycopg
DIALECT: Any = _PSYCOPG.dialect(json_serializer=dump_json)


class PreparedStatement:
    """A statement whose bound values alone differ from one run to the next. What it selects, if anything, comes as
    tuples with names.

    Values go to the driver as they are, but for those of parameters with a type that converts them.
    """

    def __init__(self, statement: SelectBase | UpdateBase) -> None:
        self._statement: Any = statement
        self._row: Any = _named(statement) if isinstance(statement, SelectBase) else None

    @cached_property
    def _compiled(self) -> tuple[str, dict[str, Any], dict[str, Callable[[Any], Any]]]:
        """The text for the driver; the constants in it, which are bound like values; and what converts values."""
        compiled: Any = self._statement.compile(dialect=DIALECT)
        processors = {
            name: bound.type.dialect_impl(DIALECT).bind_processor(DIALECT) for name, bound in compiled.binds.items()
        }
        converters = {name: convert for name, convert in processors.items() if convert}
        constants = {name: value for name, value in compiled.params.items() if value is not None}
        for name in constants.keys() & converters.keys():
            constants[name] = converters.pop(name)(constants[name])
        return str(compiled), constants, converters

    def rows(self, session: Session, **values: Any) -> list[Any]:
        """All rows for these values, by the names of the statement's parameters. Raises `DBAPIError`."""
        return list(map(self._row._make, self.tuples(session, **values)))

    def tuples(self, session: Session, **values: Any) -> list[Any]:
        """The same without names, for thousands of rows."""
        found: list[Any] = self._execute(session, values).fetchall()
        return found

    def row(self, session: Session, **values: Any) -> Any:
        """The row for these values, or None; there is at most one."""
        found = self.rows(session, **values)
        return found[0] if found else None

    def run(self, session: Session, **values: Any) -> int:
        """For a statement that writes: counts the rows that it wrote. Raises `DBAPIError`."""
        count: int = self._execute(session, values).rowcount
        return count

    def _execute(self, session: Session, values: dict[str, Any]) -> Any:
        connection = session.connection()
        if connection.dialect.name != "postgresql":
            return connection.execute(self._statement, values)
        sql, constants, converters = self._compiled
        converted = {name: convert(values[name]) for name, convert in converters.items()}
        return execute_on_driver(connection, sql, {**constants, **values, **converted})


def execute_on_driver(connection: Connection, sql: str, given: Any) -> Any:
    """The driver's cursor of a statement that PostgreSQL has run, in the transaction of the connection. Raises what
    SQLAlchemy would."""
    _tell_listeners(connection, sql, given)
    driver: Any = connection.connection.driver_connection
    try:
        return driver.execute(sql, given)
    except psycopg.Error as error:
        if driver.closed:
            connection.invalidate(error)
        dialect = connection.dialect
        raise DBAPIError.instance(
            sql, None, error, psycopg.Error, hide_parameters=True, dialect=dialect, connection_invalidated=driver.closed
        ) from error


def read_rows(session: Session, statement: Select[Any]) -> list[Any]:
    """The rows of a statement that is made for one request, as tuples with names; past the ORM and, on PostgreSQL, past
    SQLAlchemy's conversions, which the driver has done already: for a page that is a fifth of its time."""
    make = _named(statement)._make
    result = session.connection().execute(statement)
    if session.get_bind().dialect.name != "postgresql":
        return [make(row) for row in result]
    rows = [make(row) for row in result.cursor.fetchall()]
    result.close()
    return rows


def _named(statement: SelectBase) -> Any:
    return _row_class(tuple(str(column.key) for column in statement.selected_columns))


@lru_cache(maxsize=1024)
def _row_class(names: tuple[str, ...]) -> Any:
    return namedtuple("Row", names, rename=True)


def _tell_listeners(connection: Connection, sql: str, values: Any) -> None:
    """Who counts or reads the statements of an engine hears of this one, too."""
    for listener in connection.dispatch.before_cursor_execute:
        listener(connection, None, sql, values, None, False)
