"""What it takes to forget and to hand out a person, with few recipients and with many: `python -m bench.forgetting`
(docs/cost.md#forgetting-a-person).

Two installations are measured in turn. Each has as many contacts, sends, recipients, timelines, events and attempts as
it has recipients, and a fifth as many rows in all other tables. A person is a contact with ten messages.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, create_engine, text

from app.db.bounded_connection import COMMAND_SECONDS, limit_waits
from app.privacy.export import export_person
from app.privacy.forget import forget
from app.privacy.person import PersonSearch
from app.privacy.places import PLACES
from bench.contacts import Shop, open_shop
from bench.processes import CaseFailure
from bench.stack import Stack, seed, stack
from tests.support.filled import NUMBERS, fill

FEW_RECIPIENTS = 10_000
MESSAGES = 10
"""Messages of a person."""
ROWS_PER_STATEMENT = 100_000
AUTOMATION = {
    **{"name": "Bench", "kind": "advanced", "list": "Customers", "trigger": "REST API Contact Created"},
    "steps": [{"name": "a day", "wait": "1 day"}],
}
PAYLOAD = (
    """'{{"id":"' || n || '","timestamp":"2026-01-01T00:00:00Z","object":"transactional_recipient","event":"sent","""
    """"uuid":"0b0a6d4e-5d0c-4c57-9d0e-000000000000","group_id":1,"group_name":"Orders","list_id":1,"contact_id":'"""
    """ || n || ',"email":"p' || n || '@example.com"}}'"""
)
EVENTS = """
INSERT INTO events (slot, account_id, webhook_id, payload)
SELECT 0, {account}, {webhook}, {payload} FROM ({numbers}) AS numbers
"""


@dataclass(frozen=True, slots=True)
class Installation:
    """The small or the large installation."""

    parts: Stack
    account_id: int

    def read(self, number: int) -> dict[str, float]:
        """Milliseconds for reading each place of a person."""
        times = {}
        services = self.parts.services
        for session, person in PersonSearch(services, [self.account_id], "email", address(number)).people():
            for place in PLACES:
                began = time.perf_counter()
                for _ in place.read(services, session, person):
                    pass
                times[f"reading {place.name}"] = (time.perf_counter() - began) * 1000
        return times

    def export(self, number: int) -> int:
        """Hands the person out; returns the number of messages."""
        pages = export_person(self.parts.services, [self.account_id], "email", address(number))
        return sum(len(rows) for _, place, rows in pages or () if place == "recipients")

    def forget(self, number: int) -> int:
        """Forgets the person; returns the number of messages."""
        with limit_waits(COMMAND_SECONDS):
            return forget(self.parts.services, [self.account_id], "email", address(number), wait=0).removed[
                "recipients"
            ]


LINES: dict[str, Callable[[Installation, int], int]] = {"export": Installation.export, "forget": Installation.forget}


def address(number: int) -> str:
    """The address of the person with this number."""
    return f"person{number}@customers.example"


@contextlib.contextmanager
def installation(count: int, people: int, *, postgresql: bool) -> Iterator[Installation]:
    """An installation with so many recipients, and so many people among them."""
    with stack(postgresql=postgresql) as parts:
        shop, _ = open_shop(parts, webhook="https://shop.example/hook"), open_shop(parts, "Other")
        seed(parts, {"name": "Bench", "automations": [AUTOMATION]})
        engine = create_engine(parts.database_url)
        with engine.begin() as connection:
            fill(connection, count)
            _fill_webhook(connection, shop, count)
            _make_people(connection, count, people)
        engine.dispose()
        yield Installation(parts, shop.account_id)


def _fill_webhook(connection: Connection, shop: Shop, count: int) -> None:
    (webhook,) = shop.webhooks
    connection.execute(text("DELETE FROM events"))
    for first in range(1, count + 1, ROWS_PER_STATEMENT):
        numbers = NUMBERS[connection.dialect.name].format(first=first, last=min(first + ROWS_PER_STATEMENT - 1, count))
        values = {
            "account": shop.account_id,
            "webhook": webhook,
            "payload": PAYLOAD.format(),
            "numbers": numbers,
        }
        connection.exec_driver_sql(EVENTS.format(**values))
    for table in ("idempotency_records", "webhook_attempts"):
        connection.execute(text(f"UPDATE {table} SET account_id = {shop.account_id}"))
    connection.execute(text(f"UPDATE webhook_attempts SET webhook_id = {webhook}, answer = '{'thanks ' * 10}'"))
    connection.execute(text("UPDATE sends SET reply_to = 'help@shop.example'"))
    connection.execute(text("DELETE FROM send_queue"))


def _make_people(connection: Connection, count: int, people: int) -> None:
    """Gives contacts and messages to the people, here and there among the others."""
    apart = count // (people * MESSAGES + 1)
    for number in range(people):
        ids = [(number * MESSAGES + message_number + 1) * apart for message_number in range(MESSAGES)]
        listed, email = ", ".join(map(str, ids)), address(number)
        for statement in (
            f"UPDATE recipients SET email = '{email}', mobile = NULL, contact_id = {ids[0]} WHERE id IN ({listed})",
            f"UPDATE contacts SET email = '{email}', email_key = '{email}', identifier = '{email}', mobile = NULL"
            f" WHERE id = {ids[0]}",
        ):
            connection.execute(text(statement))
        for event_number in ids:
            renamed = f"replace(payload, 'p' || {event_number} || '@example.com', '{email}')"
            connection.exec_driver_sql(
                f"UPDATE events SET payload = {renamed} WHERE id = (SELECT min(id) FROM events) - 1 + {event_number}"
            )


def measure(small: Installation, large: Installation, people: int) -> dict[str, tuple[float, float]]:
    """The least milliseconds of each line."""
    times: dict[tuple[str, int], list[float]] = defaultdict(list)
    for number in range(people):
        for size, at in enumerate((small, large)):
            for name, elapsed in at.read(number).items():
                times[name, size].append(elapsed)
            for name, line in LINES.items():
                began = time.perf_counter()
                messages = line(at, number)
                times[name, size].append((time.perf_counter() - began) * 1000)
                if messages != MESSAGES:
                    raise CaseFailure(f"{name}: {messages} messages instead of {MESSAGES}")
    return {name: (min(times[name, 0]), min(times[name, 1])) for name, size in times if size == 0}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.forgetting")
    parser.add_argument("--rows", type=int, default=1_000_000, help="recipients of the large one")
    parser.add_argument("--people", type=int, default=5, help="people who are forgotten, of whom the quickest counts")
    parser.add_argument("--sqlite", action="store_true")
    given = parser.parse_args(arguments)
    with contextlib.ExitStack() as kept:
        small, large = (
            kept.enter_context(installation(count, given.people, postgresql=not given.sqlite))
            for count in (FEW_RECIPIENTS, given.rows)
        )
        times = measure(small, large, given.people)
    print(f"| {'a person with ten messages':30} | {FEW_RECIPIENTS:>10,} | {given.rows:>10,} | ratio |")
    print(f"|{'-' * 32}|{'-' * 11}:|{'-' * 11}:|------:|")
    for name, (few, many) in times.items():
        print(f"| {name:30} | {few:7.1f} ms | {many:7.1f} ms | {many / few:5.2f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
