"""What the first page shows of all accounts, for operators (docs/console.md#overview).

The figures are those that Prometheus gets, read apart from requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from app.console.overview import MOST, Attention, of_domain
from app.db.models import Account, Domain
from app.infrastructure.startup_report import email_destination
from app.maintenance.figures import Figures
from app.maintenance.findings import COMMANDS, are_complete
from app.maintenance.overview import Overview
from app.routing.table import DEFAULT
from app.routing.transports import list_transports, shown_url
from app.settings import Settings
from app.transports.urls import display_url


@dataclass(frozen=True, slots=True)
class TransportState:
    """A relay, a gateway or a folder; `set_aside` is the number of senders of this host that use others instead."""

    name: str
    type: str
    destination: str
    enabled: bool
    set_aside: int


@dataclass(frozen=True, slots=True)
class WebhookState:
    """A webhook for which events wait: the number, and the age of the oldest in seconds."""

    id: str
    waiting: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Installation:
    """The overview of all accounts. What comes from the figures is empty without them."""

    attention: Sequence[Attention]
    notes: Sequence[str]
    queue: Sequence[tuple[str, str, str, float, float | None]]
    """Class of account, type and state, with the number of messages and the age of the oldest in seconds."""
    webhooks: Sequence[WebhookState]
    """Those with the oldest events."""
    processes: Mapping[str, tuple[float, float]]
    """Role -> how many live, and how many fell silent."""
    transports: Sequence[TransportState]
    accounts: Sequence[Row[int, str]]
    """Ids and names, up to `MOST`, without test accounts."""


def installation(session: Session, settings: Settings, overview: Overview) -> Installation:
    """The overview of the installation: three statements beside the figures."""
    shown = overview.figures
    is_complete = are_complete(shown)
    return Installation(
        attention=[*_found(overview), *_domains(session)],
        notes=overview.notes,
        queue=list(queue_figures(shown)) if is_complete else (),
        webhooks=list(_webhooks(shown)) if is_complete else (),
        processes=_processes(shown) if is_complete else {},
        transports=list(transport_states(session, settings, overview.on_host.set_aside)),
        accounts=live_accounts(session),
    )


def _found(overview: Overview) -> Iterator[Attention]:
    for one in overview.found:
        yield Attention(one.words, COMMANDS.get(one.alert), one.alert)


def _domains(session: Session) -> Iterator[Attention]:
    unverified = select(Domain.name, Account.name.label("account")).join(Account, Account.id == Domain.account_id)
    found = unverified.where(Domain.verified_time.is_(None)).order_by(Account.name, Domain.name)
    for name, account in session.execute(found.limit(MOST)):
        yield of_domain(name, account, whose=f"of {account} ")


def queue_figures(shown: Figures) -> Iterator[tuple[str, str, str, float, float | None]]:
    """Class of account, type and state, with the number of messages and the age of the oldest in seconds."""
    oldest = shown["tms_queue_oldest_seconds"]
    for (account_class, type_, state), number in shown["tms_queue_entries"].items():
        if number:
            key = account_class, type_, state
            yield account_class, type_, state.replace("_", " "), number, oldest.get(key)


def _webhooks(shown: Figures) -> Iterator[WebhookState]:
    ages = shown["tms_webhook_oldest_seconds"]
    for (webhook_id,), waiting in shown["tms_webhook_events_waiting"].items():
        yield WebhookState(webhook_id, waiting, ages[webhook_id,])


def _processes(shown: Figures) -> dict[str, tuple[float, float]]:
    numbers = shown["tms_processes"]
    roles = dict.fromkeys(role for role, _ in numbers)
    return {role: (numbers[role, "live"], numbers[role, "silent"]) for role in roles}


def transport_states(session: Session, settings: Settings, set_aside: Mapping[str, float]) -> Iterator[TransportState]:
    """The states of the two transports of the settings, then of those that have names: one statement."""
    aside = int(set_aside.get(DEFAULT, 0))
    yield TransportState(DEFAULT, "email", email_destination(settings), True, aside)
    yield TransportState(DEFAULT, "sms", display_url(settings.sms_transport_url), True, aside)
    for one in list_transports(session):
        url = shown_url(settings.secret_keys, one)
        yield TransportState(one.name, one.type, url, one.enabled, int(set_aside.get(one.name, 0)))


def live_accounts(session: Session, part: str = "") -> Sequence[Row[int, str]]:
    """Accounts that are no test accounts and have that part in their names, in any case, by name, up to `MOST`."""
    live = select(Account.id, Account.name).where(Account.test_of.is_(None))
    if part:
        live = live.where(Account.name.icontains(part, autoescape=True))
    return session.execute(live.order_by(Account.name).limit(MOST)).all()


def only_account(session: Session) -> int | None:
    """The id of the only account that is no test account; None if there are several."""
    found = live_accounts(session)
    return found[0].id if len(found) == 1 else None
