"""Connections to PostgreSQL on which every wait ends."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn, Self

import psycopg
from psycopg.abc import PQGen

from app.network.lookup import look_up

REQUEST_SECONDS = 7.0
"""Seconds in total. With what giving up may take beyond them, a response is sent within eight seconds."""
BACKGROUND_SECONDS = 30.0
COMMAND_SECONDS = 600.0
MIN_SECONDS = 0.05
"""Seconds; with less left no statement starts, since it would only be cancelled."""


class WaitBudget:
    """Seconds to wait for the database: per wait, or in `total`."""

    def __init__(self, seconds: float, *, total: bool = False, statement: float = math.inf) -> None:
        self.left = seconds
        self.may_have_committed = False
        """Whether the driver was asked to commit a transaction that a repeated request would write once more."""
        self._total = total
        self._statement = statement

    @property
    def is_spent(self) -> bool:
        """Whether no further statement may start."""
        return self.left < MIN_SECONDS

    def limit(self, least: float = 0.0) -> float | None:
        """Seconds that the next wait may take; None for no limit."""
        return None if self.left == math.inf else max(self.left, least)

    def statement_limit(self) -> float | None:
        """Seconds that a statement may take. Of a total budget, some are left for asking the server to cancel it."""
        if self._total and self.left != math.inf:
            return max(self.left - CANCEL_SECONDS, self.left / 2)
        limit = min(self.left, self._statement)
        return None if limit == math.inf else limit

    def shorten(self, seconds: float) -> None:
        """Reduces a total budget to at most that many seconds."""
        if self._total:
            self.left = min(self.left, seconds)

    def measured(self) -> _Stopwatch:
        """Subtracts the time that a `with` block takes from a total budget. Blocks may be nested."""
        return _Stopwatch(self)

    def spend(self, seconds: float, before: float) -> None:
        """Subtracts seconds from what was left before they began."""
        if self._total:
            self.left = min(self.left, before - seconds)


class _Stopwatch:
    """A context manager as a class: a request enters eight, and one made of a generator costs twice as much."""

    __slots__ = ("_before", "_began", "_budget")

    def __init__(self, budget: WaitBudget) -> None:
        self._budget = budget

    def __enter__(self) -> None:
        self._before, self._began = self._budget.left, time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._budget.spend(time.monotonic() - self._began, self._before)


_current: ContextVar[WaitBudget | None] = ContextVar("wait_budget", default=None)
_background = WaitBudget(BACKGROUND_SECONDS)


def current() -> WaitBudget:
    """The budget of the current request or command; in other threads, that of background work."""
    return _current.get() or _background


def begin_request(budget: WaitBudget | None = None) -> None:
    """Gives the request that begins in this context its own budget, a full one by default."""
    _current.set(budget or request_budget())


def request_budget() -> WaitBudget:
    """What a request may wait for the database in total."""
    return WaitBudget(REQUEST_SECONDS, total=True)


def end_request() -> None:
    _current.set(None)


@contextmanager
def limit_waits(seconds: float) -> Iterator[None]:
    """Inside the block each wait takes at most that many seconds; `math.inf` means no limit."""
    token = _current.set(WaitBudget(seconds))
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def repeatable_commits() -> Iterator[None]:
    """Around transactions that may be committed once more when the request is repeated."""
    budget = current()
    before = budget.may_have_committed
    try:
        yield
    finally:
        budget.may_have_committed = before


@contextmanager
def limit_statements(seconds: float) -> Iterator[None]:
    """Inside the block of background work each statement takes at most that many seconds. A commit, which is not
    cancelled but lost, may take as long as otherwise."""
    token = _current.set(WaitBudget(BACKGROUND_SECONDS, statement=seconds))
    try:
        yield
    finally:
        _current.reset(token)


PROBE_INTERVAL = 1.0
"""Seconds between two probes of a server that did not answer."""
PROBE_SECONDS = 2.0
"""Seconds that a probing request waits."""


class DatabaseCircuitBreaker:
    """One per engine. A timeout opens it, any answer closes it; while it is open one request at a time probes."""

    def __init__(self) -> None:
        self.is_open = False
        self.failing_since: float | None = None
        """When the first request failed that no successful statement has followed, on the monotonic clock."""
        self.failed_at = -math.inf
        """When something failed last, if only for taking too long."""
        self._lock = threading.Lock()
        self._next_probe = 0.0

    def open(self, waited: float) -> None:
        """The server answered neither within that many seconds nor to the request to cancel."""
        with self._lock:
            self.is_open = True
            self._next_probe = time.monotonic() + PROBE_INTERVAL
        self.note_failure(waited)

    def close(self) -> None:
        """The server has answered, even if with an error."""
        self.is_open = False

    def note_failure(self, waited: float = 0.0) -> float:
        """The database has failed a request, which began to wait so many seconds ago. Returns for how many seconds it
        has been failing."""
        self.failed_at = moment = time.monotonic()
        with self._lock:
            if self.failing_since is None:
                self.failing_since = moment - waited
            return moment - self.failing_since

    def note_success(self) -> None:
        """A statement was executed."""
        self.is_open, self.failing_since = False, None

    def check(self, budget: WaitBudget) -> None:
        """Raises `psycopg.OperationalError` for a request that must not use the server now."""
        if budget.is_spent:
            raise psycopg.OperationalError("the database has not answered in time")
        if not self.is_open:
            return
        with self._lock:
            if self.is_open and time.monotonic() < self._next_probe:
                raise psycopg.OperationalError("the database did not answer others a moment ago")
            self._next_probe = time.monotonic() + PROBE_SECONDS
        budget.shorten(PROBE_SECONDS)


PORT = "5432"


def with_addresses(options: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The driver's options, with `hostaddr` for each host in `host`: one entry per address, in the order given.

    Raises `psycopg.OperationalError` if no host has an address, and its subclass `ConnectionTimeout` if that is because
    of a name server that does not answer within `seconds`.
    """
    hosts = str(options.get("host") or "").split(",")
    if options.get("hostaddr") or not all(hosts) or any(_is_socket(host) for host in hosts):
        return options
    ports = str(options.get("port") or PORT).split(",")
    if len(ports) == 1:
        ports *= len(hosts)
    places, failure = _places(zip(hosts, ports, strict=False), seconds / len(hosts))
    if not places:
        raise _error(failure)
    host, port, address = (",".join(parts) for parts in zip(*places, strict=True))
    return {**options, "host": host, "port": port, "hostaddr": address}


