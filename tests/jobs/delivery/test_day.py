"""A day with almost a hundred messages and all kinds of outcomes, many of them repeated: all figures agree.

Group counts, contact flags, sent contacts and events are derived from the recipients' timelines once more and compared
with what the service reports; nothing else may be reported (docs/delivery.md#recipient-states).
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from sqlalchemy import delete, select

from app.clock import now, this_second, timestamp
from app.db.models import BlockedAddress, DomainBackoff, QueueEntry, Recipient, RecipientStep
from app.groups.read import counts_by_day, counts_by_hour
from app.inbound.email.receive import receive_email
from app.inbound.receipts import Receipt, take_receipt
from app.inbound.replies import record_reply
from app.sends.delivery.drain import drain
from app.services import Services
from app.tracking.feedback_channels import unsubscribe_link
from app.tracking.links import InlineLink, LinkType, link_token
from app.tracking.recorder import VISITS
from app.tracking.tokens import OPEN_PURPOSE, recipient_token, return_path
from tests.support.client import SENDS, Client, items
from tests.support.mail_reports import complaint, delivery_failure
from tests.support.rows import Rows
from tests.support.servers import PATIENCE
from tests.support.tenants import Tenant, unique
from tests.unit.transports.mailserver import MailServer

EMAILS, TEXTS, TOGETHER = 66, 27, 20
READER = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Thunderbird/140.0"}
MACHINE = {"User-Agent": "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"}
TEMPORARY = re.compile(r"\b4\.\d+\.\d+\b")
LEFT_EARLY, ASLEEP, DEAD = "unsubscribed before", "inactive before", "blocked before"


@dataclass
class Day:
    """An account, its list, and what its recipients do."""

    tenant: Tenant
    worker: Services
    mail_server: MailServer
    anon: Client
    number: str = "61400000001"
    recipient_ids: dict[str, int] = field(default_factory=dict)
    """Address -> recipient id."""
    groups: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = Rows(self.worker, self.tenant.id)
        self.list_id = self.tenant.add_list()
        self.tenant.add_sender(self.number)
        text = {"subject": None, "from_name": None, "body_html": None, "body_text": "Hello. Reply STOP"}
        link = "https://a.example/"
        self.messages = {
            "email": self.tenant.add_message(body_html=f'<p>Hi <a href="{link}">a</a></p>', body_text=f"Hi {link}"),
            "sms": self.tenant.add_message(type="sms", from_address=self.number, **text),
        }

    def send(self, type_: str, addresses: list[str]) -> None:
        """Sends to the addresses, some in each request."""
        kind = "email" if type_ == "email" else "mobile"
        for first in range(0, len(addresses), TOGETHER):
            body = {
                "type": type_,
                "list_id": self.list_id,
                "message_id": self.messages[type_],
                "group_name": unique(type_),
                "recipients": [{kind: address} for address in addresses[first : first + TOGETHER]],
            }
            answer = self.tenant.api.post(SENDS, body)
            assert answer.status_code == 202, answer.text
            self.groups.append(int(answer.get_json()["_links"]["transactional_group"]["href"].rpartition("/")[2]))
        statement = select(Recipient).where(Recipient.account_id == self.tenant.id)
        with self.worker.database.read() as session:
            self.recipient_ids = {row.email or row.mobile or "": row.id for row in session.scalars(statement)}

    # ------------------------------------------------------------------------------------------ what recipients do

    def open(self, address: str, headers: dict[str, str]) -> None:
        token = recipient_token(self.worker.settings.secret_key, OPEN_PURPOSE, self.recipient_ids[address])
        assert self.anon.get(f"/o/{token}.gif", headers=headers).status_code == 200

    def click(self, address: str, link_type: LinkType, headers: dict[str, str]) -> None:
        link = InlineLink(self.recipient_ids[address], link_type, f"https://a.example/{link_type}")
        token = link_token(self.worker.settings.secret_key, link)
        assert self.anon.get(f"/c/{token}", headers=headers).status_code == 302

    def leave(self, address: str) -> None:
        settings = self.worker.settings
        path = unsubscribe_link(settings, self.recipient_ids[address]).removeprefix(settings.public_url)
        assert self.anon.get(path).status_code == 200
        assert self.anon.request("POST", path).status_code == 200

    def report(self, address: str, write: Callable[..., bytes], **options: Any) -> None:
        """Delivers a report twice: as another copy, or as another report about the same mail."""
        to = return_path(self.worker.settings, self.recipient_ids[address], f"hello@{self.tenant.domain}")
        raw = write(to, address, **options)
        for mail in (raw, raw, write(to, address, **options)):
            receive_email(self.worker, mail, patience=0)

    def receipt(self, address: str, status: Any) -> None:
        for _ in range(2):
            take_receipt(self.worker, Receipt(self.recipient_ids[address], status), patience=0)

    def reply(self, address: str, text: str) -> None:
        """Delivers a reply twice, with the same id of the gateway."""
        for _ in range(2):
            with self.worker.database.write() as transaction:
                record_reply(transaction, address, self.number, text, message_id=f"{address} {text}")


Act = Callable[[Day, str], None]


def repeated(act: Act) -> Act:
    """Repeats an action."""

    def both(day: Day, address: str) -> None:
        act(day, address)
        act(day, address)

    return both


def both(first: Act, second: Act) -> Act:
    """Combines two actions in this order."""

    def one_by_one(day: Day, address: str) -> None:
        first(day, address)
        second(day, address)

    return one_by_one


def opens(day: Day, address: str) -> None:
    day.open(address, READER)


def clicks(day: Day, address: str) -> None:
    day.click(address, "html_email", READER)


def clicks_in_the_text(day: Day, address: str) -> None:
    day.click(address, "text_email", READER)


def is_scanned(day: Day, address: str) -> None:
    day.open(address, MACHINE)
    day.click(address, "html_email", MACHINE)


def does_nothing(_day: Day, _address: str) -> None:
    """The recipient neither opens nor clicks, like most."""


def leaves(day: Day, address: str) -> None:
    day.leave(address)


def bounces(day: Day, address: str) -> None:
    day.report(address, delivery_failure)


def bounces_for_now(day: Day, address: str) -> None:
    day.report(address, delivery_failure, status="4.2.2", diagnostic="smtp; 452 4.2.2 mailbox full")


def complains(day: Day, address: str) -> None:
    day.report(address, complaint)


def acknowledges(day: Day, address: str) -> None:
    day.receipt(address, "delivered")


def gets_nothing(day: Day, address: str) -> None:
    day.receipt(address, "failed")


def replies(day: Day, address: str) -> None:
    day.reply(address, "Thank you")


def stops(day: Day, address: str) -> None:
    day.reply(address, "Stop")


READERS: dict[str, Act] = {
    "opens": opens,
    "opens twice": repeated(opens),
    "clicks": clicks,
    "clicks twice": repeated(clicks),
    "clicks in the text": clicks_in_the_text,
    "opens and clicks": both(opens, clicks),
    "clicks both links": both(clicks_in_the_text, clicks),
    "is scanned": both(is_scanned, opens),
    "is only scanned": repeated(is_scanned),
    "does nothing": does_nothing,
    "leaves": repeated(leaves),
    "opens, clicks and leaves": both(both(opens, clicks), leaves),
    "bounces": bounces,
    "bounces for now": bounces_for_now,
    "complains": complains,
    "leaves and complains": both(leaves, complains),
    "is refused": does_nothing,
    "is deferred": opens,
    "is deferred and refused": does_nothing,
    LEFT_EARLY: does_nothing,
    ASLEEP: does_nothing,
    DEAD: does_nothing,
}
PHONES: dict[str, Act] = {
    "acknowledges": acknowledges,
    "acknowledges and stops": both(acknowledges, stops),
    "gets nothing": gets_nothing,
    "replies": replies,
    "stops": stops,
    "leaves": repeated(leaves),
    "replies and leaves": both(replies, leaves),
    "does nothing": does_nothing,
    DEAD + " sms": does_nothing,
}


def fates(acts: dict[str, Act], count: int) -> Iterator[tuple[int, str]]:
    """Distributes the fates evenly."""
    names = list(acts)
    return ((number, names[number % len(names)]) for number in range(count))


@pytest.fixture
def day(tenant: Tenant, worker: Services, mail_server: MailServer, anon: Client) -> Day:
    """The account after that day."""
    day_of_sends = Day(tenant, worker, mail_server, anon)
    readers = {f"{number}@{unique('d')}.example": fate for number, fate in fates(READERS, EMAILS)}
    phones = {f"614{10_000_000 + number}": fate for number, fate in fates(PHONES, TEXTS)}
    prepare(day_of_sends, readers, phones)
    day_of_sends.rows.add_webhook()
    day_of_sends.send("email", list(readers))
    day_of_sends.send("sms", list(phones))
    deliver(day_of_sends)
    for fates_by_address, acts in ((readers, READERS), (phones, PHONES)):
        for address, fate in fates_by_address.items():
            acts[fate](day_of_sends, address)
    assert tenant.app.extensions[VISITS].flush(PATIENCE)
    return day_of_sends


def prepare(day: Day, readers: dict[str, str], phones: dict[str, str]) -> None:
    """Unsubscribes and blocks some addresses in advance, and scripts the mail server's answers."""
    before: dict[str, Any] = {LEFT_EARLY: {"subscribed": {"email": False}}, ASLEEP: {"is_active": False}, DEAD: {}}
    for address, fate in readers.items():
        attributes = before.get(fate)
        if attributes is not None:
            day.tenant.new_contact(day.list_id, email=address, **attributes)
        if fate == DEAD:
            day.tenant.add(BlockedAddress, kind="email", address=address, reason="test", creation_time=this_second())
        if "deferred" in fate:
            day.mail_server.reply(address, "451 4.3.2 try again later")
        if "refused" in fate:
            day.mail_server.reply(address, "550 5.1.1 no such mailbox")
    for mobile, fate in phones.items():
        if fate.startswith(DEAD):
            day.tenant.add(BlockedAddress, kind="mobile", address=mobile, reason="test", creation_time=this_second())


