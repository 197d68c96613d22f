"""Content and recipients are purged after their retention, and nothing before (docs/retention.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete, select, text, update
from sqlalchemy.exc import OperationalError

from app.clock import now
from app.db import history_ranges
from app.db.bounded_connection import limit_waits
from app.db.database import Transaction
from app.db.models import (
    Account,
    Attachment,
    DelayedPurge,
    Group,
    PurgePosition,
    QueueEntry,
    Recipient,
    RecipientStep,
    Remains,
    ReplyPart,
    Send,
    SendLink,
    table_of,
)
from app.db.remains import compact, file_size, mark_remains
from app.inbound.smpp import REASSEMBLY_TIMEOUT
from app.infrastructure.metrics import SWEEPS
from app.maintenance import history, purging
from app.maintenance.figures import read_figures
from app.maintenance.purging import Purger, drop_old_ranges, purge_all
from app.recipients.row import add_steps, step_row
from app.recipients.states import UNSETTLED_STATES
from app.recipients.timeline import TimelineStep
from app.retention import slices
from app.retention.periods import Period, Stage, periods
from app.retention.slices import purge
from app.services import Services
from app.tracking.feedback_channels import unsubscribe_link
from app.tracking.links import StoredLink, link_token
from app.tracking.recorder import VISITS
from jobs import maintenance
from tests.cli.conftest import Cli
from tests.databases.running import alone
from tests.support.client import SENDS, Client
from tests.support.databases import BACKENDS
from tests.support.rows import Rows
from tests.support.servers import PATIENCE, wait_until
from tests.support.statements import StatementCounter
from tests.support.tenants import Tenant, new_tenant, unique

DAY = timedelta(days=1)
CONTENT, RECIPIENTS = Stage.CONTENT, Stage.RECIPIENTS
TARGET = "https://shop.example/sale"


@dataclass
class SentMessages:
    """An account of its own, with what is kept of it."""

    tenant: Tenant
    rows: Rows

    @property
    def services(self) -> Services:
        return self.tenant.services

    def add(self, *states: str, days: float = 8, **columns: Any) -> list[int]:
        """A send of so many days ago, to a recipient in each state, settled at once, with values and attachments."""
        moment = now() - days * DAY
        people = [
            {
                "email": f"{unique()}@example.com",
                "values": {"code": "1234"},
                "state": state,
                "sent_time": moment if state == "delivered" else None,
                "attachments": [("own.txt", "text/plain", b"own")],
            }
            for state in states
        ]
        shared = [("all.txt", "text/plain", b"all")]
        content = {"body_html": "<p>%%code%%</p>", **columns}
        return self.rows.add_send(people, attachments=shared, accepted=moment, **content)

    def gave_up(self, recipient_id: int, days: float, step: TimelineStep = TimelineStep.BOUNCED) -> None:
        """The outcome of that many days ago."""
        with self.services.database.write() as transaction:
            row = step_row(self.tenant.id, recipient_id, step, "550 no such user", now() - days * DAY)
            add_steps(transaction, [row])

    def purge(self, stage: Stage, days: float | None, after: float = 0) -> int:
        """Purges as if so many days had passed, with a retention of `days`."""
        retention = None if days is None else days * DAY
        moment = now() + after * DAY
        return purge(self.services, stage, [Period(self.tenant.id, retention)], moment)

    def send_of(self, recipient_id: int) -> Send:
        with self.services.database.read() as session:
            return session.get_one(Send, self.rows.recipient(recipient_id).send_id)

    def has_content(self, recipient_id: int) -> bool:
        """Whether all of it is there; not if a part is left."""
        send, recipient = self.send_of(recipient_id), self.rows.recipient(recipient_id)
        files = self.scalars(select(Attachment.id).where(Attachment.send_id == send.id))
        parts = [send.subject, send.body_html, send.body_text, recipient.values, files]
        assert all(parts) or not any(parts), parts
        assert (send.content_purged_time is None) == all(parts)
        return all(parts)

    def scalars(self, statement: Any) -> list[Any]:
        with self.services.database.read() as session:
            return list(session.scalars(statement))

    def ids(self, column: Any) -> list[Any]:
        """The column of the account's rows."""
        return self.scalars(select(column).where(table_of(column.class_).c.account_id == self.tenant.id))

    def delayed(self) -> list[int]:
        return self.ids(DelayedPurge.send_id)


