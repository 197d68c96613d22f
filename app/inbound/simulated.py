"""What happens to captured messages to magic addresses (docs/testing.md#magic-addresses)."""

from __future__ import annotations

import logging
import re
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from email import message_from_bytes
from email.message import Message
from itertools import islice
from typing import NamedTuple

from sqlalchemy import select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.clock import now
from app.db.database import Transaction
from app.db.expressions import in_json
from app.db.models import CapturedMessage, Recipient
from app.db.outage import is_unavailable
from app.inbound.email.record import record_report
from app.inbound.email.report import Report, ReportKind
from app.inbound.receipts import Receipt, record_receipt
from app.inbound.replies import record_reply
from app.inbox.magic import SIMULATION_DELAY, Magic
from app.infrastructure import liveness
from app.recipients.conditions import CURRENT_STATE
from app.recipients.states import UNSETTLED_STATES
from app.services import Services
from app.settings import Settings
from app.tracking.devices import client_of
from app.tracking.feedback_channels import apply_unsubscribe, find_unsubscribe_request
from app.tracking.links import LinkTarget, find_link_target
from app.tracking.record import record_visits
from app.tracking.tokens import OPEN_PURPOSE, recipient_from_token
from app.tracking.visits import Visit, visit_of

logger = logging.getLogger(__name__)


MAX_LINKS = 100
"""Links that are looked at: a body may have been written with any number that are not genuine."""
_PIXEL = re.compile(r"/o/([A-Za-z0-9_-]{15,24})\.gif")
_LINK = re.compile(r"/c/([A-Za-z0-9_-]{15,3000})")
_OPT_OUT = re.compile(r"/u/([A-Za-z0-9_-]{15,24})>")


@dataclass(frozen=True, slots=True)
class CapturedLinks:
    """Tokens of links in their order, genuine or not. `links` has those of the HTML, or of the text without one."""

    pixels: tuple[str, ...]
    links: tuple[str, ...]
    opt_outs: tuple[str, ...]
    """Tokens in the header that mail programs show as a button (RFC 8058)."""


def captured_links(mail: bytes) -> CapturedLinks:
    """The tokens in a mail that this service has composed."""
    message = message_from_bytes(mail)
    html, text = _body(message, "text/html"), _body(message, "text/plain")
    one_click = "List-Unsubscribe-Post" in message
    return CapturedLinks(
        pixels=_tokens(_PIXEL, html),
        links=_tokens(_LINK, html or text),
        opt_outs=_tokens(_OPT_OUT, str(message.get("List-Unsubscribe", ""))) if one_click else (),
    )


def _body(message: Message, content_type: str) -> str:
    """The first part of the type that is not attached; empty if there is none."""
    part = next(_parts(message, content_type), None)
    content = part.get_payload(decode=True) if part else None
    return content.decode("utf-8", "replace") if isinstance(content, bytes) else ""


def _parts(message: Message, content_type: str) -> Iterator[Message]:
    return (
        part
        for part in message.walk()
        if part.get_content_type() == content_type and part.get_content_disposition() != "attachment"
    )


def _tokens(form: re.Pattern[str], text: str) -> tuple[str, ...]:
    return tuple(islice((match[1] for match in form.finditer(text)), MAX_LINKS))


USER_AGENT = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148"
)
"""The program of the simulated reader."""
STOP_WORD = "STOP"