def deliver(day: Day) -> None:
    """Drains until no recipient is queued; retries become due at once."""
    for _ in range(5):
        drain(day.worker)
        with day.worker.database.write() as transaction:
            transaction.execute(delete(DomainBackoff))
            queued = select(QueueEntry.recipient_id).filter_by(account_id=day.tenant.id, state="queued")
            waiting = list(transaction.scalars(queued))
        if not waiting:
            return
        day.rows.make_due(waiting)
    raise AssertionError("somebody still waits")


# ---------------------------------------------------------------------------------------------- what is reported

Steps = list[RecipientStep]
FIRST_SIGNS = ("opened", "clicked")


@dataclass(frozen=True)
class RecipientHistory:
    """A recipient and its timeline."""

    row: Recipient
    steps: Steps

    def has(self, *names: str) -> bool:
        return any(step.step in names for step in self.steps)

    def first(self, *names: str) -> datetime | None:
        """The time of the first of these steps."""
        return next((step.time for step in self.steps if step.step in names), None)

    @property
    def signs(self) -> Steps:
        """Steps that show a person reading the mail."""
        return [step for step in self.steps if step.step in FIRST_SIGNS]

    @property
    def blocked(self) -> bool:
        """Whether these steps block the address."""
        hard = any(step.step == "bounced" and not TEMPORARY.search(step.detail or "") for step in self.steps)
        return hard or self.has("complained") or self.row.reason == "blocked"

    @property
    def unsubscribed(self) -> bool:
        return self.has("unsubscribed") or self.row.reason == "unsubscribed"

    def changes(self) -> int:
        """How often the contact is updated. A complaint blocks and unsubscribes in one update."""
        names = [step.step for step in self.steps]
        at_once = "complained" in names and "unsubscribed" in names[names.index("complained") :]
        blocks = self.blocked and self.row.reason != "blocked"
        return self.has("unsubscribed") + (blocks and not at_once)

    def counted(self) -> dict[str, datetime | None]:
        """What the recipient adds to its group, with the time; None for counts that it does not change."""
        return {
            "sent": self.row.creation_time,
            "failed_contacts": self.first("failed"),
            "bounced": self.first("bounced"),
            "delivered": None if self.has("bounced") else self.first("sent"),
            "opened": self.first(*FIRST_SIGNS),
            "clicked": self.first("clicked"),
            "unsubscribed": self.first("unsubscribed"),
        }

    def counts(self) -> dict[str, int]:
        """What the recipient adds to the counts of its group."""
        return {name: int(moment is not None) for name, moment in self.counted().items()}

    def events(self) -> list[str]:
        """The events that webhooks get about the recipient, in order."""
        reported: list[str] = []
        for step in self.steps:
            if step.step == "clicked" and step is self.signs[0]:
                reported.append("opened")
            if step.step in ("sent", "bounced", "failed", "opened", "clicked", "acknowledged", "received"):
                reported.append(step.step)
        return reported

    def open_type(self) -> str:
        if self.row.type == "sms":
            return "sms"
        if not self.signs:
            return "not_opened"
        return "text" if "text_email" in (self.signs[0].detail or "") else "html"