@pytest.fixture(scope="module", params=BACKENDS)
def own_tenant(request: pytest.FixtureRequest) -> Iterator[Tenant]:
    """An account in a database of its own."""
    with alone(request.getfixturevalue("postgres") if request.param == "postgresql" else None) as parts:
        yield parts.tenant


@pytest.fixture
def kept(own_tenant: Tenant) -> SentMessages:
    """A new account in a database without other accounts' sends."""
    with own_tenant.services.database.write() as transaction:
        for model in (QueueEntry, RecipientStep, Recipient, Send, Group, Remains, Account):
            transaction.execute(delete(model))
    tenant = new_tenant(own_tenant.app)
    return SentMessages(tenant, Rows(tenant.services, tenant.id))


# ------------------------------------------------------------------------------------------------ content


def test_content_is_purged_after_the_last_outcome_and_nothing_else(kept: SentMessages) -> None:
    ids = kept.add("delivered", "delivered")
    young = kept.add("delivered", days=6)[0]
    before = [kept.rows.recipient(recipient_id) for recipient_id in ids]
    assert kept.purge(CONTENT, 7) == 1
    assert [kept.has_content(recipient_id) for recipient_id in (*ids, young)] == [False, False, True]
    for recipient_id, was in zip(ids, before, strict=True):
        purged_columns = {**vars(kept.rows.recipient(recipient_id)), "values": was.values}
        assert purged_columns == vars(was)
    send = kept.send_of(ids[0])
    assert (send.from_address, send.group_id, send.list_id) == ("hello@acme.example", before[0].group_id, None)


def test_a_send_with_a_recipient_that_is_not_settled_keeps_its_content_until_the_retention_after_its_outcome(
    kept: SentMessages,
) -> None:
    """However long it takes."""
    waiting = []
    for state in UNSETTLED_STATES:
        waiting.append(kept.add("delivered", "queued")[1])
        kept.rows.change(waiting[-1:], state=state)
    assert kept.purge(CONTENT, 7) == 0
    assert all(map(kept.has_content, waiting))
    assert len(kept.delayed()) == 6
    kept.rows.change(waiting, state="delivered", sent_time=now() + DAY)
    assert kept.purge(CONTENT, 7, after=7.5) == 0
    assert all(map(kept.has_content, waiting))
    assert kept.purge(CONTENT, 7, after=8.5) == 6
    assert not any(map(kept.has_content, waiting))
    assert kept.delayed() == []


def test_a_bounce_that_comes_late_is_an_outcome(kept: SentMessages) -> None:
    """A failure, likewise, which has no time but that of its step."""
    late = [kept.add("bounced")[0], kept.add("failed")[0]]
    kept.gave_up(late[0], days=2)
    kept.gave_up(late[1], days=3, step=TimelineStep.FAILED)
    assert kept.purge(CONTENT, 7) == 0
    assert [kept.purge(CONTENT, 7, after=days) for days in (3.9, 4.1, 4.9, 5.1)] == [0, 1, 0, 1]


def test_a_visit_is_no_outcome(kept: SentMessages) -> None:
    (recipient_id,) = kept.add("delivered")
    kept.gave_up(recipient_id, days=1, step=TimelineStep.OPENED)
    assert kept.purge(CONTENT, 7) == 1


def test_a_send_that_was_accepted_under_a_wrong_clock_does_not_hold_up_the_others(kept: SentMessages) -> None:
    """A send with a time in the future counts as delayed. It is looked at again each time that the retention has
    passed."""
    ahead, old = kept.add("delivered", days=-400)[0], kept.add("delivered")[0]
    assert kept.purge(CONTENT, 7) == 1
    assert [kept.has_content(recipient_id) for recipient_id in (ahead, old)] == [True, False]
    assert [kept.purge(CONTENT, 7, after=days) for days in (1, 8, 406, 412, 414)] == [0, 0, 0, 0, 1]