REPORT_BY_MAGIC: Mapping[str, Report] = {
    Magic.SOFT_BOUNCE: Report(ReportKind.FAILED, "4.2.2", "452 4.2.2 simulated: mailbox full"),
    Magic.LATE_BOUNCE: Report(ReportKind.FAILED, "5.1.1", "550 5.1.1 simulated: no such user"),
    Magic.COMPLAINT: Report(ReportKind.COMPLAINT, None, "abuse reported by a simulated reader"),
}
RECEIPT_BY_MAGIC: Mapping[str, Receipt] = {
    Magic.ACKNOWLEDGED: Receipt(0, "delivered", "simulated: DELIVRD"),
    Magic.UNDELIVERED: Receipt(0, "failed", "simulated: UNDELIV"),
    Magic.UNREACHABLE: Receipt(0, "failed", "simulated: EXPIRED"),
}
MAGIC_THAT_VISITS = (Magic.OPEN, Magic.CLICK)
MAGIC_THAT_READS_MAIL = (*MAGIC_THAT_VISITS, Magic.UNSUBSCRIBE)
"""Magic addresses for which the mail itself is read."""


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
    links_by_id = {}
    for simulation in simulations:
        if simulation.magic in MAGIC_THAT_READS_MAIL:
            content = select(CapturedMessage.content).where(CapturedMessage.id == simulation.id)
            mail = session.scalars(content).first()
            links_by_id[simulation.id] = captured_links(mail or b"")
    return links_by_id


def simulate(
    settings: Settings,
    transaction: Transaction,
    simulations: Sequence[Simulation],
    links: Mapping[int, CapturedLinks],
) -> None:
    """Makes happen what the magic addresses say; all visits together."""
    visits: list[Visit] = []
    for simulation in simulations:
        if simulation.magic in MAGIC_THAT_VISITS:
            visits += _visits(settings, transaction, simulation, links[simulation.id])
        elif simulation.magic == Magic.UNSUBSCRIBE:
            _unsubscribe(settings, transaction, simulation, links[simulation.id])
        else:
            _report(transaction, simulation)
    if visits:
        record_visits(transaction, visits)


def _report(transaction: Transaction, simulation: Simulation) -> None:
    """What a mail server, a gateway or a person with a telephone reports."""
    name = f"simulated {simulation.id}"
    if report := REPORT_BY_MAGIC.get(simulation.magic):
        record_report(
            transaction, simulation.recipient_id, replace(report, about=frozenset((simulation.address,))), name
        )
    elif receipt := RECEIPT_BY_MAGIC.get(simulation.magic):
        record_receipt(transaction, replace(receipt, recipient_id=simulation.recipient_id))
    elif simulation.magic == Magic.STOP and simulation.sender.isdigit():  # nobody can answer to a name
        record_reply(
            transaction,
            simulation.address,
            simulation.sender,
            STOP_WORD,
            message_id=name,
            test_account=simulation.account_id,
        )


def _unsubscribe(settings: Settings, transaction: Transaction, simulation: Simulation, links: CapturedLinks) -> None:
    for token in links.opt_outs:
        request = find_unsubscribe_request(transaction, settings.secret_keys, token)
        if request is not None and request.recipient_id == simulation.recipient_id:
            apply_unsubscribe(transaction, request)
            return


def _visits(settings: Settings, session: Session, simulation: Simulation, links: CapturedLinks) -> list[Visit]:
    """The visit of a reader: to the pixel, or to the first tracked link."""
    target = None
    if simulation.magic == Magic.CLICK:
        target = _first_target(settings, session, simulation, links)
        is_found = target is not None
    else:
        owners = (recipient_from_token(settings.secret_keys, OPEN_PURPOSE, token) for token in links.pixels)
        is_found = simulation.recipient_id in owners
    client = client_of("GET", {"User-Agent": USER_AGENT})
    return [visit_of(settings, simulation.recipient_id, client, None, target)] if is_found else []


def _first_target(
    settings: Settings, session: Session, simulation: Simulation, links: CapturedLinks
) -> LinkTarget | None:
    targets = (find_link_target(session, settings.secret_keys, token) for token in links.links)
    return next((target for target in targets if target and target.recipient_id == simulation.recipient_id), None)


BATCH_SIZE = 100
"""Messages that are looked at together."""
TIME_SLICE = 10.0
"""Seconds after which the worker turns to its other work."""
LOOK_INTERVAL = timedelta(seconds=1)
"""Time between two looks for an outcome that is not written yet."""

LaterLooks = Mapping[datetime | None, Collection[int]]
"""The time of the next look -> ids of messages; None if nothing ever happens to them."""


def has_due(session: Session) -> bool:
    """Whether anything is to happen now."""
    statement = select(CapturedMessage.id).where(CapturedMessage.simulate_time <= now()).limit(1)
    return session.scalars(statement).first() is not None


