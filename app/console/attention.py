"""What needs attention, in words, with the page that shows it: of an account, or of the installation with all accounts
(docs/console.md#overview).

The installation's findings are those of `flask status`. The others are looked up for one account or for all, by the
same statements.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from sqlalchemy import Row, Select, func, or_, select
from sqlalchemy.orm import Session

from app.audit.values import host_of
from app.clock import timestamp
from app.console.accounts import path_of as path_of_account
from app.console.domains import PATH as DOMAINS_PATH
from app.console.queries import Pairs
from app.console.queues import PATH as QUEUES_PATH
from app.console.webhooks import PATH as WEBHOOKS_PATH
from app.db.counters import hour_of
from app.db.models import Account, Domain, HourlyCount, Webhook
from app.db.models.webhooks import UNCHECKED_BAR
from app.maintenance.alerts import ALERTS, PAGE, Finding
from app.maintenance.words import lasting, share
from app.sends.explain.waits import paused_words
from app.sends.outcomes.relay_refusals import ShownRefusal
from app.sends.pauses.read import ShownPause

MESSAGES_PATH = "/console/messages"
MAX_ROWS = 50
"""Domains, webhooks or accounts of which something is said."""
MIN_BOUNCES = 3
"""Bounces of a day below which nothing is said of their share."""
URGENT, SOON, SETTING, CHOSEN = range(4)
"""How much it matters: messages do not leave, something fails, something is not set up, and somebody has chosen it."""


@dataclass(frozen=True, slots=True)
class Attention:
    """Something that needs attention, in words. `path` and `query` are those of the page that shows it, behind the
    words of `label`. Operators see the `command` that shows more or helps, and the `alert`, which is its section of
    the runbook."""

    words: str
    rank: int
    path: str | None = None
    label: str = ""
    query: Pairs | None = None
    account_id: int | None = None
    command: str | None = None
    alert: str | None = None


def worst_first(items: Iterable[Attention]) -> list[Attention]:
    """The items by how much they matter, else in their order."""
    return sorted(items, key=lambda item: item.rank)


def owner_attention(account: Account) -> Iterator[Attention]:
    """An account that sends nothing, because its owner is not confirmed."""
    if not account.owner_confirmed:
        words = "All sends are refused (account_owner_unverified), because the owner has not confirmed the address."
        command = shlex.join(["accounts", "update", account.name, "--owner-confirmed"])
        path = path_of_account(account.id)
        yield Attention(words, URGENT, path, "Open the settings of the account", command=command)


def finding_attention(finding: Finding) -> Attention:
    """A finding of the installation."""
    alert = ALERTS[finding.alert]
    rank = URGENT if alert.severity == PAGE else SOON
    path, _, query = (alert.page or "").partition("?")
    label = "Show these messages" if path == MESSAGES_PATH else "Show more"
    words = f"{finding.words[0].upper()}{finding.words[1:]}."
    return Attention(words, rank, path or None, label, parse_qsl(query), None, alert.command, finding.alert)


def refusal_attention(refusal: ShownRefusal) -> Attention:
    """A relay that refuses everything of an account, or has done so, with the messages that bounced by that."""
    rank, alert = (URGENT, "TmsRelayRefuses") if refusal.ended_time is None else (SOON, None)
    retrying = shlex.join(refusal.command("retry")) if refusal.bounced else None
    path, query = (MESSAGES_PATH, [*refusal.filters]) if refusal.bounced else (QUEUES_PATH, [])
    label = "Show the messages that bounced, to retry them" if refusal.bounced else "Show the queue"
    return Attention(refusal.sentence, rank, path, label, query, refusal.account_id, retrying, alert)


def pause_attention(pause: ShownPause, *, in_full: bool, names_account: bool) -> Attention:
    """What is paused and since when; in full with the words of whoever paused it, and with the name of its account
    where others stand beside it."""
    words = paused_words(pause, in_full=in_full)
    whose = f"{pause.account}: " if names_account and pause.account is not None else ""
    command = shlex.join(pause.resuming)
    return Attention(
        f"{whose}{words}", CHOSEN, QUEUES_PATH, "Show what is paused", account_id=pause.account_id, command=command
    )


def queue_attention(waiting: float | None) -> Iterator[Attention]:
    """Messages of an account that have waited for longer than the alert allows."""
    if waiting is not None and waiting > ALERTS["TmsMessagesWait"].limit:
        words = f"Messages are waiting. The oldest has been waiting for {lasting(waiting)}."
        yield Attention(words, URGENT, QUEUES_PATH, "Show the queue", command="status")


def deferral_attention(deferred: int, ended: int, *, at_least: bool) -> Iterator[Attention]:
    """That many messages of an account wait for their next attempt, compared with those that ended in a day."""
    alert = ALERTS["TmsDeferralsHigh"]
    if deferred > alert.minimum and deferred / (deferred + ended) > alert.limit:
        words = f"{'At least ' if at_least else ''}{deferred} messages are deferred. They are retried automatically."
        yield Attention(words, SOON, MESSAGES_PATH, "Show the deferred messages", [("state", "deferred")])


def domain_attention(session: Session, account: Account | None) -> Iterator[Attention]:
    """The domains that are not verified: of the account, or of all for None."""
    unverified = _rows_of(("id", "name"), Domain, account).where(Domain.verified_time.is_(None))
    for row in session.execute(unverified.order_by(Account.name, Domain.name).limit(MAX_ROWS)):
        whose = "" if account else f"of {row.account} "
        words = f"Sends {whose}from {row.name} are refused, because it is not verified."
        command = shlex.join(["domains", "verify", row.name, "--account", row.account])
        path = f"{DOMAINS_PATH}/{row.id}"
        yield Attention(words, SETTING, path, "Show the records to publish", [], row.account_id, command)


def failing_webhooks(session: Session) -> Sequence[Row[Any]]:
    """The webhooks of all accounts that fail, are held or were refused, with the names of their accounts."""
    names = ("id", "url", "failures", "failing_since", "held_to", "barred")
    is_refused = Webhook.barred.is_not(None) & (Webhook.barred != UNCHECKED_BAR)
    webhooks = _rows_of(names, Webhook, None).where(or_(Webhook.failures > 0, Webhook.held_to.is_not(None), is_refused))
    return session.execute(webhooks.order_by(Account.name, Webhook.id).limit(MAX_ROWS)).all()


def webhook_attention(webhook: Webhook | Row[Any], account_name: str | None = None) -> Iterator[Attention]:
    """That a webhook fails, is held or was refused; with the name of its account where others stand beside it."""
    whose = f"of {account_name} " if account_name else ""
    subject = f"The webhook {whose}at {host_of(webhook.url)}"
    since = "" if webhook.failing_since is None else f" since {timestamp(webhook.failing_since)}"
    place: Mapping[str, Any] = {"path": f"{WEBHOOKS_PATH}/{webhook.id}", "account_id": webhook.account_id}
    at = partial(Attention, rank=SOON, label="Show the webhook", **place)
    if webhook.failures:
        words = f"{subject} has been failing{since}. Failed attempts: {webhook.failures}."
        yield at(words=words, command=f"webhooks deliveries {webhook.id}")
    if webhook.barred not in (None, UNCHECKED_BAR):
        yield at(words=f"{subject} was refused and gets no events.", command=f"webhooks show {webhook.id}")
    if webhook.held_to is not None:
        yield at(words=f"{subject} is held after a restore.", command="holds list")


def _rows_of(names: Iterable[str], model: Any, account: Account | None) -> Select[Any]:
    """These columns of the rows of the account, or of all accounts that are no test accounts, with the id and the name
    of the account."""
    columns: list[Any] = [getattr(model, name) for name in names]
    rows = select(*columns, model.account_id, Account.name.label("account"))
    joined = rows.join(Account, Account.id == model.account_id)
    return joined.where(Account.test_of.is_(None) if account is None else model.account_id == account.id)


def bounce_attention(
    bounced: int, delivered: int, *, account: str | None, account_id: int | None
) -> Iterator[Attention]:
    """That more of an account's messages of a day bounced than the alert allows.

    A message that bounces a day after its delivery takes one from `delivered`, which may then be negative.
    """
    ended = bounced + max(0, delivered)
    if bounced >= MIN_BOUNCES and bounced / ended > ALERTS["TmsBouncesHigh"].limit:
        whose = "" if account is None else f" of {account}"
        words = f"{share(bounced, ended)} of the messages{whose} bounced in the last day: {bounced} of {ended}."
        query = [("state", "bounced")]
        yield Attention(words, SOON, MESSAGES_PATH, "Show the messages that bounced", query, account_id)


def bounces_of_all(session: Session, moment: datetime, hours: int) -> Iterator[Attention]:
    """The same of all accounts: one statement, which reads the counts of these hours."""
    counts: Mapping[str, Any] = {
        name: func.sum(getattr(HourlyCount, name)).label(name) for name in ("bounced", "delivered")
    }
    totals = (
        select(HourlyCount.account_id, *counts.values())
        .where(HourlyCount.hour >= hour_of(moment) - timedelta(hours=hours - 1))
        .group_by(HourlyCount.account_id)
        .subquery()
    )
    live = select(Account.name, totals).join(totals, totals.c.account_id == Account.id)
    many = live.where(Account.test_of.is_(None), totals.c.bounced >= MIN_BOUNCES)
    for row in session.execute(many.order_by(totals.c.bounced.desc()).limit(MAX_ROWS)):
        yield from bounce_attention(int(row.bounced), int(row.delivered), account=row.name, account_id=row.account_id)