def test_off_keeps_for_ever_and_another_retention_applies_at_once(kept: SentMessages) -> None:
    (recipient_id,) = kept.add("delivered", days=900)
    assert kept.purge(CONTENT, None) == 0
    assert kept.purge(CONTENT, 1000) == 0
    assert kept.has_content(recipient_id)
    assert kept.purge(CONTENT, 800) == 1


def test_an_account_may_have_a_retention_of_its_own(kept: SentMessages) -> None:
    cli, services = Cli(kept.tenant.app), kept.services
    assert cli.json("accounts", "update", kept.tenant.name, "--retain-content", "12H")["retain_content"] == "12h"
    with services.database.read() as session:
        assert periods(session, services.settings, CONTENT) == [Period(kept.tenant.id, timedelta(hours=12))]
        assert periods(session, services.settings, RECIPIENTS) == [Period(kept.tenant.id, 400 * DAY)]
    cli.text("accounts", "update", kept.tenant.name, "--retain-content", "off")
    with services.database.read() as session:
        assert periods(session, services.settings, CONTENT) == [Period(kept.tenant.id, None)]
    account = cli.json("accounts", "update", kept.tenant.name, "--retain-content", "")
    assert account["retain_content"] is None
    asked = cli.refused("accounts", "update", kept.tenant.name, "--retain-recipients", "0d")
    assert asked.startswith("retain_recipients: '0d' must be a number of hours, days or weeks such as 12h, 7d or 4w")


def test_accounts_are_purged_apart(kept: SentMessages) -> None:
    """Content is purged after seven days by default."""
    services, other = kept.services, new_tenant(kept.tenant.app)
    others = SentMessages(other, Rows(services, other.id))
    ours, theirs, young = kept.add("delivered")[0], others.add("delivered")[0], kept.add("delivered", days=6.9)[0]
    Cli(other.app).text("accounts", "update", other.name, "--retain-content", "30d")
    purge_all(services)
    assert [kept.has_content(ours), others.has_content(theirs), kept.has_content(young)] == [False, True, True]


def test_retrying_what_was_purged_is_refused(kept: SentMessages) -> None:
    purged, young = kept.add("bounced")[0], kept.add("bounced", days=6)[0]
    kept.gave_up(purged, days=8)
    kept.purge(CONTENT, 7)
    cli, uuids = Cli(kept.tenant.app), [kept.rows.recipient(recipient_id).uuid for recipient_id in (purged, young)]
    moment = kept.send_of(purged).content_purged_time
    assert moment is not None
    at = f"{moment:%Y-%m-%dT%H:%M:%SZ}"
    asked = cli.refused("sends", "retry", uuids[0])
    assert asked == f"uuid: its content was purged at {at} (RETAIN_CONTENT); make a new send"
    assert kept.rows.states([purged]) == ["bounced"]
    assert cli.json("sends", "retry", uuids[1])["state"] == "queued"
    explained = cli.text("sends", "explain", uuids[0])
    assert f"its content was purged at {at} (RETAIN_CONTENT); make a new send." in explained
    assert cli.json("sends", "show", uuids[1])["content_purged_time"] is None


def test_links_of_a_message_go_on_working_without_its_content(kept: SentMessages) -> None:
    (recipient_id,) = kept.add("delivered")
    send = kept.send_of(recipient_id)
    link_id = kept.tenant.add(SendLink, send_id=send.id, link_type="html_email", url=TARGET)
    kept.purge(CONTENT, 7)
    settings, anon = kept.services.settings, Client(kept.tenant.app)
    followed = anon.get(f"/c/{link_token(settings.secret_key, StoredLink(recipient_id, link_id))}")
    assert (followed.status_code, followed.headers["Location"]) == (302, TARGET)
    assert kept.tenant.app.extensions[VISITS].flush(PATIENCE)
    path = unsubscribe_link(settings, recipient_id).removeprefix(settings.public_url)
    assert anon.request("POST", path).status_code == 200
    assert [step for step, _ in kept.rows.steps(recipient_id)] == ["clicked", "unsubscribed"]