def simulate_due(services: Services) -> int:
    """Carries out what is due, until nothing is, the time slice ends, or the process is asked to stop. Returns to how
    many messages something has happened."""
    end, total = time.monotonic() + TIME_SLICE, 0
    while not services.stopping.is_set() and time.monotonic() < end:
        with services.database.read() as session:
            ready, later = _read_due(session)
        if not ready and not later:
            break
        for moment, ids in later.items():
            _put_off(services, ids, moment)
        for group in _groups(ready):
            liveness.report()
            _carry_out(services, group)
        total += len(ready)
    return total


def _read_due(session: Session) -> tuple[list[Simulation], LaterLooks]:
    """What happens now, and what is deferred."""
    moment = now()
    columns = [getattr(CapturedMessage, "simulates" if name == "magic" else name) for name in Simulation._fields]
    statement = (
        select(*columns, Recipient.sent_time, CURRENT_STATE)
        .outerjoin(Recipient, Recipient.id == CapturedMessage.recipient_id)
        .where(CapturedMessage.simulate_time <= moment)
        .order_by(CapturedMessage.simulate_time)
        .limit(BATCH_SIZE)
    )
    ready, later = list[Simulation](), defaultdict[datetime | None, list[int]](list)
    for *values, sent_time, state in session.execute(statement):
        simulation, ready_time = Simulation(*values), _ready_time(moment, sent_time, state)
        if ready_time is not None and ready_time <= moment:
            ready.append(simulation)
        else:
            later[ready_time].append(simulation.id)
    return ready, later


def _ready_time(moment: datetime, sent_time: datetime | None, state: str | None) -> datetime | None:
    """The time at which the simulation happens, or of the next look; None if the message was not sent after all, or its
    recipient is gone."""
    if sent_time is not None:
        return sent_time + timedelta(seconds=SIMULATION_DELAY)
    return moment + LOOK_INTERVAL if state in UNSETTLED_STATES else None


def _groups(ready: Sequence[Simulation]) -> list[list[Simulation]]:
    """What happens in one transaction: all visits together, anything else alone."""
    visits = [simulation for simulation in ready if simulation.magic in MAGIC_THAT_VISITS]
    return [
        *([visits] if visits else []),
        *([simulation] for simulation in ready if simulation.magic not in MAGIC_THAT_VISITS),
    ]


def _carry_out(services: Services, group: Sequence[Simulation]) -> None:
    """Carries out a group in one transaction; where that fails, one by one. What fails alone is given up."""
    try:
        with services.database.read() as session:
            links = read_links(session, group)
        services.database.transact(lambda transaction: _once(services, transaction, group, links))
    except Exception as error:
        if isinstance(error, SQLAlchemyError) and is_unavailable(error):
            raise
        if len(group) > 1:
            for simulation in group:
                _carry_out(services, [simulation])
            return
        logger.error("cannot simulate what happens to a message", exc_info=error, extra={"captured": group[0].id})
        _put_off(services, [group[0].id], None)


def _once(
    services: Services, transaction: Transaction, group: Sequence[Simulation], links: Mapping[int, CapturedLinks]
) -> None:
    """Leaves out what another worker has carried out meanwhile."""
    taken = _set_time(transaction, [simulation.id for simulation in group], None)
    simulate(services.settings, transaction, [simulation for simulation in group if simulation.id in taken], links)


def _put_off(services: Services, ids: Collection[int], moment: datetime | None) -> None:
    with services.database.write() as transaction:
        _set_time(transaction, ids, moment)


def _set_time(transaction: Transaction, ids: Collection[int], moment: datetime | None) -> set[int]:
    """Sets the time of those to which nothing has happened yet, and returns their ids."""
    statement = (
        update(CapturedMessage)
        .where(in_json(CapturedMessage.id, ids), CapturedMessage.simulate_time.is_not(None))
        .values(simulate_time=moment)
        .returning(CapturedMessage.id)
    )
    return set(transaction.scalars(statement, execution_options={"synchronize_session": False}))
