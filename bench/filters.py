"""The requests of the growth table, and the rows that the rare ones find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

from sqlalchemy import select, update

from app.clock import now
from app.db.field_indexes import FieldIndex, create_index
from app.db.models import BlockedAddress, Contact, Message
from app.recipients.labels import metadata_label, tag_label
from bench.contacts import Shop
from bench.large import OWN_COLUMNS
from bench.stack import Stack

RARE_MATCHES = 10


@dataclass(frozen=True, slots=True)
class Line:
    """One request: the collection, the query, and how many rows it must find (None: a full page). A line that is not
    `bounded` is printed but not judged: docs/cost.md#filters-and-pages says what it costs."""

    name: str
    collection: str
    query: str
    matches: int | None = None
    bounded: bool = True


def _filters(collection: str, name: str, often: str | None, rarely: str | None, never: str | None) -> list[Line]:
    """The lines of one filter; a value is what follows the filter's name, including the operator."""
    given = ((often, "often", None), (rarely, "rarely", RARE_MATCHES), (never, "never", 0))
    return [
        Line(f"{name}{value} ({what})", collection, f"?{name}{quote(value, safe=':=.,')}", matches)
        for value, what, matches in given
        if value is not None
    ]


LATER, NEVER = "2027-01-01..", "2028-01-01.."
EARLIER = "2026-01-01.."
CONTACT_FILTERS: Sequence[tuple[str, str | None, str | None, str | None]] = (
    ("id", ":in=1..", None, ":in=900000000.."),
    ("email", ":ne=x@y.example", None, "=nobody@customers.example"),
    ("mobile", ":ne=61400000000", None, "=61499999999"),
    ("creation_time", f":in={EARLIER}", None, f":in={NEVER}"),
    ("last_modified_time", f":in={EARLIER}", f":in={LATER}", f":in={NEVER}"),
    ("is_active", "=true", "=false", None),
    ("double_opt_in", "=false", "=true", None),
    ("double_opt_in_time", "=", f":in={EARLIER}", f":in={NEVER}"),
    ("subscribed", "=true", "=false", None),
    ("subscribed.email", "=true", "=false", None),
    ("subscribed.mobile", "=true", None, "=false"),
    ("blocked", "=false", "=true", None),
    ("blocked.email", "=false", "=true", None),
    ("blocked.mobile", "=false", None, "=true"),
    ("first_name", ":ne=x", "=Rare", "=Never"),
    ("plan", "=gold", "=rare", "=never"),
    ("city", ":ne=x", ":in=Rare,Never", ":in=Never,Nowhere"),
    ("points", ":in=1000..3999", ":in=1000000..", ":in=2000000.."),
    ("born", ":in=1950-01-01..1989-12-31", ":in=2020-01-01..", ":in=2030-01-01.."),
)
LINES: Sequence[Line] = (
    Line("the first page", "contacts", "?limit=100"),
    Line("a page of 1,000", "contacts", "?limit=1000"),
    Line("the page behind 90 % of all, by its link", "behind", ""),
    *(line for filter_row in CONTACT_FILTERS for line in _filters("contacts", *filter_row)),
    Line("subscribed=false&plan=rare (rarely)", "contacts", "?subscribed=false&plan=rare", RARE_MATCHES),
    Line("is_active=true&points:in=2000000.. (never)", "contacts", "?is_active=true&points:in=2000000..", 0),
    Line("plan=gold&last_modified_time:in=2028.. (never)", "contacts", f"?plan=gold&last_modified_time:in={NEVER}", 0),
    Line("limit=0&subscribed=false (rarely)", "contacts", "?limit=0&subscribed=false", RARE_MATCHES),
    Line("limit=0&points:in=1000000.. (rarely)", "contacts", "?limit=0&points:in=1000000..", RARE_MATCHES),
    Line("limit=0&plan=gold (often)", "contacts", "?limit=0&plan=gold", bounded=False),
)
SENT: Sequence[Line] = tuple(
    line
    for filter_row in (
        ("contact_id", ":in=1..", None, "=900000000"),
        ("list_id", ":ne=900000000", None, "=900000000"),
        ("report_id", ":ne=900000000", None, "=900000000"),
        ("send_time", f":in={EARLIER}", None, f":in={NEVER}"),
        ("open_type", "=not_opened", "=html", "=text"),
        ("first_open_time", "=", f":in={LATER}", f":in={NEVER}"),
        ("last_open_time", "=", f":in={LATER}", f":in={NEVER}"),
    )
    for line in _filters("sent", *filter_row)
)

