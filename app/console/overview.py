"""What the first page shows: of an account what needs attention, the last day in numbers, and the work in progress; of
the installation its parts and its accounts (docs/console.md#overview).

It is read with a fixed number of statements, which indexes answer. Nothing counts the history.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from app.audit.values import host_of
from app.console.queues import first_due
from app.db.models import Account, Domain, Webhook
from app.db.models.webhooks import UNCHECKED_BAR
from app.db.queue import PRIORITIES
from app.groups.read import Counts, counts_by_hour
from app.infrastructure.startup_report import email_destination
from app.maintenance.figures import Figures
from app.maintenance.findings import COMMANDS, LIMITS, are_complete, lasting
from app.maintenance.overview import Overview
from app.routing.table import DEFAULT_TRANSPORT
from app.routing.transports import list_transports, shown_url
from app.sends.explain.waits import paused_words
from app.sends.outcomes.relay_refusals import ShownRefusal, shown_refusals
from app.sends.pauses.read import active_shown
from app.settings import Settings
from app.transports.urls import display_url

# Bar charts as numbers: where a template draws the bars (docs/console.md#overview). Pure.

WIDTH = 240
HEIGHT = 48
GAP = 2
MIN_BAR_HEIGHT = 1.5
"""Height of a bar that is not zero, so that it can be seen."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar in units of the drawing; `y` is its upper edge."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Chart:
    """Counts of one kind over time: the numbers, their sum, and a bar for each."""

    name: str
    values: Sequence[int]
    bars: Sequence[Bar]
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def total(self) -> int:
        """The sum of the numbers."""
        return sum(self.values)


def chart(name: str, values: Sequence[int]) -> Chart:
    """The chart of these numbers, the oldest at the left. A negative one has no bar: an hour can take back more than
    it counts."""
    highest, step = max([*values, 1]), WIDTH / max(len(values), 1)
    return Chart(name, values, [_bar(place * step, value / highest, step) for place, value in enumerate(values)])


def _bar(x: float, share: float, step: float) -> Bar:
    height = max(share * HEIGHT, MIN_BAR_HEIGHT) if share > 0 else 0.0
    return Bar(round(x, 2), round(HEIGHT - height, 2), round(step - GAP, 2), round(height, 2))


HOURS = 24
MAX_PAUSES = 10
MAX_ROWS = 50
"""Accounts, domains or webhooks that a page shows."""
CHARTS = {"sent": "accepted", "delivered": "delivered", "bounced": "bounced", "opened": "opened", "clicked": "clicked"}
"""Counter -> its name on the page."""
WebhookRow = Row[int, str, int, datetime | None, int | None, str | None]
"""Id, URL, failures, since when it fails, and whether it is held."""


@dataclass(frozen=True, slots=True)
class Attention:
    """Something that is wrong, in words, with a command that shows more or helps, and its section of the runbook."""

    words: str
    command: str | None = None
    section: str | None = None
    messages: Sequence[tuple[str, str]] = ()
    """The query of the messages that it is about."""


@dataclass(frozen=True, slots=True)
class Day:
    """The last hours: when each begins, and a chart for each counter."""

    hours: Sequence[datetime]
    charts: Sequence[Chart]


@dataclass(frozen=True, slots=True)
class AccountOverview:
    """The overview of one account. `waiting_seconds` is for how long its oldest message has been due."""

    attention: Sequence[Attention]
    day: Day
    waiting_seconds: float | None
    webhooks: Sequence[WebhookRow]


def day(session: Session, account_id: int | None, moment: datetime) -> Day:
    """The last hours of the account, or of all."""
    return day_of(counts_by_hour(session, account_id, moment, HOURS))


def day_of(counts: Mapping[datetime, Counts]) -> Day:
    """Charts of the counts by hour."""
    return Day(
        list(counts),
        [chart(name, [hour_counts[counter] for hour_counts in counts.values()]) for counter, name in CHARTS.items()],
    )


def account_overview(session: Session, account: Account, moment: datetime, *, in_full: bool) -> AccountOverview:
    """The overview of an account: seven statements. In full it has the words of whoever paused something."""
    since = _due_since(session, account.id, moment)
    waiting = None if since is None else (moment - since).total_seconds()
    webhooks = _webhooks(session, account.id)
    domains = session.scalars(
        select(Domain.name)
        .where(Domain.account_id == account.id, Domain.verified_time.is_(None))
        .order_by(Domain.name)
        .limit(MAX_ROWS)
    ).all()
    paused, refusals = active_shown(session, account.id, MAX_PAUSES), shown_refusals(session, account.id)
    attention = [
        *_owner_attention(account),
        *(domain_attention(domain, account.name) for domain in domains),
        *_webhook_attention(webhooks),
        *(refusal_attention(refusal) for refusal in refusals),
        *(Attention(paused_words(pause, in_full=in_full), shlex.join(pause.resuming)) for pause in paused),
        *_queue_attention(waiting),
    ]
    return AccountOverview(attention, day(session, account.id, moment), waiting, webhooks)


def _due_since(session: Session, account_id: int, moment: datetime) -> datetime | None:
    """Since when the oldest message of the account has been due."""
    first = select(*(first_due(priority, moment) for priority in PRIORITIES)).where(Account.id == account_id)
    return min((time for time in session.execute(first).one() if time is not None), default=None)


def _webhooks(session: Session, account_id: int) -> Sequence[WebhookRow]:
    columns = select(Webhook.id, Webhook.url, Webhook.failures, Webhook.failing_since, Webhook.held_to, Webhook.barred)
    return session.execute(columns.where(Webhook.account_id == account_id).order_by(Webhook.id).limit(MAX_ROWS)).all()


