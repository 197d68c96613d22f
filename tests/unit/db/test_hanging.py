"""Waits for a PostgreSQL that hangs or is too slow are limited (app/db/bounded_connection.py)."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url, text
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from app.db import bounded_connection
from app.db.bounded_connection import (
    MIN_CONNECT_SECONDS,
    RESERVED_SECONDS,
    BoundedConnection,
    DatabaseCircuitBreaker,
    Servers,
    WaitBudget,
)
from app.db.database import Database
from app.db.outage import OutcomeUnknown, is_unavailable
from tests.support.fronts import tcp_front
from tests.support.own_postgres import OwnPostgres
from tests.support.servers import PATIENCE, wait_until


@pytest.fixture
def database(own_postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """A database with a short wait budget and two connections, which is still long enough for ordinary statements."""
    monkeypatch.setattr("app.db.bounded_connection.REQUEST_SECONDS", 0.4)
    monkeypatch.setattr("app.db.bounded_connection.RESERVED_SECONDS", dict.fromkeys(RESERVED_SECONDS, PATIENCE))
    monkeypatch.setattr("app.db.bounded_connection.CANCEL_SECONDS", PATIENCE)
    monkeypatch.setattr("app.db.bounded_connection.PROBE_INTERVAL", 0.05)
    monkeypatch.setattr("app.db.postgresql.CHECKOUT_SECONDS", 0.2)
    database = Database(own_postgres.url, pool_size=2)
    ask(database)
    yield database
    database.close()


@pytest.fixture
def hasty(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short waits also for a server that hangs on purpose: none of its answers matters."""
    monkeypatch.setattr("app.db.bounded_connection.RESERVED_SECONDS", dict.fromkeys(RESERVED_SECONDS, 0.3))
    monkeypatch.setattr("app.db.bounded_connection.CANCEL_SECONDS", 0.3)


@pytest.fixture(autouse=True)
def request_ends() -> Iterator[None]:
    yield
    bounded_connection.end_request()


def ask(database: Database, statement: str = "SELECT 1") -> object:
    with database.read() as session:
        return session.connection().execute(text(statement)).scalar()


def ask_and_fail(database: Database, statement: str = "SELECT 1") -> SQLAlchemyError:
    """Runs a statement in a new request and returns its error."""
    bounded_connection.begin_request()
    with pytest.raises(SQLAlchemyError) as caught:
        ask(database, statement)
    assert is_unavailable(caught.value)
    return caught.value


def backends(database: Database, statement: str) -> int:
    count = ask(database, f"SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query = '{statement}'")
    assert isinstance(count, int)
    return count


def test_a_statement_that_takes_too_long_is_cancelled_and_its_connection_reused(database: Database) -> None:
    """The server does not continue a statement without a client."""
    with database.read() as session:
        backend = session.connection().execute(text("SELECT pg_backend_pid()")).scalar()
        bounded_connection.begin_request()
        with pytest.raises(OperationalError, match="canceling statement") as caught:
            session.connection().execute(text("SELECT pg_sleep(3600)"))
    assert is_unavailable(caught.value)
    bounded_connection.end_request()
    assert backends(database, "SELECT pg_sleep(3600)") == 0
    assert ask(database, "SELECT pg_backend_pid()") == backend


@pytest.mark.usefixtures("hasty")
def test_a_frozen_server_is_left_and_used_again_after_it_resumes(database: Database, own_postgres: OwnPostgres) -> None:
    with own_postgres.frozen():
        assert "has not answered" in str(ask_and_fail(database))
    wait_until(lambda: _answers(database), "it answers again")