OLD_GROUP = 900_000_001
"""The group of the oldest hundredth of the recipients: its page lies behind nearly all of them."""
RECIPIENTS: Sequence[Line] = (
    Line("the first page", "recipients", "?limit=100"),
    *(
        line
        for filter_row in (
            ("email", ":ne=x@y.example", "=RARE@customers.example", "=nobody@customers.example"),
            ("mobile", "=", "=61400000001", "=61499999999"),
            ("contact_id", ":in=1..", None, "=900000000"),
            ("list_id", ":ne=900000000", None, "=900000000"),
            ("message_id", ":ne=900000000", None, "=900000000"),
            ("group_id", f"={OLD_GROUP}", None, "=900000000"),
            ("state", "=delivered", "=bounced", "=failed"),
            ("state", None, "=scheduled", None),
            ("tag", "=receipt", "=rare", "=never"),
            ("metadata.order", None, "=rare", "=never"),
            ("state", ":ne=failed", ":in=bounced,failed", ":in=sending,uncertain"),
            ("creation_time", f":in={EARLIER}", None, f":in={NEVER}"),
            ("send_time", ":in=..2026-03-01T00:20:00Z", None, f":in={NEVER}"),
        )
        for line in _filters("recipients", *filter_row)
    ),
)
SUPPRESSIONS: Sequence[Line] = (
    Line("the first page", "suppressions", "?limit=100"),
    *(
        line
        for filter_row in (
            ("state", "=blocked", None, None),
            ("email", None, None, "=nobody@suppressed.example"),
            ("mobile", "=", None, "=61499999999"),
            ("list_id", "=", None, "=900000000"),
            ("reason", "=permanent bounce", "=rare", "=never"),
            ("uuid", None, None, "=0b0a6d4e-5d0c-4c57-9d0e-ffffffffffff"),
            ("creation_time", f":in={EARLIER}", None, f":in={NEVER}"),
        )
        for line in _filters("suppressions", *filter_row)
    ),
)
RARE_VALUES = {"first_name": "Rare", "city": "Rare", "plan": "rare", "points": 1000000.5, "born": "2020-06-01"}
RARE_TIME = datetime(2027, 6, 1, tzinfo=UTC)


SCHEDULED_REST = 2
"""Which recipients are scheduled: as many as are opened, and behind them."""


def fill_labels(parts: Stack, count: int) -> None:
    """Gives all recipients a tag, and ten of them another one and metadata; schedules the ten that are queued."""
    rare = f"id % {count // RARE_MATCHES} = 1 AND id < {count}"
    labels = {tag_label("receipt"): "true", tag_label("rare"): rare, metadata_label("order", "rare"): rare}
    with parts.connect() as connection:
        connection.execute("SET synchronous_commit = off")
        for label, condition in labels.items():
            connection.execute(
                "INSERT INTO recipient_labels (recipient_id, label, account_id, creation_time) "
                f"SELECT id, '{label}', account_id, creation_time FROM recipients WHERE {condition}"
            )
        later = "due_time = now() + interval '1 day', ready_time = now() + interval '1 day'"
        copies = "recipient_id > (SELECT min(id) FROM recipients)"
        connection.execute(f"UPDATE send_queue SET state = 'scheduled', {later} WHERE {copies}")


def prepare_contacts(parts: Stack, shop: Shop, count: int) -> None:
    """Gives ten contacts, spread over the list, what no other has; makes the indexes of the list fields with ranges."""
    every = count // RARE_MATCHES
    chosen = [every * number + 1 for number in range(RARE_MATCHES)]
    rare = update(Contact).where(Contact.list_id == shop.list_id, Contact.id.in_(chosen))
    changed = {"is_active": False, "subscribed_email": False, "double_opt_in": True, "double_opt_in_time": RARE_TIME}
    with parts.services.database.write() as transaction:
        transaction.execute(rare.values(last_modified_time=RARE_TIME, values=RARE_VALUES, **changed))
        common = {"account_id": shop.account_id, "kind": "email", "reason": "bench", "creation_time": RARE_TIME}
        for address in transaction.scalars(select(Contact.email_key).where(Contact.id.in_(chosen))).all():
            transaction.add(BlockedAddress(address=address, **common))
    create_index(parts.database_url, FieldIndex("points", "number"))
    create_index(parts.database_url, FieldIndex("born", "date"))


def prepare_message(parts: Stack, shop: Shop) -> int:
    """Adds a message; returns its id."""
    message = Message(
        account_id=shop.account_id, name="Growth", type="email", creation_time=now(), last_modified_time=now()
    )
    with parts.services.database.write() as transaction:
        transaction.add(message)
        transaction.flush()
        return message.id


def sent_columns(shop: Shop, message_id: int, count: int) -> dict[str, str]:
    """The columns of recipients to whom the message was sent. Ten of them have opened it, and an address and an outcome
    that no other has."""
    opened, scheduled = (f"n % {count // RARE_MATCHES} = {rest} AND n < {count}" for rest in (1, SCHEDULED_REST))
    times = f"CASE WHEN {opened} THEN timestamptz '{RARE_TIME.isoformat()}' END"
    return {
        **OWN_COLUMNS,
        "email": f"CASE WHEN {opened} THEN 'Rare@customers.example' ELSE {OWN_COLUMNS['email']} END",
        "mobile": f"CASE WHEN {opened} THEN '61400000001' END",
        "state": f"CASE WHEN {opened} THEN 'bounced' WHEN {scheduled} THEN 'queued' ELSE 'delivered' END",
        "group_id": f"CASE WHEN n <= {count // 100} THEN {OLD_GROUP} ELSE one.group_id END",
        "creation_time": "timestamptz '2026-03-01' + n * interval '1 second'",
        "message_id": str(message_id),
        "list_id": str(shop.list_id),
        "contact_id": "n",
        "sent_time": "timestamptz '2026-03-01' + n * interval '1 second'",
        "open_type": f"CASE WHEN {opened} THEN 'html' ELSE 'not_opened' END",
        "first_open_time": times,
        "last_open_time": times,
    }