def _places(hosts: Any, seconds: float) -> tuple[list[tuple[str, str, str]], OSError | None]:
    """Host, port and address of each address, and the last failure."""
    places: list[tuple[str, str, str]] = []
    failure: OSError | None = None
    for host, port in hosts:
        try:
            places += [(host, port or PORT, address) for address in look_up(host, seconds)]
        except OSError as error:
            failure = error
    return places, failure


def _is_socket(host: str) -> bool:
    """Whether a host is the folder of a Unix socket, or an abstract one."""
    return host[0] in "/@"


def _error(failure: OSError | None) -> psycopg.OperationalError:
    if isinstance(failure, TimeoutError):
        return psycopg.errors.ConnectionTimeout(str(failure))
    return psycopg.OperationalError(f"the host of the database cannot be looked up: {failure}")


SILENT_SECONDS = 10.0
"""Seconds for which a server is not tried again that has not answered, while others do."""
ALTERNATIVES = ("prefer-standby", "random")
"""Values of options by which the driver chooses among all servers."""


class Servers:
    """The servers in the URL of a database, as this process knows them. It takes seconds to find out that one is lost
    without saying so: the others are tried first, and it is left out for a while if any of them answers."""

    def __init__(self) -> None:
        self._last: str | None = None
        self._silent_until: dict[str, float] = {}

    def attempts(self, options: dict[str, Any]) -> list[dict[str, Any]]:
        """The options for each server, in the order in which they are tried: first the one to which the last connection
        was opened, last those that are silent."""
        names = ("host", "port", "hostaddr")
        parts = [str(options.get(name) or "").split(",") for name in names]
        chooses = {options.get("target_session_attrs"), options.get("load_balance_hosts")} & set(ALTERNATIVES)
        count = len(parts[0])
        if chooses or count < 2 or any(len(values) != count for values in parts):
            return [options]
        servers = [options | dict(zip(names, values, strict=True)) for values in zip(*parts, strict=True)]
        return sorted(servers, key=lambda server: (self.is_silent(server), server["hostaddr"] != self._last))

    def is_silent(self, server: dict[str, Any]) -> bool:
        """Whether the server did not answer a moment ago."""
        return time.monotonic() < self._silent_until.get(str(server.get("hostaddr")), 0.0)

    def note_success(self, server: dict[str, Any]) -> None:
        """A connection to this server was opened."""
        self._last = str(server.get("hostaddr"))
        self._silent_until.pop(self._last, None)

    def note_silence(self, server: dict[str, Any]) -> None:
        """The server has not answered."""
        self._silent_until[str(server.get("hostaddr"))] = time.monotonic() + SILENT_SECONDS


