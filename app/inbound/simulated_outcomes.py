"""What happens to messages to magic addresses, by the use cases that mail servers, gateways and readers cause in life
(docs/testing.md#magic-addresses)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.db.database import Transaction
from app.db.models import CapturedMessage
from app.inbound.captured_mail import CapturedLinks, captured_links
from app.inbound.email.record import record_report
from app.inbound.email.report import Report, ReportKind
from app.inbound.receipts import Receipt, record_receipt
from app.inbound.replies import record_reply
from app.inbox.magic import Magic
from app.settings import Settings
from app.tracking.devices import client_of
from app.tracking.links import LinkTarget, find_link_target
from app.tracking.record import record_visits
from app.tracking.tokens import OPEN, recipient_from_token
from app.tracking.unsubscribe import apply_unsubscribe, find_unsubscribe_request
from app.tracking.visits import Visit, visit_of

AGENT = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148"
"""The program of the simulated reader."""
STOP = "STOP"

REPORTS: Mapping[str, Report] = {
    Magic.SOFT_BOUNCE: Report(ReportKind.FAILED, "4.2.2", "452 4.2.2 simulated: mailbox full"),
    Magic.LATE_BOUNCE: Report(ReportKind.FAILED, "5.1.1", "550 5.1.1 simulated: no such user"),
    Magic.COMPLAINT: Report(ReportKind.COMPLAINT, None, "abuse reported by a simulated reader"),
}
RECEIPTS: Mapping[str, Receipt] = {
    Magic.ACKNOWLEDGED: Receipt(0, "delivered", "simulated: DELIVRD"),
    Magic.UNDELIVERED: Receipt(0, "failed", "simulated: UNDELIV"),
    Magic.UNREACHABLE: Receipt(0, "failed", "simulated: EXPIRED"),
}
VISITS = (Magic.OPEN, Magic.CLICK)
READ = (*VISITS, Magic.UNSUBSCRIBE)
"""Those for which the mail itself is read."""


class Simulation(NamedTuple):
    """A captured message, and what happens to it."""

    id: int
    account_id: int
    recipient_id: int
    magic: str
    sender: str
    address: str


def read_links(session: Session, simulations: Sequence[Simulation]) -> dict[int, CapturedLinks]:
    """The links of the mails that are read, one mail after the other: each may be large."""
    found = {}
    for one in simulations:
        if one.magic in READ:
            content = select(CapturedMessage.content).where(CapturedMessage.id == one.id)
            mail = session.scalars(content).first()
            found[one.id] = captured_links(mail or b"")
    return found


def simulate(
    settings: Settings,
    transaction: Transaction,
    simulations: Sequence[Simulation],
    links: Mapping[int, CapturedLinks],
) -> None:
    """Makes it happen; all visits together."""
    visits: list[Visit] = []
    for one in simulations:
        if one.magic in VISITS:
            visits += _visits(settings, transaction, one, links[one.id])
        elif one.magic == Magic.UNSUBSCRIBE:
            _unsubscribe(settings, transaction, one, links[one.id])
        else:
            _report(transaction, one)
    if visits:
        record_visits(transaction, visits)


def _report(transaction: Transaction, one: Simulation) -> None:
    """What a mail server, a gateway or a person with a telephone reports."""
    name = f"simulated {one.id}"
    if report := REPORTS.get(one.magic):
        record_report(transaction, one.recipient_id, replace(report, about=frozenset((one.address,))), name)
    elif receipt := RECEIPTS.get(one.magic):
        record_receipt(transaction, replace(receipt, recipient_id=one.recipient_id))
    elif one.magic == Magic.STOP and one.sender.isdigit():  # nobody can answer to a name
        record_reply(transaction, one.address, one.sender, STOP, message_id=name, test_account=one.account_id)


def _unsubscribe(settings: Settings, transaction: Transaction, one: Simulation, links: CapturedLinks) -> None:
    for token in links.opt_outs:
        request = find_unsubscribe_request(transaction, settings.secret_keys, token)
        if request is not None and request.recipient_id == one.recipient_id:
            apply_unsubscribe(transaction, request)
            return


def _visits(settings: Settings, session: Session, one: Simulation, links: CapturedLinks) -> list[Visit]:
    """The visit of a reader: to the pixel, or to the first tracked link."""
    target = None
    if one.magic == Magic.CLICK:
        target = _first_target(settings, session, one, links)
        is_found = target is not None
    else:
        owners = (recipient_from_token(settings.secret_keys, OPEN, token) for token in links.pixels)
        is_found = one.recipient_id in owners
    client = client_of("GET", {"User-Agent": AGENT})
    return [visit_of(settings, one.recipient_id, client, None, target)] if is_found else []


def _first_target(settings: Settings, session: Session, one: Simulation, links: CapturedLinks) -> LinkTarget | None:
    targets = (find_link_target(session, settings.secret_keys, token) for token in links.links)
    return next((target for target in targets if target and target.recipient_id == one.recipient_id), None)
