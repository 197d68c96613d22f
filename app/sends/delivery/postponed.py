"""What is due and not sent now (docs/waiting.md): who looks for each reason of the table
(`app.recipients.states.POSTPONEMENTS`), in its order.

A pause and the back-off of a domain are looked for in the transaction that claims a batch, the others once it is
loaded. Whether a transport is in use and has room turns out when it is given a message
(app/sends/delivery/dispatcher.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Update, select, update
from sqlalchemy.orm import Session

from app.addresses import domain_of
from app.clock import now
from app.db.bulk import BulkUpdate, RowValues
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import Contact, DomainBackoff, QueueEntry, RelayRefusal, Send, SmsSender, table_of
from app.recipients.row import add_steps, step_row
from app.recipients.states import POSTPONEMENTS, RecipientState, WaitReason
from app.recipients.timeline import TimelineStep
from app.sends.delivery.claim import SENDING, postpone
from app.sends.delivery.limits import RenderedRows, beyond_quota, load_rendered
from app.sends.delivery.recipient import ClaimedRecipient, RouteProgress
from app.sends.delivery.router import Router
from app.sends.delivery.sizes import SizeLimits
from app.sends.delivery.transmission_counts import count_deferred
from app.sends.outcomes.domain_deferrals import FAILURE_THRESHOLD, PROBE_TIMEOUT, Backoff, load_backoffs, next_look
from app.sends.outcomes.relay_refusals import IS_NOTICED, RelayKey
from app.sends.pauses.read import ActivePause, active_pauses, lock_active, test_accounts
from app.services import Services
from app.transports.base import DeliveryResult

# A pause, and the back-off of a domain.


def domains_of(session: Session, claimed: Iterable[ClaimedRecipient]) -> dict[int, str]:
    """Id of a recipient -> the domain of its address; one select if a recipient has the address of its contact."""
    emails = [row for row in claimed if row.type == "email"]
    contact_ids = {row.contact_id for row in emails if row.email is None and row.contact_id is not None}
    contacts = select(Contact.id, Contact.email).where(Contact.id.in_(contact_ids)) if contact_ids else None
    addresses = {row.id: row.email for row in session.execute(contacts)} if contacts is not None else {}
    addresses_of_recipients = {row.id: row.email or addresses.get(row.contact_id) for row in emails}
    return {recipient_id: domain_of(address) for recipient_id, address in addresses_of_recipients.items() if address}


PAUSE_DETAILS = {
    "account": "sending is paused for the account",
    "list": "sending is paused for the list",
    "domain": "sending is paused for the domain of the address",
}


def put_aside(transaction: Transaction, worker: str, claimed: Sequence[ClaimedRecipient]) -> list[ClaimedRecipient]:
    """The claimed rows that may be sent; those that a pause concerns are put aside. One select if there is no pause."""
    pauses = active_pauses(transaction, {row.account_id for row in claimed}) if claimed else []
    while concerned := _concerned(transaction, pauses, claimed) if pauses else {}:
        chosen = {pause.id for pause in concerned.values()}
        ended = chosen - lock_active(transaction, chosen)
        if not ended:
            break
        pauses = [pause for pause in pauses if pause.id not in ended]  # another one may concern the same message
    else:
        return list(claimed)
    paused = [row for row in claimed if row.id in concerned]
    _PUT_ASIDE.run(transaction, [{"row": row.id, "pause": concerned[row.id].id, "owner": worker} for row in paused])
    moment = now()
    add_steps(
        transaction,
        [
            step_row(row.account_id, row.id, TimelineStep.PAUSED, PAUSE_DETAILS[concerned[row.id].kind], moment)
            for row in paused
        ],
    )
    ids = {row.id for row in paused}
    return [row for row in claimed if row.id not in ids]


def _concerned(
    transaction: Transaction, pauses: Iterable[ActivePause], claimed: Sequence[ClaimedRecipient]
) -> dict[int, ActivePause]:
    """Id of a recipient -> the first pause that concerns it."""
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
    pauses_by_recipient: dict[int, ActivePause] = {}
    for row in claimed:
        list_pause = None if row.list_id is None else by_list.get(row.list_id)
        if first := by_account.get(row.account_id) or list_pause:
            pauses_by_recipient[row.id] = first
    if by_domain:
        rest = [row for row in claimed if row.id not in pauses_by_recipient]
        pauses_by_recipient |= _concerned_by_domain(transaction, by_domain, rest)
    return pauses_by_recipient


def _concerned_by_domain(
    transaction: Transaction,
    by_domain: dict[tuple[int | None, str], ActivePause],
    claimed: Sequence[ClaimedRecipient],
) -> dict[int, ActivePause]:
    """Mail of test accounts is captured, so that it goes to no domain."""
    accounts = {account_id for account_id, _ in by_domain}
    may_be = [row for row in claimed if None in accounts or row.account_id in accounts]
    domains = domains_of(transaction, may_be)
    pauses_by_recipient: dict[int, ActivePause] = {}
    everywhere: dict[int, list[tuple[int, ActivePause]]] = defaultdict(list)
    for row in may_be:
        domain = domains.get(row.id, "")
        if pause := by_domain.get((row.account_id, domain)):
            pauses_by_recipient[row.id] = pause
        elif pause := by_domain.get((None, domain)):
            everywhere[row.account_id].append((row.id, pause))
    if everywhere:
        tests = test_accounts(transaction, everywhere)
        pauses_by_recipient |= {
            key: pause for account, of in everywhere.items() if account not in tests for key, pause in of
        }
    return pauses_by_recipient


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


def defer_backed_off(
    transaction: Transaction, worker: str, claimed: Sequence[ClaimedRecipient]
) -> list[ClaimedRecipient]:
    """The claimed rows that may be sent; those that are backed off go back into the queue until the back-off ends.

    At most two selects if nothing is backed off.
    """
    by_domain = _by_domain(transaction, claimed)
    backoffs = load_backoffs(transaction, by_domain.keys()) if by_domain else []
    active = sorted((row for row in backoffs if row.failures >= FAILURE_THRESHOLD), key=lambda row: row.key)
    if not active:
        return list(claimed)
    concerned = [row for backoff in active for row in by_domain[backoff.account_id, backoff.domain]]
    senders = _sender_domains(transaction, concerned)
    deferred: set[int] = set()
    for backoff in active:
        rows = by_domain[backoff.account_id, backoff.domain]
        concerned_by = [row for row in rows if senders[row.send_id] == backoff.sender_domain]
        deferred.update(_defer(transaction, worker, backoff, concerned_by))
    return [row for row in claimed if row.id not in deferred]


def _by_domain(
    transaction: Transaction, claimed: Sequence[ClaimedRecipient]
) -> dict[tuple[int, str], list[ClaimedRecipient]]:
    """The emails of the batch by account and domain."""
    domains = domains_of(transaction, claimed)
    by_domain: dict[tuple[int, str], list[ClaimedRecipient]] = defaultdict(list)
    for row in claimed:
        if domain := domains.get(row.id):
            by_domain[row.account_id, domain].append(row)
    return by_domain


def _sender_domains(transaction: Transaction, claimed: Sequence[ClaimedRecipient]) -> dict[int, str]:
    """The sender's domain of each send of these rows."""
    senders = select(Send.id, Send.from_address).where(in_json(Send.id, {row.send_id for row in claimed}))
    return {row.id: domain_of(row.from_address) for row in transaction.execute(senders)}


