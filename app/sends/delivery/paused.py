"""Putting aside claimed entries that a pause concerns (docs/delivery.md#pauses).

They leave the index of what is due, so that a pause costs once per message, whenever its turn comes, and nothing
afterwards. An attempt is not counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from sqlalchemy import Update, update

from app.clock import now
from app.db.bulk_update import BulkUpdate, RowValues
from app.db.database import Transaction
from app.db.models import QueueEntry, table_of
from app.recipients.reasons import WaitReason
from app.recipients.row import step_row
from app.recipients.states import RecipientState
from app.recipients.store import add_steps
from app.recipients.timeline import TimelineStep
from app.sends.delivery.claim import SENDING, ClaimedRecipient
from app.sends.delivery.recipient_domains import domains_of
from app.sends.delivery.transmission_counts import count_deferred
from app.sends.pauses.active import ActivePause, active_pauses, lock_active, test_accounts

DETAILS = {
    "account": "sending is paused for the account",
    "list": "sending is paused for the list",
    "domain": "sending is paused for the domain of the address",
}


def put_aside(transaction: Transaction, worker: str, claimed: Sequence[ClaimedRecipient]) -> list[ClaimedRecipient]:
    """The claimed rows that may be sent; those that a pause concerns are put aside. One select if there is no pause."""
    pauses = active_pauses(transaction, {row.account_id for row in claimed}) if claimed else []
    concerned = _concerned(transaction, pauses, claimed) if pauses else {}
    if not concerned:
        return list(claimed)
    active = lock_active(transaction, {pause.id for pause in concerned.values()})
    paused = [row for row in claimed if row.id in concerned and concerned[row.id].id in active]
    _PUT_ASIDE.run(transaction, [{"row": row.id, "pause": concerned[row.id].id, "owner": worker} for row in paused])
    moment = now()
    add_steps(
        transaction,
        [
            step_row(row.account_id, row.id, TimelineStep.PAUSED, DETAILS[concerned[row.id].kind], moment)
            for row in paused
        ],
    )
    count_deferred(paused, WaitReason.PAUSE)
    ids = {row.id for row in paused}
    return [row for row in claimed if row.id not in ids]


def _concerned(
    transaction: Transaction, pauses: Iterable[ActivePause], claimed: Sequence[ClaimedRecipient]
) -> dict[int, ActivePause]:
    """By the ids of recipients, the first pause that concerns each."""
    by_account: dict[int, ActivePause] = {}
    by_list: dict[int, ActivePause] = {}
    by_domain: dict[tuple[int | None, str], ActivePause] = {}
    for pause in pauses:
        if pause.domain is not None:
            by_domain.setdefault((pause.account_id, pause.domain), pause)
        elif pause.list_id is not None:
            by_list.setdefault(pause.list_id, pause)
        elif pause.account_id is not None and pause.kind == "account":
            by_account.setdefault(pause.account_id, pause)
    found: dict[int, ActivePause] = {}
    for row in claimed:
        of_list = None if row.list_id is None else by_list.get(row.list_id)
        if first := by_account.get(row.account_id) or of_list:
            found[row.id] = first
    if by_domain:
        rest = [row for row in claimed if row.id not in found]
        found |= _concerned_by_domain(transaction, by_domain, rest)
    return found


def _concerned_by_domain(
    transaction: Transaction,
    by_domain: dict[tuple[int | None, str], ActivePause],
    claimed: Sequence[ClaimedRecipient],
) -> dict[int, ActivePause]:
    """Mail of test accounts is captured, so that it goes to no domain."""
    accounts = {account_id for account_id, _ in by_domain}
    may_be = [row for row in claimed if None in accounts or row.account_id in accounts]
    domains = domains_of(transaction, may_be)
    found: dict[int, ActivePause] = {}
    everywhere: dict[int, list[tuple[int, ActivePause]]] = defaultdict(list)
    for row in may_be:
        domain = domains.get(row.id, "")
        if pause := by_domain.get((row.account_id, domain)):
            found[row.id] = pause
        elif pause := by_domain.get((None, domain)):
            everywhere[row.account_id].append((row.id, pause))
    if everywhere:
        tests = test_accounts(transaction, everywhere)
        found |= {key: pause for account, of in everywhere.items() if account not in tests for key, pause in of}
    return found


def _put_aside_statement(row: RowValues) -> Update:
    columns = table_of(QueueEntry).c
    return (
        update(table_of(QueueEntry))
        .where(columns.recipient_id == row["row"], columns.state == SENDING, columns.worker == row["owner"])
        .values(
            state=RecipientState.PAUSED.value,
            pause_id=row["pause"],
            worker=None,
            lease_time=None,
            attempts=columns.attempts - 1,
        )
    )


_PUT_ASIDE = BulkUpdate(
    {"row": QueueEntry.recipient_id.type, "pause": QueueEntry.pause_id.type, "owner": QueueEntry.worker.type},
    _put_aside_statement,
)
