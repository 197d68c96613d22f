"""Destinations that put us off: a domain whose mail servers defer all that an account sends there is given time.

After three deferrals that concern the domain rather than the recipient, and no delivery between, no message goes there
for two minutes; then one does, as a probe. If it is put off, too, the domain rests for twice as long, up to an hour.
The first delivery ends it. Claims stay as cheap as they are: what was claimed for a resting domain goes back into the
queue, due when the rest ends, and the try does not count.

A mail server judges by who sends: its words to one account, or about one of its domains, say nothing of the others.
So a rest is that of a route: an account, the domain of its sender, and the destination.
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
from app.db.models import Contact, DestinationPause, Recipient, Send
from app.db.prepared import Prepared
from app.db.upsert import upsert
from app.sends.delivery.claim import QUEUED, SENDING, ClaimedRecipient
from app.sends.outcomes.transitions import Transition
from app.transports.base import DeliveryResult, Outcome

TOLERATED = 3
"""Deferrals of a domain, without a delivery in between, that make it rest."""
FIRST_REST = 120.0
LONGEST_REST = 3600.0
PROBE = 60.0
"""Seconds for which the others wait for the outcome of the probe."""

# The subjects of RFC 3463 that are the mail system's: 4, network and routing, and 7, policy.
_OF_THE_DOMAIN = re.compile(r"4\.[47]\.\d+")
_SERVERS_REPLY = re.compile(r"4\d\d\b")


class Route(NamedTuple):
    """What rests together: all that an account sends from one domain to another."""

    account_id: int
    sender_domain: str
    domain: str


class DomainBackoff(NamedTuple):
    """What is known of a route whose destination has put us off."""

    id: int
    account_id: int
    sender_domain: str
    domain: str
    failures: int
    until_time: datetime

    @property
    def route(self) -> Route:
        """The route that it is about."""
        return Route(self.account_id, self.sender_domain, self.domain)


PAUSES = Prepared(
    select(*(getattr(DestinationPause, name) for name in DomainBackoff._fields)).where(
        in_json(DestinationPause.account_id, bindparam("accounts", type_=String)),
        in_json(DestinationPause.domain, bindparam("domains", type_=String)),
    )
)


def concerns_domain(result: DeliveryResult | None) -> bool:
    """Whether a mail server, not our way to it, put off more than this one recipient."""
    return (
        result is not None
        and result.outcome is Outcome.DEFERRED
        and _SERVERS_REPLY.match(result.reply) is not None
        and _OF_THE_DOMAIN.fullmatch(result.status or "") is not None
    )


def update_backoffs(transaction: Transaction, made: Sequence[Transition]) -> None:
    """Remembers which destinations put us off, and forgets those that took a message. Nearly always there is nothing to
    do, so this looks first: a look takes no lock."""
    taken = {_route(one) for one in made if one.troubles == "forget"}
    put_off = Counter(_route(one) for one in made if one.held.type == "email" and concerns_domain(one.verdict.result))
    routes = {route for route in taken | set(put_off) if route.domain}
    if not routes:
        return
    known = {one.route: one for one in _pauses(transaction, {(route.account_id, route.domain) for route in routes})}
    if gone := sorted(known[route].id for route in taken & known.keys()):
        statement = delete(DestinationPause).where(DestinationPause.id.in_(gone))
        transaction.execute(statement, execution_options={"synchronize_session": False})
    for route in sorted(put_off.keys() - taken):
        _add(transaction, route, put_off[route], known.get(route))


def _route(one: Transition) -> Route:
    held = one.held
    return Route(held.account_id, domain_of(held.from_address), domain_of(one.verdict.address or ""))


def _pauses(transaction: Transaction, wanted: Collection[tuple[int, str]]) -> list[DomainBackoff]:
    """The pauses of these accounts and destinations, whatever the sender's domain."""
    accounts, domains = {account for account, _ in wanted}, {domain for _, domain in wanted}
    rows = PAUSES.rows(transaction, accounts=json_array(accounts), domains=json_array(domains))
    return [pause for row in rows if ((pause := DomainBackoff._make(row)).account_id, pause.domain) in wanted]


