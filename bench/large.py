"""An installation that is full: contacts and recipients in their millions, written by the database itself.

Half of the recipients have been sent to, the others are due. PostgreSQL only.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from app.db.models import Recipient
from bench.contacts import COLUMNS, Shop
from bench.mail import accept
from bench.stack import Server, Stack

AT_ONCE = 250_000
THREADS = 2

CONTACTS = """
INSERT INTO contacts ({columns})
SELECT {account}, {list}, moment, moment, email, email, '614' || lpad(n::text, 8, '0'), email, true, true, true, false,
    jsonb_build_object(
        'first_name', 'First' || n % 977, 'last_name', 'Last' || n % 1009, 'city', 'City ' || n % 499,
        'plan', (ARRAY['free', 'silver', 'gold'])[1 + n % 3], 'born', '1970-01-01', 'points', n % 5000)
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
OWN = {
    "uuid": "'0b0a6d4e-5d0c-4c57-9d0e-' || lpad(to_hex(n), 12, '0')",
    "email": "'person' || n || '@customers.example'",
    "state": "CASE WHEN n % 2 = 0 THEN 'delivered' ELSE 'queued' END",
}
"""Columns in which recipients differ from the first one."""


def fill_both(parts: Stack, shop: Shop, server: Server, count: int) -> None:
    """So many contacts and so many recipients of one send, which the API has accepted with its first (number 0)."""
    accept(server, shop, 0, 1, 1)
    with parts.connect() as connection:
        ((template,),) = connection.execute("SELECT min(id) FROM recipients").fetchall()
    columns = [column.name for column in Recipient.__table__.columns if column.name != "id"]
    contacts = CONTACTS.replace("{columns}", ", ".join(f'"{name}"' for name in COLUMNS))
    recipients = RECIPIENTS.replace("{columns}", ", ".join(f'"{name}"' for name in columns)).replace(
        "{values}", ", ".join(OWN.get(name, f'one."{name}"') for name in columns)
    )
    names = {"account": shop.account_id, "list": shop.list_id, "template": template}
    _run(parts, contacts, names, count)
    _run(parts, recipients, names, count)
    with parts.connect() as connection:
        connection.autocommit = True
        connection.execute("VACUUM ANALYZE contacts")
        connection.execute("VACUUM ANALYZE recipients")
        connection.execute("CHECKPOINT")


def _run(parts: Stack, statement: str, names: dict[str, int], count: int) -> None:
    """In pieces, of which several are written at a time."""

    def write(first: int) -> None:
        with parts.connect() as connection:
            connection.execute("SET synchronous_commit = off")
            last = min(first + AT_ONCE - 1, count)
            connection.execute(statement.format(**names, first=first, last=last))

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(write, range(1, count + 1, AT_ONCE)))