def test_the_api_shows_when_content_was_purged(kept: SentMessages) -> None:
    purged, young = kept.add("delivered")[0], kept.add("delivered", days=6)[0]
    kept.purge(CONTENT, 7)
    moment = kept.send_of(purged).content_purged_time
    assert moment is not None
    bodies = [
        kept.tenant.api.get(f"{SENDS}/{kept.rows.recipient(recipient_id).uuid}").get_json()
        for recipient_id in (purged, young)
    ]
    assert [body["content_purged_time"] for body in bodies] == [f"{moment:%Y-%m-%dT%H:%M:%SZ}", None]


# ------------------------------------------------------------------------------------------------ recipients


def test_recipients_are_purged_with_all_that_belongs_to_them_and_counts_of_groups_stay(kept: SentMessages) -> None:
    old, young = kept.add("delivered", "bounced", days=401), kept.add("delivered", days=399)
    kept.gave_up(old[1], days=401)
    with kept.services.database.write() as transaction:
        transaction.execute(update(Group).values(own_sent=2, own_bounced=1))
    kept.tenant.add(SendLink, send_id=kept.send_of(old[0]).id, link_type="html_email", url=TARGET)
    uuid, send = kept.rows.recipient(old[0]).uuid, kept.send_of(young[0])
    groups = sorted(kept.ids(Group.id))
    assert kept.purge(RECIPIENTS, 400) == 1
    assert (kept.ids(Recipient.id), kept.ids(Send.id)) == (young, [send.id])
    assert (kept.ids(RecipientStep.id), kept.ids(SendLink.id)) == ([], [])
    assert len(kept.ids(Attachment.id)) == 2
    assert kept.tenant.api.get(f"{SENDS}/{uuid}").status_code == 404
    assert sorted(kept.ids(Group.id)) == groups
    assert {group["bounced"] for group in Cli(kept.tenant.app, kept.tenant.name).json("groups", "list")} == {1}


@pytest.mark.parametrize("state", ["held", "paused", "scheduled"])
def test_recipients_that_are_not_settled_stay(kept: SentMessages, state: str) -> None:
    (waiting,) = kept.add("queued", days=401)
    kept.rows.change([waiting], state=state)
    assert kept.purge(RECIPIENTS, 400) == 0
    assert kept.ids(Recipient.id) == [waiting]
    kept.rows.change([waiting], state="failed")
    assert [kept.purge(RECIPIENTS, 400, after=days) for days in (399, 400.1)] == [0, 1]
    assert (kept.ids(Recipient.id), kept.delayed()) == ([], [])


def month(kept: SentMessages, *states: str, days: float) -> list[int]:
    """A send of so many days ago, after which a range ends."""
    ids = kept.add(*states, days=days)
    history.prepare(kept.services.database)
    return ids


def stored(kept: SentMessages) -> int:
    """The number of months with recipients; SQLite counts those of the rows."""
    with kept.services.database.read() as session:
        return len(history.stored_months(session))


def purge_overdue(services: Services) -> None:
    """What the threads of a process do."""
    purge_all(services)
    drop_old_ranges(services)


def test_what_all_accounts_keep_no_longer_goes_month_by_month(kept: SentMessages, one_by_one: list[int]) -> None:
    """On PostgreSQL by ranges, which stay until their last recipient is old, and without deleting a row."""
    month(kept, "delivered", days=480)
    kept.add("delivered", days=405)
    last = month(kept, "delivered", days=395) + month(kept, "delivered", days=1)
    purge_overdue(kept.services)
    with kept.services.database.read() as session:
        is_dropped = history_ranges.has_ranges(session)
    assert len(kept.ids(Recipient.id)) == (3 if is_dropped else 2)
    assert kept.ids(Recipient.id)[-2:] == last
    assert stored(kept) == 2
    assert one_by_one == ([] if is_dropped else [2])


def test_an_account_that_keeps_recipients_longer_keeps_the_month_and_not_those_of_others(
    kept: SentMessages, one_by_one: list[int]
) -> None:
    others = SentMessages(other := new_tenant(kept.tenant.app), Rows(kept.services, other.id))
    month(kept, "delivered", days=480)
    theirs = month(others, "delivered", days=470)
    Cli(other.app).text("accounts", "update", other.name, "--retain-recipients", "off")
    purge_overdue(kept.services)
    assert (kept.ids(Recipient.id), others.ids(Recipient.id)) == ([], theirs)
    assert one_by_one == [1]


