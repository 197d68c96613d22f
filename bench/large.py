"""Fills an installation with millions of contacts and recipients, which PostgreSQL generates itself.

Half of the recipients are delivered, the others are due.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from app.db.models import Recipient
from bench.contacts import COLUMNS, Shop, recount
from bench.mail import accept
from bench.stack import Server, Stack

ROWS_PER_STATEMENT = 250_000
THREADS = 2

CONTACTS = """
INSERT INTO contacts ({columns})
SELECT {account}, {list}, moment, moment, email, email, '614' || lpad(n::text, 8, '0'), email, true, true, true, false,
    jsonb_build_object(
        'first_name', 'First' || n % 977, 'last_name', 'Last' || n % 1009, 'city', 'City ' || n % 499,
        'plan', (ARRAY['free', 'silver', 'gold'])[1 + n % 3], 'points', n % 5000,
        'born', to_char(date '1950-01-01' + n % 18000, 'YYYY-MM-DD'))
FROM (
    SELECT n, 'person' || n || '@customers.example' AS email,
        timestamptz '2026-01-01' + n * interval '1 second' AS moment
    FROM generate_series({first}, {last}) n
) AS people
"""
RECIPIENTS = """
INSERT INTO recipients ({columns})
SELECT {values} FROM recipients one, generate_series({first}, {last}) n WHERE one.id = {template}
"""
QUEUE = """
INSERT INTO send_queue (recipient_id, account_id, priority, state, due_time, ready_time, attempts)
SELECT id, account_id, 'normal', 'queued', now(), now(), 0
FROM recipients WHERE id > {template} AND state = 'queued'
ON CONFLICT DO NOTHING
"""
"""Queue entries of the recipients that are due."""
ADD_DUE = """
WITH added AS (
    INSERT INTO recipients ({columns})
    SELECT {values} FROM recipients one, generate_series(1, {count}) n WHERE one.id = {template}
    RETURNING id, account_id
)
INSERT INTO send_queue (recipient_id, account_id, priority, state, due_time, ready_time, attempts)
SELECT id, account_id, 'normal', 'queued', now(), now(), 0 FROM added
"""
SUPPRESSIONS = (
    """
INSERT INTO blocked_addresses (account_id, kind, address, reason, creation_time, uuid)
SELECT {account}, 'email', 'blocked' || n || '@suppressed.example',
    CASE WHEN n % {rare} = 1 THEN 'rare' ELSE 'permanent bounce' END,
    timestamptz '2026-03-01' + n * interval '1 second', '0b0a6d4e-5d0c-4c57-9d0e-' || lpad(to_hex(n), 12, '0')
FROM generate_series({first}, {last}) n
""",
    """
INSERT INTO unsubscribers (account_id, kind, address, creation_time)
SELECT {account}, 'email', 'left' || n || '@suppressed.example', timestamptz '2026-03-01' + n * interval '1 second'
FROM generate_series({first}, {last}) n
""",
)
OWN_COLUMNS = {
    "uuid": "'0b0a6d4e-5d0c-4c57-9d0e-' || lpad(to_hex(n), 12, '0')",
    "email": "'person' || n || '@customers.example'",
    "state": "CASE WHEN n % 2 = 0 THEN 'delivered' ELSE 'queued' END",
}
"""Columns in which the recipients differ from the template."""


def fill_both(parts: Stack, shop: Shop, server: Server, count: int) -> None:
    """Adds so many contacts, and so many recipients to a send that the API has accepted with its first (number 0)."""
    fill_contacts(parts, shop, count)
    fill_recipients(parts, accepted_recipient(parts, shop, server), count, OWN_COLUMNS)
    with parts.connect() as connection:
        connection.autocommit = True
        connection.execute("CHECKPOINT")


def accepted_recipient(parts: Stack, shop: Shop, server: Server) -> int:
    """The id of a recipient that the API has accepted: the template of the others."""
    accept(server, shop, 0, 1, 1)
    with parts.connect() as connection:
        ((template,),) = connection.execute("SELECT min(id) FROM recipients").fetchall()
    recipient_id: int = template
    return recipient_id


def fill_contacts(parts: Stack, shop: Shop, count: int) -> None:
    """Adds so many contacts to the list, numbered from 1."""
    statement = CONTACTS.replace("{columns}", ", ".join(f'"{name}"' for name in COLUMNS))
    _run(parts, statement, {"account": shop.account_id, "list": shop.list_id}, count)
    _vacuum(parts, "contacts")
    recount(parts, shop)


def fill_recipients(parts: Stack, template: int, count: int, expressions: Mapping[str, str]) -> None:
    """Adds copies of the template recipient. `expressions` of the number `n` replace the values of some columns."""
    columns = [column.name for column in Recipient.__table__.columns if column.name != "id"]
    statement = RECIPIENTS.replace("{columns}", ", ".join(f'"{name}"' for name in columns)).replace(
        "{values}", ", ".join(expressions.get(name, f'one."{name}"') for name in columns)
    )
    _run(parts, statement, {"template": template}, count)
    with parts.connect() as connection:
        connection.execute(QUEUE.format(template=template))
        connection.commit()
    _vacuum(parts, "recipients")
    _vacuum(parts, "send_queue")


def fill_suppressions(parts: Stack, shop: Shop, count: int) -> None:
    """Adds so many suppressions, half of them blocked. Ten of them have a reason that no other has."""
    for statement in SUPPRESSIONS:
        _run(parts, statement, {"account": shop.account_id, "rare": count // 20}, count // 2)
    for table in ("blocked_addresses", "unsubscribers"):
        _vacuum(parts, table)


def add_due(parts: Stack, template: int, count: int) -> None:
    """Adds further copies of the template recipient, which are due, without a vacuum."""
    columns = [column.name for column in Recipient.__table__.columns if column.name != "id"]
    expressions = {"uuid": "gen_random_uuid()::text", "email": OWN_COLUMNS["email"], "state": "'queued'"}
    names = ", ".join(f'"{name}"' for name in columns)
    values = ", ".join(expressions.get(name, f'one."{name}"') for name in columns)
    with parts.connect() as connection:
        connection.execute("SET synchronous_commit = off")
        connection.execute(ADD_DUE.format(columns=names, values=values, count=count, template=template))


def _vacuum(parts: Stack, table: str) -> None:
    with parts.connect() as connection:
        connection.autocommit = True
        connection.execute(f"VACUUM ANALYZE {table}")


def _run(parts: Stack, statement: str, names: dict[str, int], count: int) -> None:
    """Runs the statement for one range of numbers after the other, several at a time."""

    def write(first: int) -> None:
        with parts.connect() as connection:
            connection.execute("SET synchronous_commit = off")
            last = min(first + ROWS_PER_STATEMENT - 1, count)
            connection.execute(statement.format(**names, first=first, last=last))

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(write, range(1, count + 1, ROWS_PER_STATEMENT)))
