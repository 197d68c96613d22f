"""The whole service behind PgBouncer in transaction mode (docs/databases.md#postgresql)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.support.launched import LaunchedService
from tests.support.own_postgres import own_postgres
from tests.support.pgbouncer import pgbouncer
from tests.support.servers import short_folder, wait_until


@pytest.fixture(scope="module")
def service() -> Iterator[LaunchedService]:
    with ExitStack() as stack:
        server, folder = stack.enter_context(own_postgres()), stack.enter_context(short_folder())
        url = stack.enter_context(pgbouncer(server.url, "transaction"))
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
