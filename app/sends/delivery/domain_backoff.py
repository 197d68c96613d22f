"""Per-domain back-off after repeated deferrals by the domain's mail servers.

After three deferrals that concern the domain rather than the recipient, and no delivery in between, no message goes
there for two minutes; then one does, as a probe. If the probe is deferred, too, the back-off doubles, up to an hour.
The first delivery ends it. Claims cost the same as without back-off: rows that were claimed for a backed-off domain go
back into the queue, due when the back-off ends, and that does not count as an attempt.

A mail server judges by sender: its replies to one account, or about one of its domains, say nothing of the others. So a
back-off is kept per route: an account, the domain of its sender, and the domain of the recipient.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import String, bindparam, delete, select, update

from app.addresses import domain_of
from app.clock import now
from app.db.database import Transaction
from app.db.in_json import in_json, json_array
from app.db.models import Contact, DomainBackoff, Recipient, Send
from app.db.prepared import PreparedStatement
from app.db.upsert import upsert
from app.sends.delivery.claim import QUEUED, SENDING, ClaimedRecipient
from app.sends.outcomes.transitions import Transition
from app.transports.base import DeliveryResult, Outcome

FAILURE_THRESHOLD = 3
"""Deferrals of a domain, without a delivery in between, that start its back-off."""
FIRST_BACKOFF = 120.0
MAX_BACKOFF = 3600.0
PROBE_TIMEOUT = 60.0
"""Seconds for which all other messages wait for the result of the probe."""

# The subjects of RFC 3463 that concern the mail system: 4, network and routing, and 7, policy.
_DOMAIN_STATUS = re.compile(r"4\.[47]\.\d+")
_SERVER_REPLY = re.compile(r"4\d\d\b")


class Route(NamedTuple):
    """What is backed off together: all mail of an account from one domain to another."""

    account_id: int
    sender_domain: str
    domain: str


class Backoff(NamedTuple):
    """The back-off of a route: a row of `DomainBackoff`."""

    id: int
    account_id: int
    sender_domain: str
    domain: str
    failures: int
    until_time: datetime

    @property
    def route(self) -> Route:
        return Route(self.account_id, self.sender_domain, self.domain)


BACKOFFS = PreparedStatement(
    select(*(getattr(DomainBackoff, name) for name in Backoff._fields)).where(
        in_json(DomainBackoff.account_id, bindparam("accounts", type_=String)),
        in_json(DomainBackoff.domain, bindparam("domains", type_=String)),
    )
)


def is_domain_deferral(result: DeliveryResult | None) -> bool:
    """Whether a mail server, not a relay on the way to it, deferred more than this one recipient."""
    return (
        result is not None
        and result.outcome is Outcome.DEFERRED
        and _SERVER_REPLY.match(result.reply) is not None
        and _DOMAIN_STATUS.fullmatch(result.status or "") is not None
    )


def update_backoffs(transaction: Transaction, transitions: Sequence[Transition]) -> None:
    """Counts deferrals of domains, and deletes the back-offs of those that accepted a message. Nearly always there is
    nothing to write, so it selects first: that takes no lock."""
    delivered = {_route(transition) for transition in transitions if transition.soft_bounces == "reset"}
    deferred = Counter(_route(transition) for transition in transitions if _is_deferred_by_domain(transition))
    routes = {route for route in delivered | set(deferred) if route.domain}
    if not routes:
        return
    destinations = {(route.account_id, route.domain) for route in routes}
    backoffs = {backoff.route: backoff for backoff in _load_backoffs(transaction, destinations)}
    if ended := sorted(backoffs[route].id for route in delivered & backoffs.keys()):
        statement = delete(DomainBackoff).where(DomainBackoff.id.in_(ended))
        transaction.execute(statement, execution_options={"synchronize_session": False})
    for route in sorted(deferred.keys() - delivered):
        _count_failures(transaction, route, deferred[route], backoffs.get(route))


def _is_deferred_by_domain(transition: Transition) -> bool:
    return transition.recipient.type == "email" and is_domain_deferral(transition.attempt_result.result)


def _route(transition: Transition) -> Route:
    recipient = transition.recipient
    return Route(
        recipient.account_id, domain_of(recipient.from_address), domain_of(transition.attempt_result.address or "")
    )


def _load_backoffs(transaction: Transaction, destinations: Collection[tuple[int, str]]) -> list[Backoff]:
    """The back-offs of these accounts and recipient domains, whatever the sender's domain."""
    accounts, domains = {account for account, _ in destinations}, {domain for _, domain in destinations}
    rows = BACKOFFS.rows(transaction, accounts=json_array(accounts), domains=json_array(domains))
    return [backoff for row in rows if ((backoff := Backoff._make(row)).account_id, backoff.domain) in destinations]