def recipient_histories(day: Day) -> list[RecipientHistory]:
    """The histories of all recipients of the account."""
    steps: dict[int, Steps] = defaultdict(list)
    criteria = RecipientStep.account_id == day.tenant.id
    with day.worker.database.read() as session:
        for step in session.scalars(select(RecipientStep).where(criteria).order_by(RecipientStep.id)):
            steps[step.recipient_id].append(step)
        rows = session.scalars(select(Recipient).where(Recipient.account_id == day.tenant.id))
        return [RecipientHistory(row, steps[row.id]) for row in rows]


def test_everything_that_is_reported_agrees_with_the_timelines(day: Day) -> None:
    """Counts, contact flags, sent contacts and events."""
    histories = recipient_histories(day)
    assert len(histories) == EMAILS + TEXTS
    check_groups(day, histories)
    check_hours(day, histories)
    check_contacts(day, histories)
    check_sent_contacts(day, histories)
    check_events(day, histories)


def check_groups(day: Day, histories: list[RecipientHistory]) -> None:
    expected: dict[int, Counter[str]] = defaultdict(Counter)
    for history in histories:
        expected[history.row.group_id].update(history.counts())
    groups = {
        item["id"]: item for item in items(day.tenant.api.get("/v1/transactional-groups"), "transactional-groups")
    }
    assert set(groups) == set(expected)
    for group_id, counts in expected.items():
        assert {name: groups[group_id][name] for name in counts} == dict(counts)
    total = sum(expected.values(), Counter[str]())
    assert total["sent"] == EMAILS + TEXTS
    assert all(total[name] >= 10 for name in ("failed_contacts", "bounced", "delivered", "opened", "clicked"))
    assert total["unsubscribed"] >= 10


