"""What has happened since a backup, as far as it can be known, and what would be reported a second time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import func, select

from app.clock import now
from app.db.models import CapturedMessage, Event, ReplyPart, Webhook
from app.events.batches import has_due
from app.inbound.smpp import flush_overdue
from app.sends.delivery.drain import drain
from app.sends.outcomes.attempt_result import AttemptResult, journal_folder
from app.settings import Settings
from app.transports.base import DeliveryResult
from tests.restore.conftest import Installation, Installer, running
from tests.restore.test_restored import later
from tests.support.databases import BACKENDS
from tests.support.rows import Rows
from tests.support.tenants import new_tenant
from tests.unit.transports.mailserver import MailServer

ACCEPTED = DeliveryResult.accepted("2.0.0 queued")
PUT_OFF = DeliveryResult.deferred("4.2.0 later")


def write_journal(settings: Settings, results: Sequence[AttemptResult]) -> None:
    """The journal of a sender that has died, whose last line was cut short."""
    folder = journal_folder(settings)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dead.journal").write_bytes(b"".join(result.line() for result in results) + b'{"recip')


def has_events(target: Installation) -> bool:
    """Whether any event would be sent now."""
    with target.services.database.read() as session:
        return has_due(session, target.services.settings)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_the_senders_of_this_machine_handed_over_since_is_written_as_sent(
    installed: Installer,
    new_settings: Callable[..., Settings],
    mail_server: MailServer,
    file: str,
    backend: str,
) -> None:
    """The database was lost while they sent; their journals are there, and the events of what they say are held."""
    source = installed(backend, migrated=True)
    rows = Rows.of(new_tenant(source.app))
    rows.add_webhook()
    queued, retried, put_off, other = rows.add_send([f"{letter}@example.com" for letter in "abcd"])
    rows.change([retried], attempts=1)
    source.json("backup", file)
    results = [
        AttemptResult(recipient_id, attempt, address, now(), result)
        for recipient_id, attempt, address, result in (
            (queued, 1, "a@example.com", ACCEPTED),
            (retried, 1, "b@example.com", PUT_OFF),
            (retried, 2, "b@example.com", ACCEPTED),
            (put_off, 1, "c@example.com", PUT_OFF),
            (other + 1000, 1, "lost@example.com", ACCEPTED),
        )
    ]
    new = new_settings(backend, migrated=True)
    settings = later(source, replace(new, data_dir=source.settings.data_dir))
    write_journal(settings, results)
    with running(settings) as target:
        restored = target.json("restore", file)
        assert (restored["settled"], restored["secret_key"]) == (2, False)
        assert restored["held"] == {"messages": 2, "runs": 0, "webhooks": 1}
        assert not has_events(target)
        drain(target.services)
        own_rows = Rows(target.services, rows.account_id)
        assert own_rows.states([queued, retried]) == ["delivered", "delivered"]
        assert target.json("holds", "release", "messages", "--yes") == {"released": 2, "arrived": 0}
        drain(target.services)
        assert sorted(address for mail in mail_server.mails for address in mail.recipients) == [
            "c@example.com",
            "d@example.com",
        ]


def test_journals_of_another_installation_say_nothing(installed: Installer, file: str) -> None:
    source, target = installed("sqlite", migrated=True), installed("sqlite")
    (queued,) = Rows.of(new_tenant(source.app)).add_send(["a@example.com"])
    source.json("backup", file)
    write_journal(target.settings, [AttemptResult(queued, 1, "a@example.com", now(), ACCEPTED)])
    restored = target.json("restore", file)
    assert (restored["settled"], restored["held"]["messages"]) == (0, 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_is_reported_that_was_reported_seconds_after_the_backup(
    installed: Installer, file: str, backend: str
) -> None:
    """A reply of which a part was missing, and what was to happen to a captured message: workers would do both by
    themselves. The reply's event is held; nothing else of the webhook waited."""
    source, target = installed(backend, migrated=True), installed(backend, migrated=True)
    tenant = new_tenant(source.app)
    rows = Rows(source.services, tenant.id)
    webhook = rows.add_webhook()
    tenant.add_sender("61400000000")
    part = {"number": "61400000000", "mobile": "61411111111", "reference": 7, "total": 2, "position": 1, "coding": 0}
    rows.add(ReplyPart, **part, body=b"yes and", time=now(), recorded=False)
    (sent, waiting) = rows.add_send(["open@example.com", "later@example.com"])
    for recipient_id in (sent, waiting):
        rows.add(
            CapturedMessage, recipient_id=recipient_id, is_copy=False, uuid=str(recipient_id), type="email",
            sender="a@example.com", address="open@example.com", content=b"", captured_time=now(),
            simulates="open", simulate_time=now() + timedelta(seconds=3),
        )  # fmt: skip
    rows.change([sent], state="delivered")
    source.json("backup", file)
    restored = target.json("restore", file)
    assert restored["held"] == {"messages": 1, "runs": 0, "webhooks": 1}
    with target.services.database.read() as session:
        times = session.execute(select(CapturedMessage.recipient_id, CapturedMessage.simulate_time))
        assert {recipient_id: moment is not None for recipient_id, moment in times} == {sent: False, waiting: True}
        assert session.get_one(Webhook, webhook).held_to is not None
        assert ["yes and" in payload for payload in session.scalars(select(Event.payload))] == [True]
    flush_overdue(target.services)
    with target.services.database.read() as session:
        assert session.scalars(select(func.count()).select_from(Event)).one() == 1
    assert not has_events(target)
    assert target.json("holds", "release", "events", "--yes") == {"released": 1, "webhooks": 1}
    assert has_events(target)
