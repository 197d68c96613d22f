"""Reports that are read from a replica of PostgreSQL (docs/databases.md#a-replica-for-reports)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
from sqlalchemy import delete, insert, update

from app.clock import now
from app.db.models import Group, RunningProcess
from app.settings import SettingsError, from_environment
from tests.conftest import test_settings
from tests.support.apps import app_with
from tests.support.browser import signed_in
from tests.support.own_postgres import OwnPostgres, Replica, own_postgres, replica_of
from tests.support.sends import AcceptedSend, SendsApi
from tests.support.servers import short_folder, wait_until
from tests.support.tenants import new_tenant

GROUPS = "/v1/transactional-groups"


@pytest.fixture(scope="module")
def primary() -> Iterator[OwnPostgres]:
    with own_postgres(migrated=True) as server:
        yield server


@pytest.fixture(scope="module")
def replica(primary: OwnPostgres) -> Iterator[Replica]:
    with replica_of(primary) as made:
        yield made


@contextmanager
def sends_with(primary: OwnPostgres, read_url: str, redis_url: str) -> Iterator[SendsApi]:
    with short_folder() as folder:
        settings = test_settings(folder, DATABASE_URL=primary.url, DATABASE_READ_URL=read_url, REDIS_URL=redis_url)
        with app_with(settings) as app:
            yield SendsApi(new_tenant(app))


@pytest.fixture
def sends(primary: OwnPostgres, replica: Replica, redis_url: str) -> Iterator[SendsApi]:
    """Sends of a service whose reports come from the replica."""
    with sends_with(primary, replica.url, redis_url) as made:
        beat(made)
        yield made


def beat(sends: SendsApi, age: timedelta = timedelta(0)) -> None:
    """The only heartbeat of the installation is so old."""
    moment = now()
    row = {"name": "a", "roles": "api", "host": "a", "version": "1", "start_time": moment, "seen_time": moment - age}
    with sends.tenant.services.database.write() as transaction:
        transaction.execute(delete(RunningProcess))
        transaction.execute(insert(RunningProcess).values(**row))


def group_sent(sends: SendsApi, sent: AcceptedSend) -> int:
    """The `sent` that the report of the group says."""
    answer = sends.tenant.api.get(f"{GROUPS}/{sent.group.id}")
    assert answer.status_code == 200
    number: int = answer.get_json()["sent"]
    return number


def set_sent(sends: SendsApi, sent: AcceptedSend, number: int) -> None:
    """Changes the counter of a group, as the outcomes of a sender do."""
    with sends.tenant.services.database.write() as transaction:
        transaction.execute(update(Group).where(Group.id == sent.group.id).values(sent=number))


def test_reports_come_from_the_replica_and_everything_else_from_the_database(sends: SendsApi, replica: Replica) -> None:
    sent = sends.send(sends.email())
    wait_until(lambda: is_replicated(sends, sent), "the send is replicated")
    before = group_sent(sends, sent)
    with replica.paused():
        set_sent(sends, sent, before + 5)
        assert group_sent(sends, sent) == before
        lists = sends.tenant.add_list()
        assert sends.tenant.api.get(f"/v1/lists/{lists}").status_code == 200
    wait_until(lambda: group_sent(sends, sent) == before + 5, "the replica has caught up")


def is_replicated(sends: SendsApi, sent: AcceptedSend) -> bool:
    replica = sends.tenant.services.replica
    assert replica is not None
    with replica.read() as session:
        return session.get(Group, sent.group.id) is not None


def test_what_an_account_has_just_sent_is_in_its_reports(sends: SendsApi, replica: Replica) -> None:
    with replica.paused():
        sent = sends.send(sends.email(group_name="Just now"))
        assert group_sent(sends, sent) == 1
        (group,) = sends.tenant.api.get(GROUPS, query_string={"name": "Just now"}).get_json()["_embedded"][
            "transactional-groups"
        ]
        assert group["id"] == sent.group.id
        uuids = [item["uuid"] for item in recipients(sends)]
        assert uuids == [row.uuid for row in sent.recipients]


def recipients(sends: SendsApi) -> list[dict[str, object]]:
    """The recipients of the account's sends."""
    items: list[dict[str, object]] = sends.tenant.api.get("/v1/transactional-sends").get_json()["_embedded"][
        "recipients"
    ]
    return items


def test_the_console_says_how_old_the_figures_of_a_report_may_be(sends: SendsApi) -> None:
    sent = sends.send(sends.email())
    page = signed_in(sends.tenant).get(f"/console/groups/{sent.group.id}")
    assert "the figures may be 30 seconds old" in page.text


def test_a_replica_that_is_too_far_behind_is_not_read(
    sends: SendsApi, replica: Replica, caplog: pytest.LogCaptureFixture
) -> None:
    sent = sends.send(sends.email())
    beat(sends, timedelta(seconds=26))
    wait_until(lambda: is_replicated(sends, sent), "the send is replicated")
    with replica.paused():
        set_sent(sends, sent, 7)
        assert group_sent(sends, sent) == 7
    assert "more than 30 seconds behind" in caplog.text


def test_while_the_replica_is_away_reports_come_from_the_database(primary: OwnPostgres, redis_url: str) -> None:
    with replica_of(primary) as lost, sends_with(primary, lost.url, redis_url) as sends:
        beat(sends)
        sent = sends.send(sends.email())
        wait_until(lambda: is_replicated(sends, sent), "the send is replicated")
        assert group_sent(sends, sent) == 1
        lost.stop()
        assert [group_sent(sends, sent) for _ in range(2)] == [1, 1]


def test_a_replica_is_one_of_postgresql() -> None:
    with pytest.raises(SettingsError, match="DATABASE_READ_URL"):
        from_environment({"DATABASE_READ_URL": "sqlite:////tmp/replica.sqlite3"})
