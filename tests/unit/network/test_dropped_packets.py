"""A network that drops packets: connecting ends at its deadline, and the kernel of each connection to PostgreSQL and
Redis checks for a peer that has vanished (docs/databases.md#database-outages).
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from redis import Redis
from redis.exceptions import TimeoutError as RedisTimeoutError
from sqlalchemy import make_url

from app.db.bounded_connection import MIN_CONNECT_SECONDS, BoundedConnection, DatabaseCircuitBreaker, Servers
from app.db.database import Database
from app.infrastructure.redis_client import connect_redis
from app.network.connections import connect
from tests.support.fronts import tcp_front

pytestmark = pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="options of Linux")

KEEPALIVE_OF_POSTGRESQL = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 8000}
KEEPALIVE_OF_REDIS = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
LIMITS_OF_THE_SERVER = {
    "statement_timeout": "600000",
    "idle_in_transaction_session_timeout": "60000",
    "tcp_keepalives_idle": "2",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "5000",
}


def options_of(descriptor: int, names: dict[str, int]) -> dict[str, int]:
    """The options of a connected socket, as the kernel has them."""
    with socket.socket(fileno=socket.dup(descriptor)) as connected:
        assert connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        return {name: connected.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in names}


def connected_socket(connection: Any) -> socket.socket:
    """The socket of the library's connection."""
    assert isinstance(connection._sock, socket.socket)
    return connection._sock


@pytest.fixture
def tcp_postgres(postgres: str) -> Iterator[str]:
    """The URL of the PostgreSQL server over TCP."""
    folder = str(make_url(postgres).query["host"])
    with tcp_front(f"{folder}/.s.PGSQL.5432") as port:
        yield make_url(postgres).set(host="127.0.0.1", port=port, query={}).render_as_string(hide_password=False)


@pytest.fixture
def tcp_redis(redis_url: str) -> Iterator[Redis]:
    with tcp_front(urlsplit(redis_url).path) as port, connect_redis(f"redis://127.0.0.1:{port}/0") as client:
        yield client


@pytest.fixture
def black_hole() -> Iterator[int]:
    """A port that answers no packet: the queue of its listener is full, so the kernel drops further attempts."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        port = int(listener.getsockname()[1])
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        yield port


def test_a_connection_to_postgresql_has_the_kernel_check_its_peer(tcp_postgres: str) -> None:
    database = Database(tcp_postgres)
    try:
        with database.engine.connect() as connection:
            driver = connection.connection.driver_connection
            assert isinstance(driver, BoundedConnection)
            assert options_of(driver.fileno(), KEEPALIVE_OF_POSTGRESQL) == KEEPALIVE_OF_POSTGRESQL
    finally:
        database.close()


def test_the_server_is_told_to_check_its_client_likewise(tcp_postgres: str) -> None:
    """A server that did not check would keep the locks of a client that has vanished."""
    database = Database(tcp_postgres)
    try:
        with database.engine.connect() as connection:
            driver = connection.connection.driver_connection
            assert isinstance(driver, BoundedConnection)
            options = driver.info.get_parameters()["options"].split("-c ")
            settings = dict(option.strip().split("=") for option in options if option)
            assert {name: settings[name] for name in LIMITS_OF_THE_SERVER} == LIMITS_OF_THE_SERVER
    finally:
        database.close()


def test_a_connection_to_redis_has_the_kernel_check_its_peer(tcp_redis: Redis) -> None:
    assert tcp_redis.ping()
    connection = tcp_redis.connection_pool.get_connection()
    try:
        assert options_of(connected_socket(connection).fileno(), KEEPALIVE_OF_REDIS) == KEEPALIVE_OF_REDIS
        assert (connection.socket_connect_timeout, connection.socket_timeout) == (2, 5)
    finally:
        tcp_redis.connection_pool.release(connection)


def test_connecting_to_a_host_that_drops_packets_ends_at_its_deadline(black_hole: int) -> None:
    with pytest.raises(TimeoutError):
        connect("127.0.0.1", black_hole, 0.05)


def test_redis_behind_a_network_that_drops_packets_is_a_timeout(black_hole: int) -> None:
    with pytest.raises(RedisTimeoutError):
        connect_redis(f"redis://127.0.0.1:{black_hole}/0?socket_connect_timeout=0.05").ping()


def test_postgresql_behind_a_network_that_drops_packets_opens_the_circuit_breaker(
    black_hole: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.db.bounded_connection.CONNECT_SECONDS", MIN_CONNECT_SECONDS)
    circuit_breaker = DatabaseCircuitBreaker()
    options = {"host": "127.0.0.1", "port": black_hole, "dbname": "x", "user": "x"}
    with pytest.raises(psycopg.errors.ConnectionTimeout):
        BoundedConnection.open(circuit_breaker, (), options, Servers())
    assert circuit_breaker.is_open