def _count_failures(transaction: Transaction, route: Route, more: int, backoff: Backoff | None) -> None:
    """One step up. Deferrals of messages that were in flight before the back-off began add nothing."""
    moment = now()
    before = backoff.failures if backoff else 0
    if backoff and before >= FAILURE_THRESHOLD and backoff.until_time > moment + timedelta(seconds=PROBE_TIMEOUT):
        return
    failures = before + 1 if before >= FAILURE_THRESHOLD else min(before + more, FAILURE_THRESHOLD)
    values = {"failures": failures, "until_time": moment + timedelta(seconds=_duration(failures))}
    row = {**route._asdict(), **values}
    transaction.execute(upsert(transaction, DomainBackoff, row, index=Route._fields, update=lambda _: values))


def _duration(failures: int) -> float:
    """Seconds of a back-off after so many failures."""
    if failures < FAILURE_THRESHOLD:
        return 0.0
    return min(FIRST_BACKOFF * 2.0 ** min(failures - FAILURE_THRESHOLD, 10), MAX_BACKOFF)


def defer_backed_off(
    transaction: Transaction, worker: str, claimed: Sequence[ClaimedRecipient]
) -> list[ClaimedRecipient]:
    """The claimed rows that may be sent; those of backed-off routes go back into the queue until the back-off ends.

    Two selects at most where nothing is backed off.
    """
    by_destination = _by_destination(transaction, claimed)
    backoffs = _load_backoffs(transaction, by_destination.keys()) if by_destination else []
    active = sorted((row for row in backoffs if row.failures >= FAILURE_THRESHOLD), key=lambda row: row.route)
    if not active:
        return list(claimed)
    concerned = [row for backoff in active for row in by_destination[backoff.account_id, backoff.domain]]
    senders = _sender_domains(transaction, concerned)
    deferred: set[int] = set()
    for backoff in active:
        rows = by_destination[backoff.account_id, backoff.domain]
        of_route = [row for row in rows if senders[row.send_id] == backoff.sender_domain]
        deferred.update(_defer(transaction, worker, backoff, of_route))
    return [row for row in claimed if row.id not in deferred]


def _by_destination(
    transaction: Transaction, claimed: Sequence[ClaimedRecipient]
) -> dict[tuple[int, str], list[ClaimedRecipient]]:
    """The emails of the batch by account and domain, which may be that of the contact's address."""
    emails = [row for row in claimed if row.type == "email"]
    contact_ids = {row.contact_id for row in emails if row.email is None and row.contact_id is not None}
    contacts = select(Contact.id, Contact.email).where(Contact.id.in_(contact_ids)) if contact_ids else None
    addresses = {row.id: row.email for row in transaction.execute(contacts)} if contacts is not None else {}
    by_destination: dict[tuple[int, str], list[ClaimedRecipient]] = defaultdict(list)
    for row in emails:
        if address := row.email or addresses.get(row.contact_id):
            by_destination[row.account_id, domain_of(address)].append(row)
    return by_destination


def _sender_domains(transaction: Transaction, claimed: Sequence[ClaimedRecipient]) -> dict[int, str]:
    """The sender's domain of each send of these rows."""
    senders = select(Send.id, Send.from_address).where(in_json(Send.id, {row.send_id for row in claimed}))
    return {row.id: domain_of(row.from_address) for row in transaction.execute(senders)}


def _defer(transaction: Transaction, worker: str, backoff: Backoff, rows: Sequence[ClaimedRecipient]) -> list[int]:
    """Defers all of the rows, or all but one when the back-off is over: the worker that extends it sends the probe."""
    until = backoff.until_time
    if rows and until <= now() and _claim_probe(transaction, backoff):
        until, rows = now() + timedelta(seconds=PROBE_TIMEOUT), rows[1:]
    ids = [row.id for row in rows]
    if ids:
        statement = (
            update(Recipient)
            .where(Recipient.id.in_(ids), Recipient.state == SENDING, Recipient.worker == worker)
            .values(state=QUEUED, worker=None, lease_time=None, attempts=Recipient.attempts - 1, due_time=until)
        )
        transaction.execute(statement, execution_options={"synchronize_session": False})
    return ids


def _claim_probe(transaction: Transaction, backoff: Backoff) -> bool:
    """Whether this worker is the one that extends the back-off, which only one does."""
    extended = (
        update(DomainBackoff)
        .where(DomainBackoff.id == backoff.id, DomainBackoff.until_time == backoff.until_time)
        .values(until_time=now() + timedelta(seconds=PROBE_TIMEOUT))
        .returning(DomainBackoff.id)
    )
    return transaction.execute(extended, execution_options={"synchronize_session": False}).first() is not None
