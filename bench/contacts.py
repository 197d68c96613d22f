"""The account and contacts of the API cases: a list with eight fields, filled by COPY."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import text

from app.contacts.counts import recount_contacts
from bench.stack import Stack, seed

FIELDS = [
    {"name": "Email", "type": "Email"},
    {"name": "Mobile", "type": "Mobile Phone"},
    {"name": "First Name", "type": "First Name"},
    {"name": "Last Name", "type": "Last Name"},
    {"name": "City", "type": "Suburb"},
    {"name": "Plan", "type": "Dropdown", "options": ["free", "silver", "gold"]},
    {"name": "Born", "type": "Date of Birth"},
    {"name": "Points", "type": "Number"},
]
PLANS = ("free", "silver", "gold")

COLUMNS = (
    *("account_id", "list_id", "creation_time", "last_modified_time", "email", "email_key", "mobile", "identifier"),
    *("subscribed_email", "subscribed_mobile", "is_active", "double_opt_in", "values"),
)
CONTACTS_PER_STATEMENT = 10_000


@dataclass(frozen=True, slots=True)
class Shop:
    """An account with one list, a key and the ids of its webhooks."""

    account_id: int
    list_id: int
    token: str
    webhooks: list[int]


def open_shop(stack: Stack, name: str = "Bench", webhook: str | None = None) -> Shop:
    """Creates the account, its list and, where a URL is given, its webhook."""
    account: dict[str, Any] = {
        "name": name,
        "owner_email": "owner@bench.example",
        "owner_confirmed": True,
        "default_from": {"name": "Bench", "address": "hello@bench.example"},
        "domains": ["bench.example"],
        "keys": [{"name": "bench", "access_level": "standard"}],
        "lists": [{"name": "Customers", "fields": FIELDS}],
    }
    if webhook is not None:
        account["webhooks"] = [{"url": webhook}]
    report = seed(stack, account)
    webhooks = [webhook["id"] for webhook in report.webhooks]
    return Shop(report.id, report.lists[0]["id"], report.keys[0]["token"], webhooks)


def draft(number: int) -> dict[str, Any]:
    """The attributes of the contact with this number; no two contacts are alike."""
    return {
        "email": f"person{number}@customers.example",
        "mobile": f"614{number:08d}",
        "first_name": f"First{number % 977}",
        "last_name": f"Last{number % 1009}",
        "city": f"City {number % 499}",
        "plan": PLANS[number % 3],
        "born": f"{1950 + number % 50}-{1 + number % 12:02d}-{1 + number % 28:02d}",
        "points": number % 5000,
    }


def fill(stack: Stack, shop: Shop, count: int, first: int = 0) -> None:
    """Writes contacts straight into the database, without events: the quickest way to a large table."""
    rows = (_row(shop, number) for number in range(first, first + count))
    if stack.is_postgresql:
        _copy(stack, rows)
    else:
        _insert(stack, rows)
    recount(stack, shop)


def recount(stack: Stack, shop: Shop) -> None:
    """Corrects the count of the list after contacts were written straight into the database."""
    with stack.services.database.write() as transaction:
        recount_contacts(transaction, shop.account_id, shop.list_id)


def _row(shop: Shop, number: int) -> tuple[Any, ...]:
    """A contact as values of `COLUMNS`."""
    person = draft(number)
    moment = f"2026-{1 + number // 2_000_000 % 12:02d}-01 00:00:00"
    email, mobile = person.pop("email"), person.pop("mobile")
    values = orjson.dumps({**person, "points": float(person["points"])}).decode()
    return (shop.account_id, shop.list_id, moment, moment, email, email, mobile, email, True, True, True, False, values)


def _copy(stack: Stack, rows: Iterator[tuple[Any, ...]]) -> None:
    names = ", ".join(f'"{name}"' for name in COLUMNS)
    with stack.connect() as connection:
        with connection.cursor().copy(f"COPY contacts ({names}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        connection.commit()
        connection.autocommit = True
        connection.execute("VACUUM ANALYZE contacts")


def _insert(stack: Stack, rows: Iterator[tuple[Any, ...]]) -> None:
    names = ", ".join(f'"{name}"' for name in COLUMNS)
    marks = ", ".join(f":{name}" for name in COLUMNS)
    statement = text(f"INSERT INTO contacts ({names}) VALUES ({marks})")
    while chunk := list(itertools.islice(rows, CONTACTS_PER_STATEMENT)):
        with stack.services.database.write() as transaction:
            transaction.execute(statement, [dict(zip(COLUMNS, row, strict=True)) for row in chunk])
