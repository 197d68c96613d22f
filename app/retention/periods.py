"""How long each account keeps content and recipients, and what of it is overdue."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import ScalarSelect, and_, func, select, tuple_
from sqlalchemy.orm import Session

from app.db.models import Account, DelayedPurge, PurgePosition, Send
from app.settings import Settings, parse_retention

WHOLE_RANGES_FROM = timedelta(days=90)
"""From this retention on, waiting for the end of a month is short beside it."""


CLOCK_TOLERANCE = timedelta(hours=1)
"""A send from so far in the future was accepted under a wrong clock. It must not keep those behind it from being
purged."""


class Stage(enum.StrEnum):
    """What of a send is purged; each has a retention and a position of its own."""

    CONTENT = "content"
    RECIPIENTS = "recipients"


OVERRIDES = {Stage.CONTENT: Account.retain_content, Stage.RECIPIENTS: Account.retain_recipients}


class Period(NamedTuple):
    """The retention of an account; None: for ever."""

    account_id: int
    retention: timedelta | None


class OverdueAccount(NamedTuple):
    """An account with sends to be looked at: those from before `limit`, of which the first is from `oldest`."""

    account_id: int
    limit: datetime
    oldest: datetime


def default_retention(settings: Settings, stage: Stage) -> timedelta | None:
    """The retention of an account that has none of its own."""
    return settings.retain_content if stage is Stage.CONTENT else settings.retain_recipients


def periods(session: Session, settings: Settings, stage: Stage) -> list[Period]:
    """The retention of every account; one statement."""
    default = default_retention(settings, stage)
    rows = session.execute(select(Account.id, OVERRIDES[stage]).order_by(Account.id))
    return [Period(account_id, default if text is None else parse_retention(text)) for account_id, text in rows]


def longest(account_periods: Sequence[Period]) -> timedelta | None:
    """The longest retention of all; None: one of them keeps for ever. Of no accounts, likewise."""
    retentions = [period.retention for period in account_periods if period.retention is not None]
    return max(retentions) if retentions and len(retentions) == len(account_periods) else None


def purged_by_sends(account_periods: Sequence[Period], stage: Stage, *, in_ranges: bool) -> Sequence[Period]:
    """The accounts whose sends are purged one by one: those that keep recipients for a shorter time than others, for
    which a range stays, or for a short time anyway."""
    if stage is Stage.CONTENT or not in_ranges:
        return account_periods
    most = longest(account_periods)
    return [
        period
        for period in account_periods
        if period.retention is not None and (period.retention != most or period.retention < WHOLE_RANGES_FROM)
    ]


def overdue(
    session: Session, account_periods: Sequence[Period], stage: Stage, moment: datetime
) -> list[OverdueAccount]:
    """The accounts that have something to purge. One statement, which looks at the next send of each account,
    whatever their number."""
    overdue_accounts: list[OverdueAccount] = []
    retentions = dict(account_periods)
    if not any(retentions.values()):
        return overdue_accounts
    for account_id, *times in session.execute(_oldest(stage)):
        retention = retentions.get(account_id)
        if retention is None:
            continue
        due = [time for time in times if time is not None and is_due(time, moment - retention, moment)]
        if due:
            overdue_accounts.append(OverdueAccount(account_id, moment - retention, min(*due, moment - retention)))
    return overdue_accounts


def is_due(creation_time: datetime, limit: datetime, moment: datetime) -> bool:
    """Whether a send is to be looked at."""
    return creation_time < limit or creation_time > moment + CLOCK_TOLERANCE


def _oldest(stage: Stage) -> Any:
    """Each account with the times of its next send and of the oldest delayed one."""
    is_position = and_(PurgePosition.account_id == Account.id, PurgePosition.stage == stage)
    position = func.coalesce(PurgePosition.send_id, 0)
    after = tuple_(Send.account_id, Send.id) > tuple_(Account.id, position)
    following = select(Send.creation_time).where(after, Send.account_id <= Account.id)
    delayed = select(DelayedPurge.since).where(DelayedPurge.account_id == Account.id, DelayedPurge.stage == stage)
    return select(
        Account.id,
        _first(following.order_by(Send.account_id, Send.id)),
        _first(delayed.order_by(DelayedPurge.since)),
    ).outerjoin(PurgePosition, is_position)


def _first(times: Any) -> ScalarSelect[datetime]:
    first: ScalarSelect[datetime] = times.limit(1).correlate(Account, PurgePosition).scalar_subquery()
    return first