def test_a_short_retention_does_not_wait_for_the_end_of_a_month(kept: SentMessages, one_by_one: list[int]) -> None:
    kept.add("delivered", days=8)
    young = kept.add("delivered", days=6)
    Cli(kept.tenant.app).text("accounts", "update", kept.tenant.name, "--retain-recipients", "1w")
    purge_overdue(kept.services)
    assert (kept.ids(Recipient.id), one_by_one) == (young, [1])


def test_a_month_with_a_recipient_that_is_not_settled_stays(kept: SentMessages) -> None:
    (held,) = month(kept, "queued", days=480)
    purge_overdue(kept.services)
    assert kept.ids(Recipient.id) == [held]


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of sends that each slice deletes."""
    slice_sizes: list[int] = []
    delete_sends = slices.delete_sends

    def counted(transaction: Transaction, send_ids: list[int], recipient_ids: list[int]) -> None:
        slice_sizes.append(len(send_ids))
        delete_sends(transaction, send_ids, recipient_ids)

    monkeypatch.setattr("app.retention.slices.delete_sends", counted)
    return slice_sizes


# ------------------------------------------------------------------------------------------------ slices


def test_a_scrape_shows_for_how_long_purging_is_overdue(kept: SentMessages) -> None:
    """Purging is overdue only for what is due. A young send is not due, and one that was delayed is due later."""
    name = "tms_purge_overdue_seconds"

    def overdue_seconds() -> list[float]:
        with kept.services.database.read() as session:
            figures = read_figures(session, kept.services.settings)[name]
        return [figures[(stage,)] for stage in ("content", "recipients")]

    kept.add("delivered", days=6)
    assert overdue_seconds() == [0, 0]
    kept.add("delivered", days=8)
    assert overdue_seconds() == [0, 0], "the next send is the one of six days ago"
    Cli(kept.tenant.app).text("accounts", "update", kept.tenant.name, "--retain-content", "5d")
    content, recipients = overdue_seconds()
    assert (round(content / 86400, 2), recipients) == (1, 0)


@pytest.mark.parametrize("own_tenant", ["sqlite"], indirect=True)
def test_the_pages_of_purged_bodies_are_used_again_and_given_back_by_a_vacuum(kept: SentMessages) -> None:
    """docs/retention.md#space; on PostgreSQL autovacuum does so."""

    def add() -> int:
        for _ in range(10):
            kept.add("delivered", body_html="<p>long</p>" * 10_000)
        return file_size(kept.services.database) or 0

    full = add()
    assert kept.purge(CONTENT, days=7) == 10
    assert file_size(kept.services.database) == full
    assert add() <= full + 50_000, "ten times 110,000 bytes more, otherwise"
    assert kept.purge(CONTENT, days=7) == 10
    assert compact(kept.services.database)
    assert (file_size(kept.services.database) or 0) < full - 1_000_000


def test_purging_goes_on_behind_what_it_has_looked_at(kept: SentMessages) -> None:
    """Nothing is read twice, and a run without anything due costs one statement."""
    ids = [kept.add("delivered", days=days)[0] for days in (30, 20, 10, 5)]
    assert kept.purge(CONTENT, 25) == 1
    assert kept.purge(CONTENT, 7) == 2
    with StatementCounter(kept.services.database.engine) as counted:
        assert kept.purge(CONTENT, 7) == 0
    assert len([statement for statement in counted.statements if statement.startswith("SELECT")]) == 1
    assert not [statement for statement in counted.statements if statement.startswith(("UPDATE", "INSERT", "DELETE"))]
    assert kept.ids(PurgePosition.send_id) == [kept.send_of(ids[2]).id]


