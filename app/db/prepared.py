"""Prepared statements for the hottest paths: built once, and run on the driver's own cursor.

Measured for a select of one row by its key (microseconds of processor time): 180 built anew, with or without the ORM,
55 as a constant statement of SQLAlchemy, 33 on the driver's cursor, where PostgreSQL also plans it only once. The
values are those that the engine would return: PostgreSQL's driver converts every type in use, and what SQLite's does
not is converted here by the types of the columns.

tests/unit/db/test_sqlalchemy_internals.py pins what this module relies on.
"""

from __future__ import annotations

import sqlite3
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import orjson
import psycopg
from psycopg.abc import PQGen
from psycopg.generators import send
from psycopg.pq import ConnStatus, TransactionStatus
from sqlalchemy import Boolean, Connection, Select, SelectBase, UpdateBase
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from app.db.bounded_connection import BoundedConnection
from app.db.expressions import is_postgresql
from app.db.outage import note_failure
from app.db.types import dump_json

# Several statements in one round trip to PostgreSQL, by the pipeline mode of its protocol
# (docs/decisions/020-statements-in-one-round-trip.md).
#
# The driver's own block for it sends each statement when it is executed; here all of them are sent together, and the
# server is awaited once. What this relies on in psycopg, and why, is listed in
# docs/decisions/027-the-drivers-pipeline.md.

DriverStatement = tuple[str, Any]
"""The text of a statement for the driver, and its parameters."""
Results = list[psycopg.Cursor[Any]]
"""A cursor for each statement, in order."""


def begins_transaction(connection: BoundedConnection) -> bool:
    """Whether the next statement begins a transaction."""
    return not connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE


def execute_together(connection: BoundedConnection, statements: Sequence[DriverStatement], results: Results) -> None:
    """Runs the statements in their order, and adds the result of each to `results`. A transaction that is due begins
    in the same round trip.

    Raises the error of the first statement that fails: `results` then has those of the statements before it, and the
    server has skipped those after it. The connection remains usable.
    """
    cursors: Results = []
    try:
        with connection.lock:
            connection.wait(_execute(connection, statements, cursors))
    finally:
        results += [cursor for cursor in cursors if cursor.pgresult is not None]


def _execute(connection: BoundedConnection, statements: Sequence[DriverStatement], cursors: Results) -> PQGen[None]:
    pipeline = connection._pipeline = psycopg.Pipeline(connection, _no_lock=True)
    connection.pgconn.enter_pipeline_mode()
    begins, autocommit = begins_transaction(connection), connection.autocommit
    connection.use_transactions(False)  # otherwise the driver would wait for the answer to BEGIN
    try:
        if begins:
            yield from connection._exec_command(connection._get_tx_start_command())
        for text, parameters in statements:
            cursor = connection.cursor()
            cursors.append(cursor)
            yield from cursor._start_query(text)
            yield from cursor._maybe_prepare_gen(cursor._convert_query(text, parameters))
        pipeline._enqueue_sync()
        for command in pipeline.command_queue:
            command()
        yield from send(connection.pgconn)
        yield from pipeline._fetch_gen(flush=False)
    except BaseException:
        # The driver takes a statement for prepared that the server has skipped.
        connection._prepared.clear()
        raise
    finally:
        connection.use_transactions(not autocommit)
        connection._pipeline = None
        _leave(connection, pipeline)
    yield from connection._prepared.maintain_gen(connection)


def _leave(connection: BoundedConnection, pipeline: psycopg.Pipeline) -> None:
    """Ends the pipeline mode. A connection with unread answers cannot be used any more."""
    if pipeline.result_queue:
        connection.pgconn.finish()
    elif connection.pgconn.status != ConnStatus.BAD:
        connection.pgconn.exit_pipeline_mode()


_PSYCOPG: Any = postgresql.psycopg
_SQLITE: Any = sqlite.pysqlite
DIALECT: Any = _PSYCOPG.dialect(json_serializer=dump_json)
DIALECT_OF_SQLITE: Any = _SQLITE.dialect(json_serializer=dump_json, json_deserializer=orjson.loads, paramstyle="named")

Converter = Callable[[Any], Any]