def _defer(transaction: Transaction, worker: str, backoff: Backoff, rows: Sequence[ClaimedRecipient]) -> list[int]:
    """Postpones all of the rows, or all but one if the back-off is over: the worker that extends it sends the probe."""
    until = max(backoff.until_time, now())
    if rows and backoff.until_time <= now() and _claim_probe(transaction, backoff):
        until, rows = now() + timedelta(seconds=PROBE_TIMEOUT), rows[1:]
    due_time = next_look(until)
    postpone(transaction, worker, {row.id: due_time for row in rows})
    return [row.id for row in rows]


def _claim_probe(transaction: Transaction, backoff: Backoff) -> bool:
    """Whether this worker is the one that extends the back-off, which only one does."""
    extended = (
        update(DomainBackoff)
        .where(DomainBackoff.id == backoff.id, DomainBackoff.until_time == backoff.until_time)
        .values(until_time=now() + timedelta(seconds=PROBE_TIMEOUT))
        .returning(DomainBackoff.id)
    )
    return transaction.execute(extended, execution_options={"synchronize_session": False}).first() is not None


# What the account does not have any more: an owner whose confirmation was taken back, a domain that is not verified any
# more or was deleted, a sender of text messages that was withdrawn. What needs it is deferred until the account has it
# again, or the retry period ends, so that no mail leaves unsigned or from a stranger's domain, and none is lost.

