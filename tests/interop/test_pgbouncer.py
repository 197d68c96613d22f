"""The whole service behind PgBouncer in transaction mode (docs/databases.md#postgresql)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.support.launched import LaunchedService
from tests.support.own_postgres import own_postgres
from tests.support.servers import free_port, short_folder, wait_until

SETTINGS = """
[databases]
{name} = host={host} port={database_port} dbname={name} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
max_client_conn = 500
user = {owner}
logfile = {log}
"""


@contextmanager
def pgbouncer(folder: Path, database_url: str) -> Iterator[str]:
    """The URL that leads through it. Fewer connections to the server than the service has to it."""
    url, port = make_url(database_url), free_port()
    log = folder / "pgbouncer.log"
    folder.chmod(0o755)
    log.touch()
    log.chmod(0o666)  # it runs as the owner of the socket
    (folder / "pgbouncer.ini").write_text(
        SETTINGS.format(
            name=url.database,
            host=url.query["host"],
            database_port=url.port or 5432,
            user=url.username or "postgres",
            port=port,
            log=log,
            owner=Path(str(url.query["host"])).owner(),
        )
    )
    process = subprocess.Popen(["/usr/sbin/pgbouncer", str(folder / "pgbouncer.ini")], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: "process up" in log.read_text(), "PgBouncer is up")
        yield f"postgresql://{url.username or 'postgres'}@127.0.0.1:{port}/{url.database}"
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def service() -> Iterator[LaunchedService]:
    with ExitStack() as stack:
        server, folder = stack.enter_context(own_postgres()), stack.enter_context(short_folder())
        url = stack.enter_context(pgbouncer(folder, server.url))
        (folder / "service").mkdir()
        launched = LaunchedService(folder / "service", DATABASE_URL=url, WEB_WORKERS="2", SEND_WORKERS="2")
        launched.start()
        stack.callback(launched.clear)
        yield launched


def test_each_process_says_that_it_found_a_pooler(service: LaunchedService) -> None:
    assert "a pooler is between this process and PostgreSQL" in service.output()


def test_what_many_clients_send_at_once_arrives_once_and_every_answer_is_theirs(service: LaunchedService) -> None:
    """A prepared statement of another client's would answer with another client's rows."""
    numbers = range(300)

    def send_and_look(number: int) -> tuple[int, list[str]]:
        service.send([f"person{number}@example.com"], group_name=f"Group {number}")
        (group,) = service.get("/v1/transactional-groups", name=f"Group {number}")["_embedded"]["transactional-groups"]
        return number, [group["name"]]

    with ThreadPoolExecutor(12) as threads:
        answers = list(threads.map(send_and_look, numbers))
    assert answers == [(number, [f"Group {number}"]) for number in numbers]
    wait_until(lambda: service.mails() == len(numbers), "all mails are there")
    wait_until(
        lambda: [service.group(f"Group {number}")["delivered"] for number in (0, 150, 299)] == [1, 1, 1],
        "what was sent is counted",
    )
