"""Several statements in one round trip to PostgreSQL, by the pipeline mode of its protocol
(docs/decisions/020-statements-in-one-round-trip.md).

The driver's own block for it sends each statement when it is executed; here all of them are sent together, and the
server is awaited once. tests/unit/db/test_pipeline.py pins what this relies on in psycopg.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.abc import PQGen
from psycopg.generators import send
from psycopg.pq import ConnStatus, TransactionStatus

from app.db.bounded_connection import BoundedConnection

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