def _owner_attention(account: Account) -> Iterator[Attention]:
    if not account.owner_confirmed:
        words = "All sends are refused (account_owner_unverified), because the owner has not confirmed the address."
        yield Attention(words, shlex.join(["accounts", "update", account.name, "--owner-confirmed"]))


def domain_attention(name: str, account: str, *, whose: str = "") -> Attention:
    """What an unverified domain does; `whose` says of which account, where the page shows several."""
    words = f"Sends {whose}from {name} are refused, because its DNS records were not found."
    return Attention(words, shlex.join(["domains", "verify", name, "--account", account]))


def refusal_attention(refusal: ShownRefusal) -> Attention:
    """A relay that refuses everything of the account, with the messages that bounced before that was noticed."""
    retrying = shlex.join(refusal.command("retry")) if refusal.bounced else None
    return Attention(refusal.sentence, retrying, messages=refusal.filters if refusal.bounced else ())


def _webhook_attention(webhooks: Sequence[WebhookRow]) -> Iterator[Attention]:
    for webhook in webhooks:
        if webhook.failures:
            words = f"The webhook at {host_of(webhook.url)} is failing: {webhook.failures} attempts have failed."
            yield Attention(words, f"webhooks deliveries {webhook.id}")
        if webhook.barred not in (None, UNCHECKED_BAR):
            words = f"The webhook at {host_of(webhook.url)} was refused and gets no events."
            yield Attention(words, f"webhooks show {webhook.id}")
        if webhook.held_to is not None:
            yield Attention(f"The webhook at {host_of(webhook.url)} is held after a restore.", "holds list")


def _queue_attention(waiting: float | None) -> Iterator[Attention]:
    if waiting is not None and waiting > LIMITS["TmsMessagesWait"]:
        yield Attention(f"Messages are waiting. The oldest has been waiting for {lasting(waiting)}.", "status")


# What the first page shows of all accounts, for operators. The figures are those that Prometheus gets, read apart
# from requests.


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
    """The webhooks with the oldest events."""
    processes: Mapping[str, tuple[float, float]]
    """Role -> how many live, and how many fell silent."""
    transports: Sequence[TransportState]
    accounts: Sequence[Row[int, str]]
    """Ids and names, up to `MAX_ROWS`, without test accounts."""


def installation(session: Session, settings: Settings, overview: Overview) -> Installation:
    """The overview of the installation: three statements beside the figures."""
    figures = overview.figures
    is_complete = are_complete(figures)
    return Installation(
        attention=[*_alert_attention(overview), *_domain_attention(session)],
        notes=overview.notes,
        queue=list(queue_figures(figures)) if is_complete else (),
        webhooks=list(_webhooks_behind(figures)) if is_complete else (),
        processes=_processes(figures) if is_complete else {},
        transports=list(transport_states(session, settings, overview.on_host.set_aside)),
        accounts=live_accounts(session),
    )


def _alert_attention(overview: Overview) -> Iterator[Attention]:
    for finding in overview.findings:
        yield Attention(finding.words, COMMANDS.get(finding.alert), finding.alert)


def _domain_attention(session: Session) -> Iterator[Attention]:
    unverified = select(Domain.name, Account.name.label("account")).join(Account, Account.id == Domain.account_id)
    statement = unverified.where(Domain.verified_time.is_(None)).order_by(Account.name, Domain.name)
    for name, account in session.execute(statement.limit(MAX_ROWS)):
        yield domain_attention(name, account, whose=f"of {account} ")


def queue_figures(figures: Figures) -> Iterator[tuple[str, str, str, float, float | None]]:
    """Class of account, type and state, with the number of messages and the age of the oldest in seconds."""
    oldest = figures["tms_queue_oldest_seconds"]
    for (account_class, type_, state), number in figures["tms_queue_entries"].items():
        if number:
            key = account_class, type_, state
            yield account_class, type_, state.replace("_", " "), number, oldest.get(key)


def _webhooks_behind(figures: Figures) -> Iterator[WebhookState]:
    ages = figures["tms_webhook_oldest_seconds"]
    for (webhook_id,), waiting in figures["tms_webhook_events_waiting"].items():
        yield WebhookState(webhook_id, waiting, ages[webhook_id,])


def _processes(figures: Figures) -> dict[str, tuple[float, float]]:
    numbers = figures["tms_processes"]
    roles = dict.fromkeys(role for role, _ in numbers)
    return {role: (numbers[role, "live"], numbers[role, "silent"]) for role in roles}


def transport_states(session: Session, settings: Settings, set_aside: Mapping[str, float]) -> Iterator[TransportState]:
    """The states of the two transports of the settings, then of those that have names: one statement."""
    aside = int(set_aside.get(DEFAULT_TRANSPORT, 0))
    yield TransportState(DEFAULT_TRANSPORT, "email", email_destination(settings), True, aside)
    yield TransportState(DEFAULT_TRANSPORT, "sms", display_url(settings.sms_transport_url), True, aside)
    for transport in list_transports(session):
        url = shown_url(settings.secret_keys, transport)
        yield TransportState(
            transport.name, transport.type, url, transport.enabled, int(set_aside.get(transport.name, 0))
        )


def live_accounts(session: Session, part: str = "") -> Sequence[Row[int, str]]:
    """Accounts that are no test accounts and have that part in their names, in any case, by name, up to `MAX_ROWS`."""
    live = select(Account.id, Account.name).where(Account.test_of.is_(None))
    if part:
        live = live.where(Account.name.icontains(part, autoescape=True))
    return session.execute(live.order_by(Account.name).limit(MAX_ROWS)).all()


def only_account(session: Session) -> int | None:
    """The id of the only account that is no test account; None if there are several."""
    accounts = live_accounts(session)
    return accounts[0].id if len(accounts) == 1 else None