SenderKey = tuple[int, str]
"""Account and address."""


class ApprovedSender(NamedTuple):
    """What concerns delivery of a sender of text messages: its rate, and the only list that it sends to, if any."""

    messages_per_second: float | None
    list_id: int | None


Senders = Mapping[SenderKey, ApprovedSender]


def sender_key(recipient: ClaimedRecipient) -> SenderKey:
    """The key of the sender of the recipient's text message."""
    return recipient.account_id, recipient.compiled.send.from_address


def load_senders(session: Session, recipients: Iterable[ClaimedRecipient]) -> Senders:
    """The approved senders of these text messages; no select where there is none."""
    keys = {sender_key(recipient) for recipient in recipients if recipient.type == "sms"}
    if not keys:
        return {}
    columns = SmsSender.account_id, SmsSender.address, SmsSender.messages_per_second, SmsSender.list_id
    statement = select(*columns).where(
        SmsSender.account_id.in_({account for account, _ in keys}),
        SmsSender.address.in_({address for _, address in keys}),
    )
    rows = session.execute(statement)
    return {(account, address): ApprovedSender(rate, list_id) for account, address, rate, list_id in rows}


# A relay that refuses everything of an account (docs/retries.md#a-relay-that-refuses-everything).
#
# What makes it one is counted with the outcomes (`app/sends/outcomes/relay_refusals.py`). Loading a batch tells whether
# an account has such a relay, so that nothing more is read for all others. Its messages go over the further transports
# of their route; those without one are due again at the next try, or for their last attempt at the end of the retry
# period, which counts as no attempt. At the next try one message goes as a probe, and the others wait for its result.


class NoticedRefusal(NamedTuple):
    """The id of a noticed refusal, and the time of its next try."""

    id: int
    until_time: datetime


Refusals = dict[RelayKey, NoticedRefusal]


def load_refusals(session: Session, recipients: Iterable[ClaimedRecipient]) -> Refusals:
    """The transports that refuse everything of an account of these recipients; no select if there is none."""
    accounts = {recipient.account_id for recipient in recipients if _may_be_refused(recipient)}
    if not accounts:
        return {}
    columns = RelayRefusal.account_id, RelayRefusal.transport, RelayRefusal.id, RelayRefusal.until_time
    rows = session.execute(select(*columns).where(in_json(RelayRefusal.account_id, accounts), *IS_NOTICED))
    return {RelayKey(row.account_id, row.transport): NoticedRefusal(row.id, row.until_time) for row in rows}


def _may_be_refused(recipient: ClaimedRecipient) -> bool:
    return recipient.compiled.send.relay_refuses and recipient.type == "email" and not recipient.compiled.send.is_test


