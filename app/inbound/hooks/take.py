"""Recording the events of a relay, each in its own transaction.

An event that was recorded before is skipped without a transaction, so a relay that sends a large batch again after a
time-out gets further each time.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.clock import now
from app.db.bulk import insert_new_rows
from app.db.database import Transaction
from app.db.expressions import between_ids, in_json
from app.db.models import HookToken, InboundRecord, Recipient
from app.inbound.effect import Effect, installation_redaction
from app.inbound.email.record import fingerprint_of_report, record_report
from app.inbound.email.report import Report
from app.inbound.hooks.base import RelayEvent
from app.secret_keys import SecretKeys
from app.services import Services
from app.tracking.tokens import BOUNCE_PURPOSE, recipient_of_address

TIME_LIMIT = 8.0
"""Relays wait for ten seconds or longer; what is not recorded by then comes again."""


class _RecipientEvent(NamedTuple):
    """An event that reports something, with the recipient that it is about."""

    account_id: int
    recipient_id: int
    report: Report
    event: RelayEvent

    @property
    def fingerprint(self) -> str:
        return fingerprint_of_report(self.recipient_id, self.report, self.event.fingerprint)


def take_relay_events(services: Services, events: Sequence[RelayEvent]) -> bool:
    """Records what the events report. Returns False if the relay must send them again: one of them is about a mail
    whose outcome is not written yet, or there were too many for one request."""
    redaction = installation_redaction(services)
    with services.database.read() as session:
        recipient_events = _with_recipients(session, services.settings.secret_keys, events)
        recorded = _recorded_before(session, recipient_events)
    tokens = {"", *(recipient_event.event.token for recipient_event in recipient_events)}
    _use_up_tokens(services, [event for event in events if event.token not in tokens])
    end = time.monotonic() + TIME_LIMIT
    is_complete = True
    for recipient_event in recipient_events:
        if (recipient_event.account_id, recipient_event.fingerprint) in recorded:
            continue
        if time.monotonic() > end or services.stopping.is_set():
            return False
        report = replace(recipient_event.report, detail=redaction.redact(recipient_event.report.detail))
        effect = _record(services, recipient_event._replace(report=report))
        is_complete = is_complete and effect is not Effect.EARLY
    return is_complete


def _with_recipients(session: Session, secret_keys: SecretKeys, events: Sequence[RelayEvent]) -> list[_RecipientEvent]:
    """The events that report something about mails of this service: by the uuid, else by the return path."""
    uuids = {event.uuid for event in events if event.uuid}
    by_uuid = _rows_of_uuids(session, uuids)
    signed = {event.return_path: _signed_id(secret_keys, event.return_path) for event in events if event.return_path}
    ids = {recipient_id for recipient_id in signed.values() if recipient_id is not None}
    by_id = _rows_of_ids(session, ids)
    recipient_events = []
    for event in events:
        place = by_uuid.get(event.uuid or "") or by_id.get(signed.get(event.return_path) or 0)
        if place is not None and event.report is not None:
            recipient_events.append(_RecipientEvent(*place, event.report, event))
    return recipient_events


def _signed_id(secret_keys: SecretKeys, return_path: str) -> int | None:
    named = recipient_of_address(secret_keys, return_path)
    return named[1] if named and named[0] == BOUNCE_PURPOSE else None


def _rows_of_uuids(session: Session, uuids: Collection[str]) -> dict[str, tuple[int, int]]:
    """The uuid of each known recipient, with its account and id."""
    if not uuids:
        return {}
    statement = select(Recipient.uuid, Recipient.account_id, Recipient.id).where(in_json(Recipient.uuid, uuids))
    return {uuid: (account_id, row_id) for uuid, account_id, row_id in session.execute(statement)}


def _rows_of_ids(session: Session, ids: Collection[int]) -> dict[int, tuple[int, int]]:
    """The id of each known recipient, with its account and id."""
    if not ids:
        return {}
    statement = select(Recipient.account_id, Recipient.id)
    rows = session.execute(statement.where(in_json(Recipient.id, ids), between_ids(Recipient.id, ids)))
    return {row_id: (account_id, row_id) for account_id, row_id in rows}


def _recorded_before(session: Session, recipient_events: Sequence[_RecipientEvent]) -> set[tuple[int, str]]:
    """Account and fingerprint of the events that were recorded before; those of single events are looked up when they
    are recorded."""
    if len(recipient_events) < 2:
        return set()
    statement = select(InboundRecord.account_id, InboundRecord.fingerprint).where(
        in_json(InboundRecord.account_id, {recipient_event.account_id for recipient_event in recipient_events}),
        in_json(InboundRecord.fingerprint, {recipient_event.fingerprint for recipient_event in recipient_events}),
    )
    return {(account_id, fingerprint) for account_id, fingerprint in session.execute(statement)}


def _record(services: Services, recipient_event: _RecipientEvent) -> Effect:
    def work(transaction: Transaction) -> Effect:
        if recipient_event.event.token and not _takes_token(transaction, recipient_event):
            return Effect.IGNORED
        return record_report(
            transaction, recipient_event.recipient_id, recipient_event.report, recipient_event.event.fingerprint
        )

    return services.database.transact(work)


def _use_up_tokens(services: Services, events: Sequence[RelayEvent]) -> None:
    """Stores the tokens of events that change nothing: otherwise a forged event could have them."""
    if events:
        rows = [
            {"token": event.token, "account_id": None, "fingerprint": event.fingerprint, "time": now()}
            for event in events
        ]
        services.database.transact(lambda transaction: insert_new_rows(transaction, HookToken, rows))


def _takes_token(transaction: Transaction, recipient_event: _RecipientEvent) -> bool:
    """Whether the one-time token is new, or came with this event before."""
    row = {
        "token": recipient_event.event.token,
        "account_id": recipient_event.account_id,
        "fingerprint": recipient_event.fingerprint,
        "time": now(),
    }
    insert_new_rows(transaction, HookToken, [row])
    statement = select(HookToken.account_id, HookToken.fingerprint).where(
        HookToken.token == recipient_event.event.token
    )
    stored = transaction.execute(statement).one()
    return (stored.account_id, stored.fingerprint) == (recipient_event.account_id, recipient_event.fingerprint)
