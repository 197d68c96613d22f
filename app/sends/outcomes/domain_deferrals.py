"""Repeated deferrals by the mail servers of a domain: counting them, and starting the domain's back-off.

After three deferrals that concern the domain rather than the recipient, without a delivery in between, no message is
sent to it for two minutes; then one is sent as a probe. If the probe is also deferred, the back-off doubles, up to an
hour. The first delivery ends it. `app/sends/delivery/postponed.py` postpones the mail.

A mail server judges by sender: its replies to one account, or about one of its domains, mean nothing for the others. So
a back-off has a key: an account, the domain of its sender, and the domain of the recipient. Over which transport the
mail went does not matter.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import String, bindparam, delete, select, tuple_

from app.addresses import domain_of
from app.clock import now
from app.db.bulk import insert_new_rows
from app.db.database import Transaction
from app.db.expressions import in_json, json_array
from app.db.models import DomainBackoff
from app.db.prepared import PreparedStatement
from app.sends.outcomes.transitions import Transition
from app.transports.base import DeliveryResult, Outcome

FAILURE_THRESHOLD = 3
"""Deferrals of a domain, without a delivery in between, that start its back-off."""
FIRST_BACKOFF = 120.0
MAX_BACKOFF = 3600.0
PROBE_TIMEOUT = 60.0
"""Seconds for which all other messages wait for the result of the probe."""
FIRST_LOOK = 5.0
"""Seconds after the beginning of a probe when its result is first looked for: most are known by then."""

# The subjects of RFC 3463 that concern the mail system: 4, network and routing, and 7, policy.
_DOMAIN_STATUS = re.compile(r"4\.[47]\.\d+")
_SERVER_REPLY = re.compile(r"4\d\d\b")


class BackoffKey(NamedTuple):
    """The mail that is backed off together: all mail of an account from one domain to another."""

    account_id: int
    sender_domain: str
    domain: str


class Backoff(NamedTuple):
    """A domain back-off: a row of `DomainBackoff`."""

    id: int
    account_id: int
    sender_domain: str
    domain: str
    failures: int
    until_time: datetime

    @property
    def key(self) -> BackoffKey:
        return BackoffKey(self.account_id, self.sender_domain, self.domain)


KEY_COLUMNS = tuple(getattr(DomainBackoff, name) for name in BackoffKey._fields)
BACKOFFS = PreparedStatement(
    select(*(getattr(DomainBackoff, name) for name in Backoff._fields)).where(
        in_json(DomainBackoff.account_id, bindparam("accounts", type_=String)),
        in_json(DomainBackoff.domain, bindparam("domains", type_=String)),
    )
)


def is_domain_deferral(result: DeliveryResult | None) -> bool:
    """Whether a mail server, not a relay on the way to it, deferred more than this one recipient. A reply before the
    relay has taken anything, such as to the login, is about the relay."""
    return (
        result is not None
        and result.outcome is Outcome.DEFERRED
        and result.untaken is None
        and _SERVER_REPLY.match(result.reply) is not None
        and _DOMAIN_STATUS.fullmatch(result.status or "") is not None
    )


def update_backoffs(transaction: Transaction, transitions: Sequence[Transition]) -> None:
    """Counts deferrals of domains, and deletes the back-offs of those that accepted a message. Nearly always there is
    nothing to write, so it selects first: that takes no lock."""
    delivered = set(_keys(transition for transition in transitions if transition.soft_bounces == "reset"))
    deferred = _keys(transition for transition in transitions if _is_deferred_by_domain(transition))
    keys = {key for key in delivered | set(deferred) if key.domain}
    if not keys:
        return
    destinations = {(key.account_id, key.domain) for key in keys}
    backoffs = {backoff.key: backoff for backoff in load_backoffs(transaction, destinations)}
    if ended := sorted(backoffs[key].id for key in delivered & backoffs.keys()):
        statement = delete(DomainBackoff).where(DomainBackoff.id.in_(ended))
        transaction.execute(statement, execution_options={"synchronize_session": False})
    if counted := {key: deferred[key] for key in sorted(deferred.keys() - delivered) if key.domain}:
        _count_failures(transaction, counted)


def _is_deferred_by_domain(transition: Transition) -> bool:
    return transition.recipient.type == "email" and is_domain_deferral(transition.attempt_result.result)


def _keys(transitions: Iterable[Transition]) -> Counter[BackoffKey]:
    """The keys, with the number of transitions of each. Domains are normalised once, however many share them."""
    counts: Counter[BackoffKey] = Counter()
    written = Counter(
        (
            transition.recipient.account_id,
            transition.recipient.from_address,
            (transition.attempt_result.address or "").rpartition("@")[2],
        )
        for transition in transitions
    )
    for (account_id, sender, domain), count in written.items():
        counts[BackoffKey(account_id, domain_of(sender), domain_of(domain))] += count
    return counts


def load_backoffs(transaction: Transaction, destinations: Collection[tuple[int, str]]) -> list[Backoff]:
    """The back-offs of these accounts and recipient domains, whatever the sender's domain."""
    accounts, domains = {account for account, _ in destinations}, {domain for _, domain in destinations}
    rows = BACKOFFS.rows(transaction, accounts=json_array(accounts), domains=json_array(domains))
    return [backoff for row in rows if ((backoff := Backoff._make(row)).account_id, backoff.domain) in destinations]


def next_look(until_time: datetime) -> datetime:
    """When a message is due that waits until this time, which is the end of a back-off, or of the wait for a probe.

    What ends in 55 to 60 seconds is taken for a probe under way. If it is none, the message is claimed once more than
    it needs to be.
    """
    first_look = until_time - timedelta(seconds=PROBE_TIMEOUT - FIRST_LOOK)
    return first_look if 0 < (first_look - now()).total_seconds() <= FIRST_LOOK else until_time


def _count_failures(transaction: Transaction, deferred: Mapping[BackoffKey, int]) -> None:
    """Adds the deferrals of each key, to rows that are locked: several workers meet the same domain. Deferrals of
    messages that were in flight before the back-off began do not count."""
    moment = now()
    rows = [{**key._asdict(), "failures": 0, "until_time": moment} for key in deferred]
    insert_new_rows(transaction, DomainBackoff, rows)
    locked = select(DomainBackoff).where(tuple_(*KEY_COLUMNS).in_([tuple(key) for key in deferred]))
    for backoff in transaction.scalars(locked.order_by(DomainBackoff.id).with_for_update()).all():
        key = BackoffKey(backoff.account_id, backoff.sender_domain, backoff.domain)
        has_begun = backoff.failures >= FAILURE_THRESHOLD
        if has_begun and backoff.until_time > moment + timedelta(seconds=PROBE_TIMEOUT):
            continue
        failures = backoff.failures + 1 if has_begun else min(backoff.failures + deferred[key], FAILURE_THRESHOLD)
        backoff.failures, backoff.until_time = failures, moment + timedelta(seconds=_duration(failures))
    transaction.flush()


def _duration(failures: int) -> float:
    """Seconds of a back-off after that many failures."""
    if failures < FAILURE_THRESHOLD:
        return 0.0
    return min(FIRST_BACKOFF * 2.0 ** min(failures - FAILURE_THRESHOLD, 10), MAX_BACKOFF)