@pytest.mark.usefixtures("hasty")
def test_while_one_request_waits_for_a_frozen_server_others_fail_at_once(
    database: Database, own_postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If each request waited, the requests of a process would wait one after the other."""
    monkeypatch.setattr("app.db.bounded_connection.PROBE_INTERVAL", PATIENCE)
    with own_postgres.frozen():
        ask_and_fail(database)
        for _ in range(20):
            assert "did not answer others" in str(ask_and_fail(database)), "it has waited, too"


def test_connecting_to_a_frozen_server_times_out(own_postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.db.bounded_connection.CONNECT_SECONDS", MIN_CONNECT_SECONDS)
    database = Database(own_postgres.url)
    with own_postgres.frozen():
        assert "connection timeout" in str(ask_and_fail(database))
    database.close()


@pytest.mark.usefixtures("hasty")
def test_a_commit_without_an_answer_has_an_unknown_outcome(database: Database, own_postgres: OwnPostgres) -> None:
    with ExitStack() as stack:

        def write_and_freeze() -> None:
            with database.write() as transaction:
                transaction.connection().execute(text("CREATE TEMPORARY TABLE written (id integer)"))
                bounded_connection.begin_request()
                stack.enter_context(own_postgres.frozen())

        with pytest.raises(OutcomeUnknown) as caught:
            write_and_freeze()
    assert is_unavailable(caught.value)
    wait_until(lambda: _answers(database), "it answers again")


def write_in_vain(database: Database, statement: str) -> None:
    with database.write() as transaction:
        transaction.connection().execute(text(statement))


def write_and_hurry(database: Database, statement: str) -> None:
    """The request begins before the commit, for which it has all of its budget."""
    with database.write() as transaction:
        transaction.connection().execute(text(statement))
        bounded_connection.begin_request()


@pytest.mark.usefixtures("hasty")
def test_a_commit_that_waits_for_a_standby_is_left_but_not_cancelled(
    database: Database, own_postgres: OwnPostgres
) -> None:
    """No timeout of the server ends this wait; a cancelled commit would stand without the standby."""
    with own_postgres.without_standby():
        with pytest.raises(OutcomeUnknown):
            write_and_hurry(database, "CREATE TABLE waiting (id integer)")
        bounded_connection.end_request()
        wait_until(lambda: own_postgres.waiting_commits() >= 2, "the server waits on")
    wait_until(lambda: ask(database, "SELECT to_regclass('waiting')") is not None, "the commit has ended")


def sleep_often(database: Database) -> None:
    with database.read() as session:
        for _ in range(100):
            session.connection().execute(text("SELECT pg_sleep(0.05)"))


def test_all_waits_of_a_request_share_its_wait_budget(database: Database) -> None:
    """Each wait alone is short enough. The server cancels the last one, answers it too late, or hardly anything is left
    for it."""
    bounded_connection.begin_request()
    with pytest.raises(OperationalError, match=r"cancel|too long|has not answered"):
        sleep_often(database)
    with pytest.raises(OperationalError, match=r"has not answered in time|for too long"):
        ask(database)  # on a new connection, or on the first one if the server cancelled the wait


def test_no_statement_starts_with_hardly_any_time_left(database: Database) -> None:
    """The message would report a database that has not answered within 0.0 seconds."""
    with database.read() as session:
        connection = session.connection()
        connection.execute(text("SELECT 1"))
        bounded_connection.begin_request()
        bounded_connection.current().shorten(0.9 * bounded_connection.MIN_SECONDS)
        with pytest.raises(OperationalError, match="the request has waited for the database for too long"):
            connection.execute(text("SELECT 1"))
    with pytest.raises(OperationalError, match="the database has not answered in time"):
        ask(database)


def test_a_request_with_a_spent_budget_returns_its_connection(database: Database) -> None:
    """There are twice as many requests as connections. The pool resets each connection."""
    for _ in range(4):
        bounded_connection.begin_request()
        with pytest.raises(OperationalError, match=r"cancel|too long"):
            write_in_vain(database, "SELECT pg_sleep(3600)")
    bounded_connection.end_request()
    assert ask(database) == 1


def test_a_request_waits_within_its_budget_for_a_connection_of_the_pool(database: Database) -> None:
    """The pool's own timeout is not an error of the driver, and is handled alike."""
    with database.read() as first, database.read() as second:
        first.connection(), second.connection()
        assert "QueuePool limit" in str(ask_and_fail(database))


def test_a_command_has_a_time_limit_for_each_statement(database: Database) -> None:
    with bounded_connection.limit_waits(bounded_connection.COMMAND_SECONDS):
        assert bounded_connection.current().limit() == bounded_connection.COMMAND_SECONDS
        ask(database, "SELECT pg_sleep(0.5)")
    assert bounded_connection.current().limit() == bounded_connection.BACKGROUND_SECONDS


def _answers(database: Database) -> bool:
    bounded_connection.begin_request()
    try:
        return ask(database) == 1
    except SQLAlchemyError:
        return False
    finally:
        bounded_connection.end_request()


HOSTS = {"host": "one,two,three", "port": "1,2,3", "hostaddr": "192.0.2.1,192.0.2.2,192.0.2.3", "dbname": "x"}


def hosts(servers: Servers, options: dict[str, Any]) -> list[str]:
    """The hosts in the order in which they are tried."""
    return [server["host"] for server in servers.attempts(options)]


def test_a_lost_server_is_tried_last_and_the_one_that_answered_first() -> None:
    servers = Servers()
    former, primary, standby = servers.attempts(HOSTS)
    assert primary == {"host": "two", "port": "2", "hostaddr": "192.0.2.2", "dbname": "x"}
    servers.note_silence(former)
    assert hosts(servers, HOSTS) == ["two", "three", "one"]
    servers.note_success(standby)
    assert hosts(servers, HOSTS) == ["three", "two", "one"]
    assert [servers.is_silent(server) for server in (former, primary, standby)] == [True, False, False]
    servers.note_success(former)
    assert hosts(servers, HOSTS) == ["one", "two", "three"]


@pytest.mark.parametrize(
    "options",
    [
        {"host": "one", "hostaddr": "192.0.2.1", "port": "1"},
        {"host": "/run,/run"},
        {},
        HOSTS | {"target_session_attrs": "prefer-standby"},
        HOSTS | {"load_balance_hosts": "random"},
    ],
)
def test_a_single_server_has_no_order_nor_those_among_which_the_driver_chooses(options: dict[str, str]) -> None:
    assert Servers().attempts(options) == [options]


def test_a_server_that_does_not_answer_is_left_out_while_another_one_does(own_postgres: OwnPostgres) -> None:
    """The first connection waits for it, and the second does not. A server that answers and refuses does count."""
    folder = str(make_url(own_postgres.url).query["host"])
    silent = socket.create_server(("127.0.0.2", 0))
    with silent, tcp_front(f"{folder}/.s.PGSQL.5432") as port:
        servers, breaker = Servers(), DatabaseCircuitBreaker()
        places = {"host": "a,b", "hostaddr": "127.0.0.2,127.0.0.1", "port": f"{silent.getsockname()[1]},{port}"}
        options = {**places, "user": "postgres", "dbname": str(own_postgres.name), "connect_timeout": 2}
        BoundedConnection.open(breaker, (), options, servers).close()
        assert hosts(servers, options) == ["b", "a"]
        with pytest.raises(psycopg.OperationalError, match="does not exist"):
            BoundedConnection.open(breaker, (), options | {"dbname": "nothing"}, servers)
        assert not breaker.is_open


def test_no_further_server_is_tried_without_time_for_its_answer() -> None:
    """Of two servers that do not answer, a request with time for one tries the first; the next request begins with the
    second one."""
    with socket.create_server(("127.0.0.2", 0)) as first, socket.create_server(("127.0.0.3", 0)) as second:
        servers, breaker = Servers(), DatabaseCircuitBreaker()
        ports = f"{first.getsockname()[1]},{second.getsockname()[1]}"
        options = {"host": "a,b", "hostaddr": "127.0.0.2,127.0.0.3", "port": ports, "connect_timeout": 2}
        bounded_connection.begin_request(WaitBudget(MIN_CONNECT_SECONDS * 1.5, total=True))
        with pytest.raises(psycopg.errors.ConnectionTimeout):
            BoundedConnection.open(breaker, (), options, servers)
        assert (hosts(servers, options), breaker.is_open) == (["b", "a"], True)
        assert [servers.is_silent(server) for server in servers.attempts(options)] == [False, True]
