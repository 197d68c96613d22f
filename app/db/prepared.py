"""Prepared statements for the hottest paths: built once, and on PostgreSQL run on the driver's own cursor.

Measured for a select of one row by its key (microseconds of processor time): 180 built anew, with or without the ORM,
55 as a constant statement of SQLAlchemy, 33 on the driver's cursor, where PostgreSQL also plans it only once. The
values are those that the engine would return: the driver converts every type in use. On SQLite the statement runs
through SQLAlchemy, whose conversions its types need.

tests/unit/db/test_sqlalchemy_internals.py pins what this module relies on.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import psycopg
from sqlalchemy import Connection, Select, SelectBase, UpdateBase
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from app.db.dialect import is_postgresql
from app.db.outage import note_failure
from app.db.pipeline import DriverStatement, Results, begins_transaction, execute_together
from app.db.types import dump_json

_PSYCOPG: Any = postgresql.psycopg
DIALECT: Any = _PSYCOPG.dialect(json_serializer=dump_json)


class PreparedStatement:
    """A constant statement with parameters. Rows that it selects are returned as named tuples.

    Values go to the driver unchanged, except those of parameters whose type converts them.
    """

    def __init__(self, statement: SelectBase | UpdateBase) -> None:
        self._statement: Any = statement
        self._row: Any = _named(statement) if isinstance(statement, SelectBase) else None

    @cached_property
    def _compiled(self) -> tuple[str, dict[str, Any], dict[str, Callable[[Any], Any]]]:
        """SQL text for the driver; its constants, which are bound like values; and the converters of values."""
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
        """All rows; the values are named as the statement's parameters. Raises `DBAPIError`."""
        return self.named(self.tuples(session, **values))

    def tuples(self, session: Session, **values: Any) -> list[Any]:
        """Like `rows`, with plain tuples, for thousands of rows."""
        rows: list[Any] = self._execute(session, values).fetchall()
        return rows

    def row(self, session: Session, **values: Any) -> Any:
        """The first row, or None."""
        rows = self.rows(session, **values)
        return rows[0] if rows else None

    def run(self, session: Session, **values: Any) -> int:
        """Executes a statement that writes; returns the number of rows written. Raises `DBAPIError`."""
        count: int = self._execute(session, values).rowcount
        return count

    def _execute(self, session: Session, values: dict[str, Any]) -> Any:
        connection = session.connection()
        if connection.dialect.name != "postgresql":
            return connection.execute(self._statement, values)
        return execute_on_driver(connection, *self.on_driver(values))

    def on_driver(self, values: Mapping[str, Any]) -> DriverStatement:
        """The statement with these values, for PostgreSQL."""
        sql, constants, converters = self._compiled
        converted = {name: convert(values[name]) for name, convert in converters.items()}
        return sql, {**constants, **values, **converted}

    def named(self, rows: Iterable[Any]) -> list[Any]:
        """What it has selected, as named tuples."""
        return list(map(self._row._make, rows))


Read = tuple[PreparedStatement, dict[str, Any]]
"""A statement with its values."""


def read_together(session: Session, *reads: Read) -> list[list[Any]]:
    """All rows of each of these statements with its values; on PostgreSQL in one round trip. Raises `DBAPIError`."""
    if not is_postgresql(session):
        return [statement.rows(session, **values) for statement, values in reads]
    results = execute_together_on_driver(session.connection(), [one.on_driver(values) for one, values in reads])
    return [statement.named(result.fetchall()) for (statement, _), result in zip(reads, results, strict=True)]


def execute_on_driver(connection: Connection, sql: str, parameters: Any) -> Any:
    """Runs a statement on PostgreSQL in the transaction of the connection; returns the driver's cursor. Raises the
    errors that SQLAlchemy would."""
    return execute_together_on_driver(connection, [(sql, parameters)])[0]


def execute_together_on_driver(connection: Connection, statements: Sequence[DriverStatement]) -> Results:
    """Runs statements one after the other, in one round trip; as above. Those after one that fails do not run."""
    for sql, parameters in statements:
        _notify_listeners(connection, sql, parameters)
    driver: Any = connection.connection.driver_connection
    results: Results = []
    try:
        if driver.prepare_threshold is None:  # a pooler need not know the pipeline mode (app/db/poolers.py)
            results += (driver.execute(sql, parameters) for sql, parameters in statements)
        elif len(statements) > 1 or begins_transaction(driver):
            execute_together(driver, statements, results)
        else:
            results.append(driver.execute(*statements[0]))
    except psycopg.Error as error:
        note_failure(connection, error)
        if driver.closed:
            connection.invalidate(error)
        sql, _ = statements[min(len(results), len(statements) - 1)]
        dialect = connection.dialect
        raise DBAPIError.instance(
            sql, None, error, psycopg.Error, hide_parameters=True, dialect=dialect, connection_invalidated=driver.closed
        ) from error
    return results


def read_rows(session: Session, statement: Select[Any]) -> list[Any]:
    """The rows of a statement built for one request, as named tuples; without the ORM and, on PostgreSQL, without
    SQLAlchemy's conversions, which the driver has done already: a fifth of the time of a page."""
    make = _named(statement)._make
    result = session.connection().execute(statement)
    if not is_postgresql(session):
        return [make(row) for row in result]
    rows = [make(row) for row in result.cursor.fetchall()]
    result.close()
    return rows


def _named(statement: SelectBase) -> Any:
    return _row_class(tuple(str(column.key) for column in statement.selected_columns))


@lru_cache(maxsize=1024)
def _row_class(names: tuple[str, ...]) -> Any:
    return namedtuple("Row", names, rename=True)


def _notify_listeners(connection: Connection, sql: str, values: Any) -> None:
    """Calls the engine's listeners, which would not see a statement run on the driver."""
    for listener in connection.dispatch.before_cursor_execute:
        listener(connection, None, sql, values, None, False)