CONNECT_SECONDS = 3
MIN_CONNECT_SECONDS = 2
RESERVED_SECONDS = {"commit": 2.0, "rollback": 0.5, "reset": 0.5, "connection": 0.5}
"""Time that remains, whatever the budget, for ending a transaction or opening a connection: without waiting for a
commit, its outcome is unknown."""
CANCEL_SECONDS = 1.0
"""For the request to cancel a statement, and again for its answer."""


class BoundedConnection(psycopg.Connection[Any]):
    """The driver's connection with a time limit on every wait.

    A statement that takes too long is cancelled, so that the server does not continue work that no client waits for. A
    server that does not answer the cancel request either hangs or cannot be reached: the connection is closed. A
    commit is not cancelled: while it waits for a standby it is done already, and its outcome remains unknown.
    """

    circuit_breaker: DatabaseCircuitBreaker
    is_new = True
    """Not yet handed out by the pool: the code that opens it does not close it if a statement fails."""
    _ending: str | None = None
    """Whether a commit, rollback or reset is under way."""
    _is_unreplicated = False

    @classmethod
    def open(
        cls,
        circuit_breaker: DatabaseCircuitBreaker,
        arguments: tuple[Any, ...],
        options: dict[str, Any],
        servers: Servers,
    ) -> Self:
        """A new connection. Raises `psycopg.OperationalError`."""
        limit, began = current().limit(MIN_CONNECT_SECONDS), time.monotonic()
        seconds = int(min(limit or CONNECT_SECONDS, CONNECT_SECONDS))
        latest = math.inf if limit is None else began + limit - MIN_CONNECT_SECONDS
        with current().measured():
            try:
                options = with_addresses({"connect_timeout": seconds, **options}, seconds)
                connection = cls._connect(arguments, options, servers, latest)
            except psycopg.errors.ConnectionTimeout:
                circuit_breaker.open(seconds)
                raise
            except psycopg.OperationalError:
                circuit_breaker.close()
                raise
        circuit_breaker.close()
        connection.circuit_breaker = circuit_breaker
        connection.add_notice_handler(connection._note_unreplicated)
        return connection

    @classmethod
    def _connect(cls, arguments: tuple[Any, ...], options: dict[str, Any], servers: Servers, latest: float) -> Self:
        """A connection to the first server that takes it; another one is tried until `latest`, on the monotonic clock.
        Raises the last error of those that have answered, or a timeout if none has."""
        refusal: psycopg.OperationalError | None = None
        has_timed_out = False
        for server in servers.attempts(options):
            if (refusal and servers.is_silent(server)) or (has_timed_out and time.monotonic() > latest):
                break
            try:
                connection = cls.connect(*arguments, **server)
            except psycopg.errors.ConnectionTimeout as error:
                servers.note_silence(server)
                timeout, has_timed_out = error, True
            except psycopg.OperationalError as error:
                refusal = error
            else:
                servers.note_success(server)
                return connection
        raise refusal or timeout

    def commit(self) -> None:
        """Raises `psycopg.OperationalError`, also for a commit that no standby has confirmed; the connection is closed
        then, and the outcome unknown."""
        current().may_have_committed = True
        with self._ending_with("commit"):
            super().commit()
        if self._is_unreplicated:
            self.pgconn.finish()
            raise psycopg.OperationalError("no standby has confirmed the commit")

    def _note_unreplicated(self, notice: psycopg.errors.Diagnostic) -> None:
        """A commit that waits for a standby ends with a warning, and as a success, if somebody cancels it."""
        if self._ending == "commit" and notice.source_function == "SyncRepWaitForLSN":
            self._is_unreplicated = True

    def rollback(self) -> None:
        with self._ending_with("rollback"):
            super().rollback()

    def set_autocommit(self, value: bool) -> None:
        """The pool resets it when a connection is returned, and would leak one that raises."""
        if not self.closed:
            with self._ending_with("reset"):
                super().set_autocommit(value)

    def set_isolation_level(self, value: psycopg.IsolationLevel | None) -> None:
        """Like `set_autocommit`."""
        if not self.closed:
            with self._ending_with("reset"):
                super().set_isolation_level(value)

    def use_transactions(self, value: bool) -> None:
        """Whether the next statement begins a transaction: the opposite of the driver's `autocommit`, without the lock
        and the wait with which that is changed, which a connection between two transactions does not need."""
        self._autocommit = not value

    @contextmanager
    def _ending_with(self, operation: str) -> Iterator[None]:
        self._ending = operation
        try:
            yield
        finally:
            self._ending = None

    def wait(self, gen: PQGen[Any], interval: float = 0.1, timeout: float | None = None) -> Any:
        """The driver's wait for the server. Raises `psycopg.OperationalError` when it has taken too long."""
        limit = self._limit() if timeout is None else timeout
        began = time.monotonic()
        with current().measured():
            try:
                result = super().wait(gen, interval, limit)
            except psycopg.OperationalError:
                if limit is None or time.monotonic() - began < limit:
                    raise  # an error of the server or of the network, not of the limit
                self._give_up(gen, limit)
        if self.circuit_breaker.failing_since is not None:
            self.circuit_breaker.note_success()
        return result

    def _limit(self) -> float | None:
        """Seconds. A transaction that has begun can always be ended."""
        if self._ending or self.is_new:
            return current().limit(RESERVED_SECONDS[self._ending or "connection"])
        if current().is_spent:
            raise psycopg.errors.QueryCanceled("the request has waited for the database for too long")
        return current().statement_limit()

    def _give_up(self, gen: PQGen[Any], seconds: float) -> NoReturn:
        self.circuit_breaker.failed_at = time.monotonic()
        if self._ending != "commit" and not self.is_new and self._is_cancelled():
            try:
                super().wait(gen, timeout=CANCEL_SECONDS)
            except psycopg.errors.QueryCanceled:
                raise
            except psycopg.Error:
                pass
        elif self._ending != "commit":
            self.circuit_breaker.open(seconds)
        self.pgconn.finish()
        raise psycopg.OperationalError(f"the database has not answered within {seconds:.1f} seconds")

    def _is_cancelled(self) -> bool:
        """Whether the server accepted the cancel request."""
        try:
            self.cancel_safe(timeout=CANCEL_SECONDS)
        except psycopg.Error:
            return False
        return True
