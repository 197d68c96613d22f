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
from app.inbound.hooks.base import RelayEvent
from app.secret_keys import SecretKeys
from app.services import Services
from app.tracking.tokens import BOUNCE, recipient_of_address

SECONDS = 8.0
"""Relays wait for ten seconds or longer; what is not recorded by then comes again."""


class _Found(NamedTuple):
    """An event with the recipient that it is about."""

    account_id: int
    recipient_id: int
    event: RelayEvent

    @property
    def fingerprint(self) -> str:
        return fingerprint_of_report(self.recipient_id, self.event.report, self.event.fingerprint)


def take_relay_events(services: Services, events: Sequence[RelayEvent]) -> bool:
    """Records what the events report. Returns False if the relay must send them again: one of them is about a mail
    whose outcome is not written yet, or there were too many for one request."""
    redaction = installation_redaction(services)
    with services.database.read() as session:
        found = _with_recipients(session, services.settings.secret_keys, events)
        known = _known(session, found)
    end = time.monotonic() + SECONDS
    is_complete = True
    for one in found:
        if (one.account_id, one.fingerprint) in known:
            continue
        if time.monotonic() > end or services.stopping.is_set():
            return False
        report = replace(one.event.report, detail=redaction.redact(one.event.report.detail))
        effect = _record(services, one._replace(event=one.event._replace(report=report)))
        is_complete = is_complete and effect is not Effect.EARLY
    return is_complete


def _with_recipients(session: Session, secret_keys: SecretKeys, events: Sequence[RelayEvent]) -> list[_Found]:
    """The events that are about mails of this service: by the uuid, else by the return path."""
    uuids = {event.uuid for event in events if event.uuid}
    by_uuid = _rows_of_uuids(session, uuids)
    signed = {event.return_path: _signed_id(secret_keys, event.return_path) for event in events if event.return_path}
    ids = {recipient_id for recipient_id in signed.values() if recipient_id is not None}
    by_id = _rows_of_ids(session, ids)
    found = []
    for event in events:
        place = by_uuid.get(event.uuid or "") or by_id.get(signed.get(event.return_path) or 0)
        if place is not None:
            found.append(_Found(*place, event))
    return found


def _signed_id(secret_keys: SecretKeys, return_path: str) -> int | None:
    named = recipient_of_address(secret_keys, return_path)
    return named[1] if named and named[0] == BOUNCE else None


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


def _known(session: Session, found: Sequence[_Found]) -> set[tuple[int, str]]:
    """Account and fingerprint of the events that were recorded before; those of single events are looked up when they
    are recorded."""
    if len(found) < 2:
        return set()
    statement = select(InboundRecord.account_id, InboundRecord.fingerprint).where(
        in_json(InboundRecord.account_id, {one.account_id for one in found}),
        in_json(InboundRecord.fingerprint, {one.fingerprint for one in found}),
    )
    return {(account_id, fingerprint) for account_id, fingerprint in session.execute(statement)}


def _record(services: Services, found: _Found) -> Effect:
    def work(transaction: Transaction) -> Effect:
        if found.event.token and not _takes_token(transaction, found):
            return Effect.IGNORED
        return record_report(transaction, found.recipient_id, found.event.report, found.event.fingerprint)

    return services.database.transact(work)


def _takes_token(transaction: Transaction, found: _Found) -> bool:
    """Whether the one-time token is new, or came with this event before."""
    row = {
        "token": found.event.token,
        "account_id": found.account_id,
        "fingerprint": found.fingerprint,
        "time": now(),
    }
    insert_new_rows(transaction, HookToken, [row])
    statement = select(HookToken.account_id, HookToken.fingerprint).where(HookToken.token == found.event.token)
    stored = transaction.execute(statement).one()
    return (stored.account_id, stored.fingerprint) == (found.account_id, found.fingerprint)