class CompiledStatement(NamedTuple):
    """A statement for the driver of a database: the text; its constants, which are bound like values; the converters of
    values by their name; and those of columns by their position."""

    sql: str
    constants: dict[str, Any]
    converters: dict[str, Converter]
    readers: list[tuple[int, Converter]]

    @classmethod
    def of(cls, statement: Any, dialect: Any, columns: Sequence[str] | None = None) -> CompiledStatement:
        """`columns` are those that an INSERT without values has parameters for."""
        compiled = statement.compile(dialect=dialect, column_keys=columns)
        bound = {name: compiled.binds[name] for name in compiled.params}
        processors = {
            name: parameter.type.dialect_impl(dialect).bind_processor(dialect)
            for name, parameter in bound.items()
            if not isinstance(parameter.type, Boolean)  # both drivers bind it themselves
        }
        converters = {name: convert for name, convert in processors.items() if convert}
        constants = {name: value for name, value in compiled.params.items() if not bound[name].required}
        for name in constants.keys() & converters.keys():
            constants[name] = converters.pop(name)(constants[name])
        return cls(str(compiled), constants, converters, [] if dialect is DIALECT else _readers(statement, dialect))

    def parameters(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The values and the constants of the statement, as the driver binds them."""
        converted = {name: convert(values[name]) for name, convert in self.converters.items()}
        return {**self.constants, **values, **converted}

    def run_each(
        self, connection: Connection, rows: Sequence[Mapping[str, Any]], shared: Mapping[str, Any] | None = None
    ) -> None:
        """Executes it on SQLite once for each row, with its values and the shared ones. Raises `DBAPIError`."""
        shared = shared or {}
        row_converters = [(name, convert) for name, convert in self.converters.items() if name not in shared]
        given = {name: self.converters[name](value) for name, value in shared.items() if name in self.converters}
        common = {**self.constants, **shared, **given}
        parameters = [
            {**common, **row, **{name: convert(row[name]) for name, convert in row_converters}} for row in rows
        ]
        execute_on_sqlite(connection, self.sql, parameters)

    def read(self, rows: list[Any]) -> list[Any]:
        """Rows of the driver with the values that the engine would return."""
        return [self._converted(row) for row in rows] if self.readers else rows

    def _converted(self, row: Sequence[Any]) -> tuple[Any, ...]:
        values = [*row]
        for at, convert in self.readers:
            values[at] = convert(values[at])
        return tuple(values)


def _readers(statement: Any, dialect: Any) -> list[tuple[int, Converter]]:
    types = (column.type.dialect_impl(dialect) for column in statement.exported_columns)
    readers = ((at, type_.result_processor(dialect, None)) for at, type_ in enumerate(types))
    return [(at, convert) for at, convert in readers if convert]


class PreparedStatement:
    """A constant statement with parameters. Rows that it selects are returned as named tuples.

    Values go to the driver unchanged, except those of parameters whose type converts them.
    """

    def __init__(self, statement: SelectBase | UpdateBase) -> None:
        self._statement: Any = statement
        self._row: Any = _named(statement) if isinstance(statement, SelectBase) else None

    @cached_property
    def _compiled(self) -> CompiledStatement:
        return CompiledStatement.of(self._statement, DIALECT)

    @cached_property
    def _compiled_for_sqlite(self) -> CompiledStatement:
        return CompiledStatement.of(self._statement, DIALECT_OF_SQLITE)

    def rows(self, session: Session, **values: Any) -> list[Any]:
        """All rows; the values are named as the statement's parameters. Raises `DBAPIError`."""
        return self.named(self.tuples(session, **values))

    def tuples(self, session: Session, **values: Any) -> list[Any]:
        """Like `rows`, with plain tuples, for thousands of rows."""
        connection = session.connection()
        if connection.dialect.name == "postgresql":
            rows: list[Any] = execute_on_driver(connection, *self.on_driver(values)).fetchall()
            return rows
        compiled = self._compiled_for_sqlite
        return compiled.read(execute_on_sqlite(connection, compiled.sql, compiled.parameters(values))[0])

    def row(self, session: Session, **values: Any) -> Any:
        """The first row, or None."""
        rows = self.rows(session, **values)
        return rows[0] if rows else None

    def run(self, session: Session, **values: Any) -> int:
        """Executes a statement that writes; returns the number of rows written. Raises `DBAPIError`."""
        connection = session.connection()
        if connection.dialect.name == "postgresql":
            count: int = execute_on_driver(connection, *self.on_driver(values)).rowcount
            return count
        compiled = self._compiled_for_sqlite
        return execute_on_sqlite(connection, compiled.sql, compiled.parameters(values))[1]

    def on_driver(self, values: Mapping[str, Any]) -> DriverStatement:
        """The statement with these values, for PostgreSQL."""
        return self._compiled.sql, self._compiled.parameters(values)

    def named(self, rows: Iterable[Any]) -> list[Any]:
        """The rows that the statement has selected, as named tuples."""
        return list(map(self._row._make, rows))


Read = tuple[PreparedStatement, dict[str, Any]]
"""A statement with its values."""


def read_together(session: Session, *reads: Read) -> list[list[Any]]:
    """All rows of each of these statements with its values; on PostgreSQL in one round trip. Raises `DBAPIError`."""
    if not is_postgresql(session):
        return [statement.rows(session, **values) for statement, values in reads]
    results = execute_together_on_driver(
        session.connection(), [statement.on_driver(values) for statement, values in reads]
    )
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
        if driver.prepare_threshold is None:  # a pooler need not know the pipeline mode (app/db/postgresql.py)
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


def execute_on_sqlite(connection: Connection, sql: str, parameters: Any) -> tuple[list[Any], int]:
    """Runs a statement on SQLite. Returns the rows that it returns, and the number of rows that it has written; with a
    list of parameters it runs for each of them. A select outside of a transaction sees what is committed by then, as on
    PostgreSQL."""
    many = isinstance(parameters, list)
    _notify_listeners(connection, sql, parameters, many=many)
    driver: Any = connection.connection.driver_connection
    try:
        cursor = (driver.executemany if many else driver.execute)(sql, parameters)
        return cursor.fetchall(), cursor.rowcount
    except sqlite3.Error as error:
        note_failure(connection, error)
        raise DBAPIError.instance(
            sql, None, error, sqlite3.Error, hide_parameters=True, dialect=connection.dialect
        ) from error


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


def _notify_listeners(connection: Connection, sql: str, values: Any, *, many: bool = False) -> None:
    """Calls the engine's listeners, which would not see a statement run on the driver."""
    for listener in connection.dispatch.before_cursor_execute:
        listener(connection, None, sql, values, None, many)
