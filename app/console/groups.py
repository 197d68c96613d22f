"""The report of a group with what its latest messages tell (docs/console-messages.md#groups)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.console.overview import HOURS, Day, day_of
from app.db.expressions import in_json
from app.db.lookup import find_by_name_or_id
from app.db.models import Group, Recipient, RecipientStep
from app.groups.read import COUNTERS, counts_by_hour, get_group, require_group
from app.ids import existing
from app.query.conditions import Query
from app.recipients.reply_meanings import meaning_of
from app.recipients.states import RecipientState
from app.recipients.timeline import TimelineStep
from app.tracking.countries import country_name
from app.tracking.devices import client_of
from app.tracking.visits import link_of_detail

PATH = "/console/groups"
LATEST_MESSAGES = 500
"""Messages of a group of which its page tells reasons, links, devices and countries."""
MAX_STEPS = 5_000
"""How many of their opens and clicks are read."""
MAX_LINES = 20
"""Reasons, links and countries that are shown."""
RATES_OF_DELIVERED = ("opened", "clicked", "unsubscribed")
"""Counters whose rate is of what was delivered; that of the others is of what was sent."""
UNKNOWN_WORD = "unknown"
"""The device or country of a visit that shows none."""
SEPARATOR = " · "
"""Between the link and the user agent in the detail of a step."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A counter of a group, and its share of what it is a part of; None where that is nothing."""

    name: str
    count: int
    share: float | None


@dataclass(frozen=True, slots=True)
class LatestFigures:
    """What the latest messages of a group tell: how many they are, why some failed or bounced, and of how many each
    link was followed, on each kind of device, and in each country. The most frequent come first."""

    messages: int
    reasons: Sequence[tuple[str, int]]
    links: Sequence[tuple[str, int]]
    devices: Sequence[tuple[str, int]]
    countries: Sequence[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Report:
    """A group as the API shows it, with its measures, its last hours and its latest messages."""

    account_id: int
    group: Mapping[str, Any]
    measures: Sequence[Measure]
    day: Day
    latest: LatestFigures


def path_of_group(group_id: int) -> str:
    """The path of the page of a group."""
    return f"{PATH}/{group_id}"


def owner_of_group(session: Session, account_id: int | None, group_id: int) -> int:
    """The account that has the group: the one given, or that of any group for None. Raises `not_found`."""
    if account_id is not None:
        return account_id
    owner = session.scalar(select(Group.account_id).where(Group.id == group_id))
    return int(existing(owner, "transactional group", group_id))


def find_group_id(session: Session, account_id: int, name_or_id: str) -> int:
    """The id of the account's group with the name, or else with the id. Raises `ServiceError` (`invalid_id`)."""
    return find_by_name_or_id(session, Group, account_id, name_or_id, "group").id


def report_of(session: Session, account_id: int, group_id: int, moment: datetime) -> Report:
    """The report of the account's group: four statements. Raises `not_found`."""
    group = get_group(session, account_id, group_id, Query())
    day = _day(session, account_id, group_id, moment)
    return Report(account_id, group, measures(group), day, latest_of(session, account_id, group_id))


def day_of_group(session: Session, account_id: int, group_id: int, moment: datetime) -> Day:
    """The last hours of a group in numbers. Raises `not_found`."""
    require_group(session, account_id, group_id)
    return _day(session, account_id, group_id, moment)


def _day(session: Session, account_id: int, group_id: int, moment: datetime) -> Day:
    return day_of(counts_by_hour(session, account_id, moment, HOURS, group_id=group_id))


def measures(group: Mapping[str, Any]) -> list[Measure]:
    """Each counter with its share."""
    return [
        Measure(name, group[name], _share(group[name], group["delivered" if name in RATES_OF_DELIVERED else "sent"]))
        for name in COUNTERS
    ]


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def latest_of(session: Session, account_id: int, group_id: int) -> LatestFigures:
    """What the newest messages of the group tell. Opens and clicks by machines are left out."""
    columns = select(Recipient.id, Recipient.state, Recipient.reason)
    recipients_of_group = columns.where(Recipient.account_id == account_id, Recipient.group_id == group_id)
    newest = recipients_of_group.order_by(Recipient.creation_time.desc(), Recipient.id.desc()).limit(LATEST_MESSAGES)
    rows = session.execute(newest).all()
    ended = (row for row in rows if row.state in (RecipientState.FAILED, RecipientState.BOUNCED))
    lost = (meaning_of(row.reason) if row.reason else row.state for row in ended)
    visited = _visits(session, account_id, [row.id for row in rows])
    return LatestFigures(len(rows), _most(Counter(lost)), *map(_most, visited))


def _visits(session: Session, account_id: int, ids: list[int]) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Counts of messages: by the links that were followed, by the kinds of devices, and by the countries of visits."""
    columns = RecipientStep.recipient_id, RecipientStep.step, RecipientStep.detail, RecipientStep.country
    visits = select(*columns).where(
        RecipientStep.account_id == account_id,
        in_json(RecipientStep.recipient_id, ids),
        RecipientStep.step.in_((TimelineStep.OPENED, TimelineStep.CLICKED)),
    )
    followed, used, seen, kinds = set(), set(), set(), dict[str, str]()
    for recipient_id, step, detail, country in session.execute(visits.limit(MAX_STEPS)):
        link = link_of_detail(step, detail)
        agent = (detail or "").removeprefix(link).removeprefix(SEPARATOR)
        if link:
            followed.add((recipient_id, link))
        if agent not in kinds:
            kinds[agent] = client_of("GET", {"User-Agent": agent}).device_type or UNKNOWN_WORD
        used.add((recipient_id, kinds[agent]))
        seen.add((recipient_id, country_name(country) if country else UNKNOWN_WORD))
    links, devices, countries = (Counter(name for _, name in pairs) for pairs in (followed, used, seen))
    return links, devices, countries


def _most(counted: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counted.items(), key=lambda entry: (-entry[1], entry[0]))[:MAX_LINES]


def beside(report: Report, other: Report | None) -> Iterable[tuple[Measure, Measure | None]]:
    """The measures of a report, each with that of the other."""
    others = [None] * len(report.measures) if other is None else other.measures
    return zip(report.measures, others, strict=True)