def test_a_slice_has_complete_sends_and_a_fixed_number_of_statements(
    kept: SentMessages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.retention.slices.MIN_RECIPIENTS", 5)
    monkeypatch.setattr("app.retention.slices.MIN_RECIPIENTS", 5)
    monkeypatch.setattr("app.db.write_turns.FIRST_ROWS", 5)
    monkeypatch.setattr("app.db.write_turns.MIN_ROWS", 1)
    monkeypatch.setattr("app.db.write_turns.MAX_ROWS", 5)
    ids = [kept.add(*["delivered"] * 2)[0] for _ in range(7)]
    with StatementCounter(kept.services.database.engine) as counted:
        assert kept.purge(CONTENT, 7) == 7
    assert not any(map(kept.has_content, ids))
    updates = [statement for statement in counted.statements if statement.startswith("UPDATE recipients")]
    assert len(updates) == 4


def test_the_content_is_gone_before_a_retry_can_take_it(kept: SentMessages) -> None:
    """A slice locks the send before it looks at the queue, and a retry waits for it."""
    (recipient_id,) = kept.add("bounced")
    kept.gave_up(recipient_id, days=8)
    uuid = kept.rows.recipient(recipient_id).uuid
    assert Cli(kept.tenant.app).json("sends", "retry", uuid)["state"] == "queued"
    assert kept.purge(CONTENT, 7) == 0
    assert kept.has_content(recipient_id)


def test_purging_ends_with_its_process_and_goes_on_with_the_next(kept: SentMessages) -> None:
    (recipient_id,) = kept.add("delivered")
    stopped = replace(kept.services, stopping=type(kept.services.stopping)())
    stopped.stopping.set()
    for services, is_left in ((stopped, True), (kept.services, False)):
        purger = Purger(services)
        purger.start()
        assert purger.wait(PATIENCE)
        assert kept.has_content(recipient_id) == is_left


@pytest.fixture
def clean(kept: SentMessages, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """The job of the maintenance, with the services of the account."""
    monkeypatch.setattr(maintenance, "process_services", lambda: kept.services)
    maintenance.purger.cache_clear()
    yield maintenance.clean
    maintenance.purger.cache_clear()


@contextmanager
def locked(services: Services, table: str, mode: str) -> Iterator[None]:
    """A transaction of somebody else, which locks the table."""
    with services.database.write() as transaction:
        transaction.execute(text(f"LOCK TABLE {table} IN {mode} MODE"))
        yield


IS_BEGINNING = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' "
    "AND query LIKE '%purge_positions%'"
)
IS_SAMPLING = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' "
    "AND query LIKE 'ANALYZE%'"
)
IS_CLEANING = text(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' "
    "AND query LIKE 'DELETE FROM hook_tokens%'"
)
CANCEL_CLEANING = text(
    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
    "AND wait_event_type = 'Lock' AND query LIKE 'DELETE FROM hook_tokens%'"
)
CANCEL_ANALYZE = text(
    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity "
    "WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'ANALYZE%'"
)


@pytest.mark.parametrize("own_tenant", ["postgresql"], indirect=True)
def test_statistics_that_cannot_be_renewed_keep_nothing_from_being_purged(
    kept: SentMessages, clean: Callable[[], None]
) -> None:
    """What forgetting has left stays marked, and is cleaned later."""
    (recipient_id,) = kept.add("delivered")
    with kept.services.database.write() as transaction:
        mark_remains(transaction)
    with locked(kept.services, "contacts", "SHARE UPDATE EXCLUSIVE"):
        clean()
        wait_until(lambda: kept.scalars(CANCEL_ANALYZE) == [True], "the statistics were given up")
        assert maintenance.purger().wait(PATIENCE)
    assert not kept.has_content(recipient_id)
    assert kept.scalars(select(Remains.id)) == [1]


@pytest.mark.parametrize("own_tenant", ["postgresql"], indirect=True)
def test_purging_keeps_no_files_from_being_cleaned(kept: SentMessages, clean: Callable[[], None]) -> None:
    """Somebody is forgotten while it is going on, which may take hours."""
    (recipient_id,) = kept.add("delivered")
    with locked(kept.services, "purge_positions", "EXCLUSIVE"):
        clean()
        wait_until(lambda: kept.scalars(IS_BEGINNING) == [1], "purging has begun")
        with kept.services.database.write() as transaction:
            mark_remains(transaction)

        def is_clean() -> bool:
            clean()  # does nothing as long as the first cleaning has not ended
            return not kept.scalars(select(Remains.id))

        wait_until(is_clean, "the files are clean")
    assert maintenance.purger().wait(PATIENCE)
    assert not kept.has_content(recipient_id)


