"""What the first page shows: of an account what needs attention, the last day in numbers, and the work in progress; of
the installation its parts and its accounts (docs/console.md#overview).

It is read with a fixed number of statements, which indexes answer. Nothing counts the history.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

from sqlalchemy import Row, select
from sqlalchemy.orm import Session

from app.audit.values import host_of
from app.console.attention import (
    Attention,
    bounce_attention,
    bounces_of_all,
    deferral_attention,
    domain_attention,
    failing_webhooks,
    finding_attention,
    owner_attention,
    pause_attention,
    queue_attention,
    refusal_attention,
    webhook_attention,
    worst_first,
)
from app.console.queues import MessageCount, turn_of
from app.console.webhooks import WebhookState, webhook_states
from app.db.expressions import has_part, in_json
from app.db.models import Account, Webhook
from app.groups.read import Counts, counts_by_hour
from app.infrastructure.startup_report import email_destination
from app.maintenance.figures import QUEUE_BEGIN, Figures
from app.maintenance.findings import are_complete
from app.maintenance.hosts import Host
from app.maintenance.overview import Overview
from app.routing.table import DEFAULT_TRANSPORT
from app.routing.transports import list_transports, shown_url
from app.sends.outcomes.relay_refusals import shown_refusals
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
CHARTS = {
    "sent": "accepted",
    "delivered": "delivered",
    "bounced": "bounced",
    "failed_contacts": "failed",
    "opened": "opened",
    "clicked": "clicked",
}
"""Counter -> its name on the page."""
QUEUE_STATE_WORDS = {"in_flight": "sending"}
"""State of the figures -> its name on the page, which is that of a message, where the figures have another."""


@dataclass(frozen=True, slots=True)
class Day:
    """The last hours: when each begins, and a chart for each counter."""

    hours: Sequence[datetime]
    charts: Sequence[Chart]

    def total(self, name: str) -> int:
        """The sum of the chart with that name; one that hours have taken back is 0."""
        return max(0, sum(chart.total for chart in self.charts if chart.name == name))


@dataclass(frozen=True, slots=True)
class AccountOverview:
    """The overview of one account. `waiting_seconds` is for how long its oldest message has been due, and `waiting` how
    many of its messages are due, deferred or being sent."""

    attention: Sequence[Attention]
    day: Day
    waiting: MessageCount
    waiting_seconds: float | None
    webhooks: Sequence[WebhookState]


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
    """The overview of an account: eight statements. In full it has the words of whoever paused something."""
    turn, last_day = turn_of(session, account, QUEUE_BEGIN, moment), day(session, account.id, moment)
    waiting = None if turn.due_since is None else (moment - turn.due_since).total_seconds()
    webhooks = webhook_states(session, account.id)
    bounced, delivered = last_day.total("bounced"), last_day.total("delivered")
    attention = worst_first(
        [
            *owner_attention(account),
            *map(refusal_attention, shown_refusals(session, account.id)),
            *queue_attention(waiting),
            *chain.from_iterable(webhook_attention(state.webhook) for state in webhooks),
            *bounce_attention(bounced, delivered, account=None, account_id=account.id),
            *deferral_attention(turn.later.number, bounced + delivered, at_least=turn.later.is_least),
            *domain_attention(session, account),
            *(
                pause_attention(pause, in_full=in_full, names_account=False)
                for pause in active_shown(session, account.id, MAX_PAUSES)
            ),
        ]
    )
    numbers = MessageCount(turn.due.number + turn.later.number + turn.in_flight)
    return AccountOverview(attention, last_day, numbers, waiting, webhooks)


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
class WebhookBacklog:
    """A webhook for which events wait: the number, and the age of the oldest in seconds."""

    id: int
    account_id: int
    account: str
    host: str | None
    waiting: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Installation:
    """The overview of all accounts. What comes from the figures is empty without them."""

    attention: Sequence[Attention]
    notes: Sequence[str]
    waiting: float
    """Messages that are in the send queue, those of test accounts left out."""
    queue: Sequence[tuple[str, str, str, float, float | None]]
    """Class of account, type and state, with the number of messages and the age of the oldest in seconds."""
    webhooks: Sequence[WebhookBacklog]
    """The webhooks with the oldest events."""
    processes: Mapping[str, tuple[float, float]]
    """Role -> how many live, and how many fell silent."""
    hosts: Sequence[Host]
    transports: Sequence[TransportState]
    accounts: Sequence[Row[int, str]]
    """Ids and names, up to `MAX_ROWS`, without test accounts."""


def installation(session: Session, settings: Settings, overview: Overview, moment: datetime) -> Installation:
    """The overview of the installation: six statements beside the figures."""
    figures = overview.figures
    is_complete = are_complete(figures)
    findings = (finding for finding in overview.findings if finding.alert != "TmsRelayRefuses")
    attention = [
        *map(finding_attention, findings),
        *map(refusal_attention, overview.refusals),
        *chain.from_iterable(webhook_attention(webhook, webhook.account) for webhook in failing_webhooks(session)),
        *bounces_of_all(session, moment, HOURS),
        *domain_attention(session, None),
        *(pause_attention(pause, in_full=True, names_account=True) for pause in overview.pauses[:MAX_PAUSES]),
    ]
    return Installation(
        attention=worst_first(attention),
        notes=overview.notes,
        waiting=sum(number for key, number in figures.get("tms_queue_entries", {}).items() if key[0] == "live"),
        queue=list(queue_figures(figures)) if is_complete else (),
        webhooks=_webhooks_behind(session, figures) if is_complete else (),
        processes=_processes(figures) if is_complete else {},
        hosts=overview.hosts,
        transports=list(transport_states(session, settings, overview.on_host.set_aside)),
        accounts=live_accounts(session),
    )


def queue_figures(figures: Figures) -> Iterator[tuple[str, str, str, float, float | None]]:
    """Class of account, type and state, with the number of messages and the age of the oldest in seconds."""
    oldest = figures["tms_queue_oldest_seconds"]
    for (account_class, type_, state), number in figures["tms_queue_entries"].items():
        if number:
            key = account_class, type_, state
            yield account_class, type_, QUEUE_STATE_WORDS.get(state, state), number, oldest.get(key)


def _webhooks_behind(session: Session, figures: Figures) -> Sequence[WebhookBacklog]:
    """The webhooks with the oldest waiting events, by the names of their accounts and hosts."""
    ages = {int(webhook_id): age for (webhook_id,), age in figures["tms_webhook_oldest_seconds"].items()}
    numbers = {int(webhook_id): number for (webhook_id,), number in figures["tms_webhook_events_waiting"].items()}
    webhooks = select(Webhook.id, Webhook.account_id, Account.name, Webhook.url)
    rows = session.execute(
        webhooks.join(Account, Account.id == Webhook.account_id).where(in_json(Webhook.id, list(ages)))
    )
    backlogs = [
        WebhookBacklog(row.id, row.account_id, row.name, host_of(row.url), numbers[row.id], ages[row.id])
        for row in rows
    ]
    return sorted(backlogs, key=lambda backlog: -backlog.seconds)


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
        live = live.where(has_part(Account.name, part))
    return session.execute(live.order_by(Account.name).limit(MAX_ROWS)).all()


def only_account(session: Session) -> int | None:
    """The id of the only account that is no test account; None if there are several."""
    accounts = live_accounts(session)
    return accounts[0].id if len(accounts) == 1 else None