def _add(transaction: Transaction, route: Route, more: int, known: DomainBackoff | None) -> None:
    """One step up. What comes in while the route rests was on its way before that, and adds nothing."""
    moment = now()
    before = known.failures if known else 0
    if known and before >= TOLERATED and known.until_time > moment + timedelta(seconds=PROBE):
        return
    failures = before + 1 if before >= TOLERATED else min(before + more, TOLERATED)
    rest = min(FIRST_REST * 2.0 ** min(failures - TOLERATED, 10), LONGEST_REST) if failures >= TOLERATED else 0.0
    values = {"failures": failures, "until_time": moment + timedelta(seconds=rest)}
    row = {**route._asdict(), **values}
    transaction.execute(upsert(transaction, DestinationPause, row, index=Route._fields, update=lambda _: values))


def defer_backed_off(
    transaction: Transaction, worker: str, claimed: Sequence[ClaimedRecipient]
) -> list[ClaimedRecipient]:
    """What may be sent of the rows just claimed; those of resting routes go back into the queue until the rest ends.

    Two selects at most where nothing rests.
    """
    by_destination = _by_destination(transaction, claimed)
    pauses = _pauses(transaction, by_destination.keys()) if by_destination else []
    resting = sorted((pause for pause in pauses if pause.failures >= TOLERATED), key=lambda pause: pause.route)
    if not resting:
        return list(claimed)
    concerned = [one for pause in resting for one in by_destination[pause.account_id, pause.domain]]
    senders = _sender_domains(transaction, concerned)
    held: set[int] = set()
    for pause in resting:
        rows = by_destination[pause.account_id, pause.domain]
        held.update(
            _put_off(transaction, worker, pause, [one for one in rows if senders[one.send_id] == pause.sender_domain])
        )
    return [one for one in claimed if one.id not in held]


def _by_destination(
    transaction: Transaction, claimed: Sequence[ClaimedRecipient]
) -> dict[tuple[int, str], list[ClaimedRecipient]]:
    """The emails among them, by account and domain; who was named by contact gets it at the contact's address."""
    emails = [one for one in claimed if one.type == "email"]
    named = {one.contact_id for one in emails if one.email is None and one.contact_id is not None}
    rows = transaction.execute(select(Contact.id, Contact.email).where(Contact.id.in_(named))) if named else ()
    addresses = {row.id: row.email for row in rows}
    found: dict[tuple[int, str], list[ClaimedRecipient]] = defaultdict(list)
    for one in emails:
        if address := one.email or addresses.get(one.contact_id):
            found[one.account_id, domain_of(address)].append(one)
    return found


def _sender_domains(transaction: Transaction, claimed: Sequence[ClaimedRecipient]) -> dict[int, str]:
    """The domain that each send of these rows comes from."""
    wanted = select(Send.id, Send.from_address).where(in_json(Send.id, {one.send_id for one in claimed}))
    return {row.id: domain_of(row.from_address) for row in transaction.execute(wanted)}


def _put_off(
    transaction: Transaction, worker: str, pause: DomainBackoff, rows: Sequence[ClaimedRecipient]
) -> list[int]:
    """All of them, or all but one when the rest is over: the claimer that moves its end has the probe."""
    until = pause.until_time
    if rows and until <= now() and _takes_probe(transaction, pause, until):
        until, rows = now() + timedelta(seconds=PROBE), rows[1:]
    ids = [row.id for row in rows]
    if ids:
        statement = (
            update(Recipient)
            .where(Recipient.id.in_(ids), Recipient.state == SENDING, Recipient.worker == worker)
            .values(state=QUEUED, worker=None, lease_time=None, attempts=Recipient.attempts - 1, due_time=until)
        )
        transaction.execute(statement, execution_options={"synchronize_session": False})
    return ids


def _takes_probe(transaction: Transaction, pause: DomainBackoff, until: datetime) -> bool:
    moved = (
        update(DestinationPause)
        .where(DestinationPause.id == pause.id, DestinationPause.until_time == until)
        .values(until_time=now() + timedelta(seconds=PROBE))
        .returning(DestinationPause.id)
    )
    return transaction.execute(moved, execution_options={"synchronize_session": False}).first() is not None