@pytest.mark.parametrize("own_tenant", ["postgresql"], indirect=True)
def test_no_range_is_dropped_while_the_tables_are_sampled(
    kept: SentMessages, clean: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes before: each would find the tables locked by the other. Nothing else waits for them."""
    (recipient_id,) = kept.add("delivered")
    with kept.services.database.write() as transaction:
        mark_remains(transaction)
    drop, samplings = purging.drop_old_ranges, list[int]()

    def note(services: Services) -> None:
        samplings.extend(kept.scalars(IS_SAMPLING))
        drop(services)

    monkeypatch.setattr(purging, "drop_old_ranges", note)
    with locked(kept.services, "contacts", "SHARE UPDATE EXCLUSIVE"):
        for _ in range(2):
            clean()
            wait_until(lambda: kept.scalars(IS_SAMPLING) == [1], "a table is to be sampled")
        wait_until(lambda: kept.send_of(recipient_id).content_purged_time, "content is purged")
        assert samplings == [0]
    assert maintenance.purger().wait(PATIENCE)
    assert samplings == [0]


@pytest.mark.parametrize("own_tenant", ["postgresql"], indirect=True)
def test_cleaning_that_waits_keeps_nothing_from_being_done(kept: SentMessages, clean: Callable[[], None]) -> None:
    """The worker goes on with its webhooks, content is purged, and replies are recorded, of which some say STOP. There
    is one cleaning at a time."""
    (recipient_id,) = kept.add("delivered")
    part = {"mobile": "61411111111", "reference": 7, "total": 2, "position": 1, "coding": 0, "body": b"STOP"}
    kept.rows.add(ReplyPart, number="61400000000", time=now() - REASSEMBLY_TIMEOUT, recorded=False, **part)
    with locked(kept.services, "hook_tokens", "ACCESS EXCLUSIVE"):
        clean()
        wait_until(lambda: kept.scalars(IS_CLEANING) == [1], "cleaning waits")
        clean()
        wait_until(lambda: not kept.has_content(recipient_id), "content is purged")
        wait_until(lambda: not kept.scalars(select(ReplyPart.id)), "the reply is recorded")
        assert kept.scalars(IS_CLEANING) == [1]
    assert maintenance.purger().wait(PATIENCE)


@pytest.mark.parametrize("own_tenant", ["postgresql"], indirect=True)
def test_cleaning_that_fails_is_logged_and_keeps_no_range_from_being_dropped(
    kept: SentMessages, clean: Callable[[], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    dropped = list[Services]()
    monkeypatch.setattr(purging, "drop_old_ranges", dropped.append)
    with locked(kept.services, "hook_tokens", "ACCESS EXCLUSIVE"):
        clean()
        wait_until(lambda: kept.scalars(CANCEL_CLEANING) == [True], "cleaning is ended")
        assert maintenance.purger().wait(PATIENCE)
    assert dropped == [kept.services]
    (failure,) = [entry.getMessage() for entry in caplog.records if entry.name == "app.maintenance.purging"]
    assert failure.startswith("cleaning was interrupted; it continues within the hour: the database is unavailable")


@pytest.mark.parametrize("own_tenant", ["postgresql"], indirect=True)
def test_a_failure_to_drop_old_ranges_is_counted(kept: SentMessages) -> None:
    before = SWEEPS.labels("dropping", "failed").value
    with locked(kept.services, "recipients", "ACCESS EXCLUSIVE"), limit_waits(0.5), pytest.raises(OperationalError):
        drop_old_ranges(kept.services)
    assert SWEEPS.labels("dropping", "failed").value - before == 1


def test_the_default_is_seven_days_of_content_and_four_hundred_of_recipients(kept: SentMessages) -> None:
    assert (kept.services.settings.retain_content, kept.services.settings.retain_recipients) == (7 * DAY, 400 * DAY)
