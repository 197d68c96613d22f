"""Cleaning: rows past their retention are deleted, the others are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count as counting
from typing import Any

import pytest
from sqlalchemy import func, insert, select, update

from app.accounts.accounts import update_account
from app.accounts.domains import add_domain, find_domain
from app.clock import now
from app.db.counters import GROUP_COUNTS, HOURLY_COUNTS, count, hour_of
from app.db.models import (
    Account,
    AuditEntry,
    Base,
    BulkAction,
    CapturedMessage,
    ContactImport,
    DkimKey,
    DomainBackoff,
    DomainReport,
    EventRotation,
    GroupCount,
    HookToken,
    HourlyCount,
    IdempotencyRecord,
    InboundRecord,
    RelayRefusal,
    TriggerFiring,
    Webhook,
    WebhookAttempt,
)
from app.inbound.hooks.mailgun import MAX_AGE, MAX_CLOCK_SKEW
from app.maintenance import sweeps
from tests.databases.running import Alone, alone
from tests.support.databases import BACKENDS
from tests.support.tenants import Tenant, new_tenant, unique

RECIPIENTS = counting(1)
"""Ids of recipients that nothing else has."""


@pytest.fixture(params=BACKENDS)
def parts(request: pytest.FixtureRequest) -> Iterator[Alone]:
    with alone(request.getfixturevalue("postgres") if request.param == "postgresql" else None) as services:
        yield services


def add_record(parts: Alone, moment: datetime) -> int:
    return parts.tenant.add(IdempotencyRecord, key=unique(), fingerprint="f", creation_time=moment)


def add_firing(parts: Alone, moment: datetime) -> int:
    return parts.tenant.add(TriggerFiring, list_id=1, contact_id=1, action="created", time=moment)


def add_attempt(parts: Alone, moment: datetime) -> int:
    webhook_id = parts.tenant.add(Webhook, url=f"https://{unique()}.example/", creation_time=now(), due_time=now())
    return parts.tenant.add(
        WebhookAttempt, webhook_id=webhook_id, batch_id="b", time=moment, events=1, outcome="failed", milliseconds=1
    )


def add_inbound(parts: Alone, moment: datetime) -> int:
    return parts.tenant.add(InboundRecord, fingerprint=unique(), kind="reply", time=moment)


def add_import(parts: Alone, moment: datetime) -> int:
    counts = dict.fromkeys(("rows_done", "created", "updated"), 0)
    times = dict.fromkeys(("creation_time", "last_modified_time"), moment)
    return parts.tenant.add(
        ContactImport, list_id=parts.tenant.add_list(), digest=unique(), options="", **counts, **times
    )


def add_bulk_action(parts: Alone, moment: datetime | None) -> int:
    texts = {"action": "retry", "query": "state=failed", "asked_by": "ann", "state": "done"}
    times = dict.fromkeys(("creation_time", "due_time", "newest_time"), now())
    counts = {"messages": 1, "newest_id": 1, "done": 1, "left_out": {}}
    return parts.tenant.add(BulkAction, **texts, **times, **counts, end_time=moment)


def add_entry(parts: Alone, moment: datetime) -> int:
    actor = {"actor_kind": "command", "actor": "root"}
    return parts.tenant.add(
        AuditEntry, time=moment, action="list.updated", object="list", changes=[], counts={}, **actor
    )


def kept(parts: Alone, model: type[Base]) -> list[int]:
    with parts.services.database.read() as session:
        return list(session.scalars(select(model.__table__.c.id).order_by(model.__table__.c.id)))


def test_idempotency_records_are_deleted_after_a_day(parts: Alone) -> None:
    add_record(parts, now() - timedelta(hours=24, seconds=1))
    young = add_record(parts, now() - timedelta(hours=23, minutes=59))
    sweeps.clean(parts.services)
    assert kept(parts, IdempotencyRecord) == [young]


def test_audit_entries_are_deleted_after_a_retention_of_their_own(parts: Alone) -> None:
    for_ever = replace(parts.services, settings=replace(parts.services.settings, retain_audit=None))
    old, young = (add_entry(parts, now() - timedelta(days=400, seconds=seconds)) for seconds in (1, -60))
    sweeps.clean(for_ever)
    assert kept(parts, AuditEntry) == [old, young]
    sweeps.clean(parts.services)
    assert kept(parts, AuditEntry) == [young]


def test_off_keeps_for_ever(parts: Alone) -> None:
    off: dict[str, Any] = dict.fromkeys(("retain_idempotency", "retain_captured", "retain_logs", "retain_events"))
    for_ever = replace(parts.services, settings=replace(parts.services.settings, **off))
    past = now() - timedelta(days=4000)
    adders = (add_record, add_attempt, add_firing, add_inbound, add_import, add_captured)
    models = (IdempotencyRecord, WebhookAttempt, TriggerFiring, InboundRecord, ContactImport, CapturedMessage)
    ids = [add(parts, past) for add in adders]
    with parts.services.database.write() as transaction:
        transaction.execute(update(EventRotation).values(since_time=past))
        slot = transaction.scalars(select(EventRotation.slot)).one()
    sweeps.clean(for_ever)
    assert [kept(parts, model) for model in models] == [[row_id] for row_id in ids]
    sweeps.clean(parts.services)
    assert [kept(parts, model) for model in models] == [[]] * len(models)
    with parts.services.database.read() as session:
        assert session.scalars(select(EventRotation.slot)).one() == 1 - slot


def add_captured(parts: Alone, moment: datetime) -> int:
    common = {"is_copy": False, "uuid": unique(), "type": "sms", "sender": "1", "address": "2", "content": b""}
    return parts.tenant.add(CapturedMessage, recipient_id=next(RECIPIENTS), captured_time=moment, **common)


@pytest.mark.parametrize(
    ("model", "add", "name", "default"),
    [
        (AuditEntry, add_entry, "retain_audit", timedelta(days=400)),
        (WebhookAttempt, add_attempt, "retain_logs", timedelta(days=30)),
        (CapturedMessage, add_captured, "retain_captured", timedelta(days=30)),
    ],
    ids=["audit entries", "deliveries", "captured messages"],
)
def test_an_account_may_keep_rows_for_a_time_of_its_own(
    parts: Alone, model: type[Base], add: Callable[..., int], name: str, default: timedelta
) -> None:
    """Shorter, longer or for ever, also what is there, whatever another account has; an empty text takes it back."""
    other = replace(parts, tenant=new_tenant(parts.tenant.app))

    def retain(tenant: Tenant, text: str | None) -> None:
        with parts.services.database.write() as transaction:
            update_account(transaction, transaction.get_one(Account, tenant.id), {name: text})

    def left(*expected: int) -> None:
        sweeps.clean(parts.services)
        assert {row_id for row_id in kept(parts, model) if row_id in added} == {*expected}, (
            "changes of accounts are entries, too"
        )

    past, day = now() - default - timedelta(hours=1), now() - timedelta(days=1)
    ages = day, past, past - default
    fresh, old, oldest = (add(parts, moment) for moment in ages)
    others = [add(other, moment) for moment in ages]
    added = {fresh, old, oldest, *others}
    for tenant in (parts.tenant, other.tenant):
        retain(tenant, "off")
    left(fresh, old, oldest, *others)
    retain(parts.tenant, f"{default.days * 2}d")
    left(fresh, old, *others)
    retain(parts.tenant, "12h")
    left(*others)
    retain(other.tenant, None)
    left(others[0])
    retain(other.tenant, "12h")
    left()


def test_attempts_triggers_inbound_marks_imports_and_bulk_actions_are_deleted_after_the_retention(parts: Alone) -> None:
    """RETAIN_LOGS: 30d."""
    old, young = now() - timedelta(days=30, minutes=1), now() - timedelta(days=29)
    add_attempt(parts, old)
    add_firing(parts, old)
    add_inbound(parts, old)
    add_import(parts, old)
    attempt, firing, inbound = add_attempt(parts, young), add_firing(parts, young), add_inbound(parts, young)
    resumable = add_import(parts, young)
    add_bulk_action(parts, old)
    actions = [add_bulk_action(parts, moment) for moment in (young, None)]
    sweeps.clean(parts.services)
    assert kept(parts, WebhookAttempt) == [attempt]
    assert kept(parts, InboundRecord) == [inbound]
    assert kept(parts, TriggerFiring) == [firing]
    assert kept(parts, ContactImport) == [resumable]
    assert kept(parts, BulkAction) == actions


def test_counts_by_hour_are_deleted_a_day_after_the_retention(parts: Alone) -> None:
    """The counts of the oldest day that is shown are complete for that reason."""
    with parts.services.database.write() as transaction:
        for old in (timedelta(days=31, hours=1), timedelta(days=30), timedelta(hours=1)):
            count(transaction, HOURLY_COUNTS, parts.tenant.id, (1, hour_of(now() - old)), sent=1)
        count(transaction, GROUP_COUNTS, parts.tenant.id, (1,), sent=3)
    sweeps.clean(parts.services)
    with parts.services.database.read() as session:
        assert session.scalar(select(func.count()).select_from(HourlyCount)) == 2
        assert session.scalar(select(func.sum(GroupCount.sent))) == 3


def test_back_offs_and_refusals_of_relays_are_deleted_a_day_after_their_end(parts: Alone) -> None:
    route = {"sender_domain": "acme.example", "failures": 3}
    parts.tenant.add(DomainBackoff, domain="a.example", until_time=now() - timedelta(hours=25), **route)
    young = parts.tenant.add(DomainBackoff, domain="b.example", until_time=now() - timedelta(hours=23), **route)
    refused = {"domains": {}, "reply": "554 no", "bounced": 0, "failures": 0, "first_time": now()}
    parts.tenant.add(RelayRefusal, transport="a", last_time=now() - timedelta(hours=25), **refused)
    late = parts.tenant.add(RelayRefusal, transport="b", last_time=now() - timedelta(hours=23), **refused)
    sweeps.clean(parts.services)
    assert (kept(parts, DomainBackoff), kept(parts, RelayRefusal)) == ([young], [late])


def test_reports_about_domains_are_deleted_after_the_retention(parts: Alone) -> None:
    with parts.services.database.write() as transaction:
        add_domain(transaction, parts.tenant.id, "acme.example", trusted=True, secret_key="s" * 32)
        domain_id = find_domain(transaction, parts.tenant.id, "acme.example").id
    shared = {"domain_id": domain_id, "kind": "dmarc", "reporter": "r", "passed": 1, "failed": 0, "content": {}}
    for number, moment in enumerate((now() - timedelta(days=30, minutes=1), now() - timedelta(days=29))):
        times = dict.fromkeys(("begin_time", "end_time", "time"), moment)
        young = parts.tenant.add(DomainReport, report_id=str(number), **shared, **times)
    sweeps.clean(parts.services)
    assert kept(parts, DomainReport) == [young]


@pytest.mark.parametrize("retention", [timedelta(hours=1), timedelta(days=30), None], ids=["shorter", "longer", "off"])
def test_a_token_of_a_relay_is_stored_for_as_long_as_its_signature_is_accepted(
    parts: Alone, retention: timedelta | None
) -> None:
    """Whatever the retention is: a forged event could follow with the same signature, and no later one."""
    ages = {"young": MAX_AGE + MAX_CLOCK_SKEW - timedelta(minutes=1), "old": MAX_AGE + MAX_CLOCK_SKEW}
    with parts.services.database.write() as transaction:
        for token, age in ages.items():
            row = {"token": token, "account_id": parts.tenant.id, "fingerprint": "f", "time": now() - age}
            transaction.execute(insert(HookToken).values(**row))
    sweeps.clean(replace(parts.services, settings=replace(parts.services.settings, retain_logs=retention)))
    with parts.services.database.read() as session:
        assert session.scalars(select(HookToken.token)).all() == ["young"]


def test_retired_keys_are_deleted_after_a_week(parts: Alone) -> None:
    with parts.services.database.write() as transaction:
        add_domain(transaction, parts.tenant.id, "acme.example", trusted=True, secret_key="s" * 32)
        old = dict(zip(("rsa", "ed25519"), (timedelta(days=7, minutes=1), timedelta(days=6)), strict=True))
        for key in transaction.scalars(select(DkimKey)):
            key.state, key.retired_time = "retired", now() - old[key.algorithm]
    sweeps.clean(parts.services)
    with parts.services.database.read() as session:
        assert session.scalars(select(DkimKey.algorithm)).all() == ["ed25519"]


def test_many_rows_are_deleted_in_chunks(parts: Alone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "CHUNK", 2)
    for _ in range(5):
        add_record(parts, now() - timedelta(days=2))
    sweeps.clean(parts.services)
    assert kept(parts, IdempotencyRecord) == []


def test_cleaning_ends_when_the_process_is_asked_to_stop(parts: Alone) -> None:
    add_record(parts, now() - timedelta(days=2))
    parts.services.stopping.set()
    sweeps.clean(parts.services)
    with parts.services.database.read() as session:
        assert session.scalar(select(func.count(IdempotencyRecord.id))) == 1