class _RelayWaits:
    """The decisions on one batch."""

    def __init__(self, transaction: Transaction, router: Router, refusals: Refusals, period: timedelta) -> None:
        self.due_times: dict[int, datetime] = {}
        self._transaction = transaction
        self._router = router
        self._refusals = dict(refusals)
        self._period = period
        self._moment = now()

    def decide(self, recipient: ClaimedRecipient) -> None:
        """Gives the recipient a due time or, where it must go around something, its route."""
        end = recipient.compiled.send.begin_time + self._period
        if end <= self._moment:
            return
        names = self._router.route(recipient)
        left: list[str] = []
        for name in names:
            if self._is_open(RelayKey(recipient.account_id, name), recipient, is_first=not left):
                left.append(name)
        if names and not left:
            keys = (RelayKey(recipient.account_id, name) for name in names)
            self.due_times[recipient.id] = min(end, *(next_look(self._refusals[key].until_time) for key in keys))
        elif len(left) < len(names):
            recipient.route = RouteProgress(left)

    def _is_open(self, key: RelayKey, recipient: ClaimedRecipient, *, is_first: bool) -> bool:
        """Whether the recipient's message may go there: nothing is refused, or it is the probe."""
        refusing = self._refusals.get(key)
        if refusing is None:
            return True
        if not is_first or refusing.until_time > self._moment:
            return False
        until = self._moment + timedelta(seconds=PROBE_TIMEOUT)
        self._refusals[key] = refusing._replace(until_time=until)
        return self._claim_probe(refusing, recipient, until)

    def _claim_probe(self, refusing: NoticedRefusal, recipient: ClaimedRecipient, until: datetime) -> bool:
        """Whether this worker is the one that sets the time of the next try, which only one does."""
        claimed = (
            update(RelayRefusal)
            .where(RelayRefusal.id == refusing.id, RelayRefusal.until_time == refusing.until_time, *IS_NOTICED)
            .values(until_time=until, probe_id=recipient.id)
            .returning(RelayRefusal.id)
        )
        return self._transaction.execute(claimed, execution_options={"synchronize_session": False}).first() is not None


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What decides whether the messages of a batch may leave now; most of it is loaded with the batch."""

    services: Services
    router: Router
    limits: SizeLimits
    batch: Sequence[ClaimedRecipient]
    senders: Senders
    rendered: RenderedRows
    refusals: Refusals


def load_circumstances(
    session: Session, services: Services, router: Router, limits: SizeLimits, batch: Sequence[ClaimedRecipient]
) -> Circumstances:
    """Loads the circumstances of a batch: at most three selects, none for mails of which no relay refuses anything and
    that cannot become too large."""
    senders, rendered = load_senders(session, batch), load_rendered(session, batch, limits)
    return Circumstances(services, router, limits, batch, senders, rendered, load_refusals(session, batch))


def deferral(reason: WaitReason, name: str = "") -> DeliveryResult:
    """The result of an attempt that ends for this reason; `name` is what is lacking."""
    how = POSTPONEMENTS[reason]
    return DeliveryResult.deferred((how.text or "").format(name=name), how.status)


Waits = Mapping[int, DeliveryResult | datetime]
"""Id of a recipient -> the deferral that ends its attempt, or when it is due again without an attempt."""
FindWaits = Callable[[Circumstances, Sequence[ClaimedRecipient]], Waits]


def _unconfirmed(_circumstances: Circumstances, recipients: Sequence[ClaimedRecipient]) -> Waits:
    result = deferral(WaitReason.OWNER_UNCONFIRMED)
    return {recipient.id: result for recipient in recipients if not recipient.compiled.send.owner_confirmed}


def _lacking_domain(reason: WaitReason) -> FindWaits:
    def find(_circumstances: Circumstances, recipients: Sequence[ClaimedRecipient]) -> Waits:
        return {
            recipient.id: deferral(reason, lacking.name)
            for recipient in recipients
            if (lacking := recipient.compiled.domain.lacking) and lacking.reason is reason and recipient.type == "email"
        }

    return find


def _unapproved(circumstances: Circumstances, recipients: Sequence[ClaimedRecipient]) -> Waits:
    deferrals = {}
    for recipient in (recipient for recipient in recipients if recipient.type == "sms"):
        sender = circumstances.senders.get(sender_key(recipient))
        if sender is None or sender.list_id not in (None, recipient.compiled.send.list_id):
            deferrals[recipient.id] = deferral(WaitReason.SENDER_MISSING, recipient.compiled.send.from_address)
    return deferrals


def _beyond_quota(circumstances: Circumstances, recipients: Sequence[ClaimedRecipient]) -> Waits:
    return beyond_quota(recipients, circumstances.batch, circumstances.rendered, circumstances.limits)


def _beyond_rate(circumstances: Circumstances, recipients: Sequence[ClaimedRecipient]) -> Waits:
    senders = circumstances.senders
    rates = {
        key: sender.messages_per_second for key, sender in senders.items() if sender.messages_per_second is not None
    }
    by_sender: dict[SenderKey, list[int]] = defaultdict(list)
    for recipient in recipients if rates else ():
        if recipient.type == "sms" and sender_key(recipient) in rates:
            by_sender[sender_key(recipient)].append(recipient.id)
    due_times: dict[int, datetime] = {}
    for sender, ids in by_sender.items():
        grant = circumstances.services.rates.take(f"tms:sender:{sender[0]}:{sender[1]}", rates[sender], len(ids))
        first, step = now() + timedelta(seconds=grant.wait), timedelta(seconds=grant.step)
        due_times |= {recipient_id: first + number * step for number, recipient_id in enumerate(ids[grant.allowed :])}
    return due_times


def _waiting_for_relays(circumstances: Circumstances, recipients: Sequence[ClaimedRecipient]) -> dict[int, datetime]:
    """The due times of the recipients that must wait; the others get a route around the transports that refuse them. A
    message that was attempted least comes first as a probe: one that is refused for itself must not stand for all
    others each time."""
    concerned = [recipient for recipient in recipients if _may_be_refused(recipient)] if circumstances.refusals else []
    if not concerned:
        return {}
    services = circumstances.services
    with services.database.write() as transaction:
        period = timedelta(seconds=services.settings.retry_period)
        waits = _RelayWaits(transaction, circumstances.router, circumstances.refusals, period)
        for recipient in sorted(concerned, key=lambda recipient: recipient.attempts):
            waits.decide(recipient)
    return waits.due_times


CHECKS_OF_CLAIMED: Mapping[
    WaitReason, Callable[[Transaction, str, Sequence[ClaimedRecipient]], list[ClaimedRecipient]]
] = {
    WaitReason.PAUSE: put_aside,
    WaitReason.DOMAIN_BACKOFF: defer_backed_off,
}
"""What puts claimed rows off for a reason, and returns the others."""
CHECKS_OF_LOADED: Mapping[WaitReason, FindWaits] = {
    WaitReason.OWNER_UNCONFIRMED: _unconfirmed,
    WaitReason.DOMAIN_MISSING: _lacking_domain(WaitReason.DOMAIN_MISSING),
    WaitReason.DOMAIN_UNVERIFIED: _lacking_domain(WaitReason.DOMAIN_UNVERIFIED),
    WaitReason.SENDER_MISSING: _unapproved,
    WaitReason.RENDER_QUOTA: _beyond_quota,
    WaitReason.RATE_LIMIT: _beyond_rate,
    WaitReason.RELAY: _waiting_for_relays,
}
"""What finds the recipients of a loaded batch that wait for a reason."""


def put_off_claimed(
    transaction: Transaction, worker: str, claimed: list[ClaimedRecipient]
) -> tuple[list[ClaimedRecipient], set[WaitReason]]:
    """The claimed rows that may be sent, and the reasons for which others are deferred."""
    reasons = set()
    for reason, put_off in CHECKS_OF_CLAIMED.items():
        left = put_off(transaction, worker, claimed)
        if len(left) < len(claimed):
            reasons.add(reason)
            kept = {row.id for row in left}
            count_deferred([row for row in claimed if row.id not in kept], reason)
        claimed = left
    return claimed, reasons
