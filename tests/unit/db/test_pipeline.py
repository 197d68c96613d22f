"""Statements in one round trip (app/db/prepared.py), with the internals of the driver that it relies on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from psycopg.pq import PipelineStatus, TransactionStatus
from sqlalchemy import bindparam, select, text, update
from sqlalchemy.exc import DBAPIError

from app.db import bounded_connection
from app.db.bounded_connection import RESERVED_SECONDS, BoundedConnection
from app.db.database import Database, Transaction
from app.db.models import Account
from app.db.prepared import PreparedStatement, execute_on_driver, execute_together_on_driver, read_together
from tests.support.own_postgres import OwnPostgres
from tests.support.pooler import pooler
from tests.support.round_trips import counted_round_trips
from tests.support.servers import PATIENCE
from tests.support.tenants import Tenant

ONE = ("SELECT %(given)s::int + 1", {"given": 1})
TWO = ("SELECT %(given)s::int + 2", {"given": 1})
WRONG = ("SELECT 1 / %(given)s::int", {"given": 0})
OFTEN = 8
"""More than the runs after which a statement is prepared on the server."""


ROOT = Path(__file__).parents[3]
RECORD = ROOT / "docs" / "decisions" / "027-the-drivers-pipeline.md"
INTERNALS = set(re.findall(r"`(Connection|Cursor|Pipeline)\.(\w+)`", RECORD.read_text("utf-8")))
"""The internals of psycopg in the table of the record."""


def test_the_record_lists_all_internals_of_the_driver() -> None:
    code = (ROOT / "app" / "db" / "prepared.py").read_text("utf-8")
    execute = code[code.index("def _execute(connection: BoundedConnection") : code.index("_PSYCOPG: Any")]
    used = set(re.findall(r"\.(_[a-z]\w*|command_queue|result_queue)\b", execute)) | {"_autocommit"}
    assert used == {name for _, name in INTERNALS}


@pytest.fixture
def database(own_postgres: OwnPostgres) -> Iterator[Database]:
    """A database with one connection."""
    database = Database(own_postgres.url, pool_size=1)
    yield database
    database.close()


@pytest.fixture(autouse=True)
def request_ends() -> Iterator[None]:
    yield
    bounded_connection.end_request()


def driver_of(transaction: Transaction) -> BoundedConnection:
    return cast(BoundedConnection, transaction.connection().connection.driver_connection)


def test_each_internal_of_the_driver_is_there(database: Database) -> None:
    driver = connection_of(database)
    objects: dict[str, object] = {
        "Connection": driver,
        "Cursor": driver.cursor(),
        "Pipeline": psycopg.Pipeline(driver, _no_lock=True),
    }
    missing = [f"{owner}.{name}" for owner, name in INTERNALS if not hasattr(objects[owner], name)]
    assert not missing, f"psycopg {psycopg.__version__} lacks what app/db/prepared.py relies on"


def numbers(transaction: Transaction, *statements: tuple[str, Any]) -> list[int]:
    return [number for ((number,),) in answers(transaction, *statements)]


def answers(transaction: Transaction, *statements: tuple[str, Any]) -> list[list[Any]]:
    """The rows of each statement, after they have run together."""
    return [result.fetchall() for result in execute_together_on_driver(transaction.connection(), statements)]


def fail(database: Database, *statements: tuple[str, Any]) -> DBAPIError:
    """The error of statements that end their transaction."""
    with pytest.raises(DBAPIError) as failed:
        write(database, *statements)
    return failed.value


def write(database: Database, *statements: tuple[str, Any]) -> None:
    with database.write() as transaction:
        answers(transaction, *statements)


def connection_of(database: Database) -> BoundedConnection:
    """The only one, between two transactions."""
    with database.write() as transaction:
        return driver_of(transaction)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_transaction_begins_together_with_its_first_statements(database: Database, count: int) -> None:
    for _ in range(OFTEN):
        with counted_round_trips(database.engine) as round_trips, database.write() as transaction:
            assert numbers(transaction, *[ONE, TWO, ONE][:count]) == [2, 3, 2][:count]
            driver = driver_of(transaction)
            assert driver.info.transaction_status == TransactionStatus.INTRANS
            assert driver.pgconn.pipeline_status == PipelineStatus.OFF
            first = round_trips.count
            assert transaction.scalar(text("SHOW transaction_isolation")) == "read committed"
            assert numbers(transaction, TWO, ONE) == [3, 2]
            last = round_trips.count
    assert (first, last) == (1, 3)


@pytest.mark.parametrize("before", [0, OFTEN])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_statement_that_fails_is_named_and_the_connection_goes_on(
    database: Database, place: int, before: int
) -> None:
    """The other statements may be about to be prepared, or may have been prepared."""
    statements = [ONE, TWO]
    statements.insert(place, WRONG)
    for _ in range(before):
        with database.write() as transaction:
            numbers(transaction, ONE, TWO)
    driver = connection_of(database)
    for _ in range(OFTEN):
        error = fail(database, *statements)
        assert isinstance(error.orig, psycopg.errors.DivisionByZero)
        assert (error.statement, error.connection_invalidated) == (WRONG[0], False)
        assert driver.info.transaction_status == TransactionStatus.IDLE
    with database.write() as transaction:
        assert driver_of(transaction) is driver
        assert numbers(transaction, TWO, ONE) == [3, 2]
    with database.read() as session:
        assert execute_on_driver(session.connection(), *ONE).fetchone() == (2,)


def test_nothing_stays_of_what_was_written_before_the_statement_that_fails(database: Database) -> None:
    with database.write() as transaction:
        transaction.execute(text("CREATE TABLE written (id int)"))
    assert fail(database, ("INSERT INTO written VALUES (1)", None), WRONG).statement == WRONG[0]
    with database.read() as session:
        assert session.scalar(text("SELECT count(*) FROM written")) == 0


def test_parameters_that_the_driver_cannot_convert_leave_no_statement_half_sent(database: Database) -> None:
    assert isinstance(fail(database, ONE, ("SELECT %(given)s", {"given": object()})).orig, psycopg.ProgrammingError)
    for _ in range(OFTEN):
        with database.write() as transaction:
            assert numbers(transaction, ONE, TWO) == [2, 3]


def test_more_is_sent_and_read_at_once_than_the_network_holds(database: Database) -> None:
    large = ("SELECT %(given)s::text", {"given": "x" * 3_000_000})
    with database.write() as transaction:
        assert [len(answer) for ((answer,),) in answers(transaction, *[large] * 5)] == [3_000_000] * 5


def test_statements_that_take_too_long_are_cancelled_and_their_connection_reused(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.bounded_connection.REQUEST_SECONDS", 1.0)
    monkeypatch.setattr("app.db.bounded_connection.RESERVED_SECONDS", dict.fromkeys(RESERVED_SECONDS, PATIENCE))
    monkeypatch.setattr("app.db.bounded_connection.CANCEL_SECONDS", PATIENCE)
    driver = connection_of(database)
    bounded_connection.begin_request()
    error = fail(database, ONE, ("SELECT pg_sleep(3600)", None), TWO)
    assert (error.statement, "canceling statement" in str(error)) == ("SELECT pg_sleep(3600)", True)
    bounded_connection.end_request()
    with database.write() as transaction:
        assert driver_of(transaction) is driver
        assert numbers(transaction, ONE, TWO) == [2, 3]


def test_a_server_that_hangs_is_left(
    database: Database, own_postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.bounded_connection.REQUEST_SECONDS", 0.4)
    monkeypatch.setattr("app.db.bounded_connection.RESERVED_SECONDS", dict.fromkeys(RESERVED_SECONDS, 0.3))
    monkeypatch.setattr("app.db.bounded_connection.CANCEL_SECONDS", 0.3)
    driver = connection_of(database)
    bounded_connection.begin_request()
    with own_postgres.frozen():
        error = fail(database, ONE, TWO)
    assert ("has not answered" in str(error), error.connection_invalidated, driver.closed) == (True, True, True)


def test_behind_a_pooler_statements_run_one_by_one(own_postgres: OwnPostgres) -> None:
    with pooler(own_postgres.url, 2, "made up") as between:
        database = Database(between.url, pool_size=1)
        try:
            for _ in range(OFTEN):
                with database.write() as transaction:
                    assert numbers(transaction, ONE, TWO) == [2, 3]
                assert fail(database, ONE, WRONG).statement == WRONG[0]
        finally:
            database.close()


RENAME = PreparedStatement(
    update(Account)
    .where(Account.id == bindparam("account_id"))
    .values(default_from_name=bindparam("mark", type_=Account.default_from_name.type))
)
NAME = PreparedStatement(select(Account.default_from_name).where(Account.id == bindparam("account_id")))
DOUBLE = PreparedStatement(select((Account.id * 2).label("double")).where(Account.id == bindparam("account_id")))


def test_reads_together_see_what_their_transaction_has_written(tenant: Tenant) -> None:
    """On both databases, and outside of a transaction, too."""
    reads = ((NAME, {"account_id": tenant.id}), (DOUBLE, {"account_id": tenant.id}), (NAME, {"account_id": -1}))
    with tenant.services.database.write() as transaction:
        RENAME.run(transaction, account_id=tenant.id, mark="Ann")
        (name,), (double,), none = read_together(transaction, *reads)
        assert (name.default_from_name, double.double, none) == ("Ann", 2 * tenant.id, [])
    with tenant.services.database.read() as session:
        assert read_together(session, *reads) == [[("Ann",)], [(2 * tenant.id,)], []]