def check_hours(day: Day, histories: list[RecipientHistory]) -> None:
    """The counts by hour and by day, of each group and of all, add up to the timelines."""
    for group_id in (None, *day.groups):
        expected: Counter[tuple[datetime, str]] = Counter(
            (moment.replace(minute=0, second=0, microsecond=0), name)
            for history in histories
            if group_id in (None, history.row.group_id)
            for name, moment in history.counted().items()
            if moment
        )
        with day.worker.database.read() as session:
            hours = counts_by_hour(session, day.tenant.id, now(), 24, group_id=group_id)
            days = counts_by_day(session, day.tenant.id, now(), 2, zone=ZoneInfo("UTC"), group_id=group_id)
        assert Counter({(hour, name): count for hour, counts in hours.items() for name, count in counts.items()}) == (
            expected
        )
        total: Counter[str] = Counter()
        for (_, name), count in expected.items():
            total[name] += count
        assert Counter({name: sum(counts[name] for counts in days.values()) for name in total}) == total


def check_contacts(day: Day, histories: list[RecipientHistory]) -> None:
    contacts = {item["id"]: item for item in items(day.tenant.api.get(f"/v1/lists/{day.list_id}/contacts?limit=1000"))}
    assert len(contacts) == EMAILS + TEXTS
    for history in histories:
        kind = "email" if history.row.type == "email" else "mobile"
        contact = contacts[history.row.contact_id or 0]
        assert contact["subscribed"][kind] is not history.unsubscribed, history.steps
        assert contact["blocked"][kind] is history.blocked, history.steps


def check_sent_contacts(day: Day, histories: list[RecipientHistory]) -> None:
    for type_, message_id in day.messages.items():
        page = day.tenant.api.get(f"/v1/messages/{message_id}/sent-contacts?limit=1000")
        sent_contacts = {item["contact_id"]: item for item in items(page, "sent-contacts")}
        sent = [history for history in histories if history.row.type == type_ and history.has("sent")]
        assert set(sent_contacts) == {history.row.contact_id for history in sent}
        for history in sent:
            item = sent_contacts[history.row.contact_id]
            assert (item["report_id"], item["open_type"]) == (history.row.group_id, history.open_type())
            first, last = item["first_open_time"], item["last_open_time"]
            assert first == (timestamp(history.signs[0].time) if history.signs else None)
            # A repetition adds no step but updates the time of the last one.
            assert last >= timestamp(history.signs[-1].time) if history.signs else last is None


def check_events(day: Day, histories: list[RecipientHistory]) -> None:
    reported: dict[int, list[str]] = defaultdict(list)
    changed: Counter[int] = Counter()
    for event in map(json.loads, day.rows.payloads()):
        if event["object"] != "contact":
            reported[event["id"]].append(event["event"])
        elif event["event"] == "updated":
            changed[event["id"]] += 1
    assert {history.row.id: history.events() for history in histories if history.events()} == dict(reported)
    assert changed == Counter({history.row.contact_id: history.changes() for history in histories if history.changes()})
