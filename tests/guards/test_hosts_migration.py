"""Revision 0070 gives each host to one account and keeps what the others had, so that no link that was sent is lost
(docs/deliverability.md#hosts-of-a-domain)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from sqlalchemy import create_engine, text

from app.db import migrate
from tests.conftest import BACKENDS
from tests.guards.test_queue_migration import rows
from tests.support.old_rows import ACCOUNT
from tests.support.servers import scratch_database, short_folder

BEFORE, AFTER = "0069", "0070"
TIME = "2026-03-01 10:00:00.000000+00"

DOMAIN = """
INSERT INTO domains (id, account_id, name, creation_time, verified_time, trusted, tracking_host, tracking_host_ready,
    return_path_host, return_path_host_ready)
VALUES (:id, :account, :name, :time, :verified, :trusted, :tracking, :tracking_ready, :return_path, :return_path_ready)
"""
VERIFIED, UNVERIFIED = TIME, None
DOMAINS = [
    # id, account, name, verified, trusted, tracking host, ready, return-path host, ready
    (1, 1, "thief.example", VERIFIED, False, "click.shop.example", True, None, False),
    (2, 2, "shop.example", VERIFIED, False, "click.shop.example", True, "back.shop.example", True),
    (3, 3, "brand.example", VERIFIED, True, "click.agency.example", False, None, False),
    (4, 4, "other.example", VERIFIED, True, "click.agency.example", True, "back.agency.example", False),
    (5, 5, "waiting.example", UNVERIFIED, False, "click.waiting.example", False, None, False),
    (6, 6, "brand.example", VERIFIED, True, "click.agency.example", False, None, False),
    (7, 7, "other.example", VERIFIED, True, "click.agency.example", True, "back.agency.example", False),
]
TESTS = {6: 3, 7: 4}
"""Test accounts, with copies of domains."""


@pytest.fixture(params=BACKENDS)
def database_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A database of the previous revision, with hosts that several accounts use."""
    with ExitStack() as stack:
        if request.param == "postgresql":
            url = stack.enter_context(scratch_database(request.getfixturevalue("postgres")))
        else:
            url = f"sqlite:///{stack.enter_context(short_folder())}/tms.sqlite3"
        migrate.upgrade(url, BEFORE)
        engine = create_engine(url)
        with engine.begin() as connection:
            for number in range(1, 8):
                statement = ACCOUNT.replace("(id,", "(id, test_of,").replace("VALUES (1,", f"VALUES ({number}, :of,")
                shared = {"time": TIME, "yes": True, "no": False, "of": TESTS.get(number)}
                connection.execute(text(statement.replace("'Acme'", f"'Acme {number}'")), shared)
            names = ["id", "account", "name", "verified", "trusted", "tracking", "tracking_ready"]
            names += ["return_path", "return_path_ready"]
            for row in DOMAINS:
                connection.execute(text(DOMAIN), {**dict(zip(names, row, strict=True)), "time": TIME})
        engine.dispose()
        yield url


def test_each_host_belongs_to_one_account_and_no_link_is_lost(database_url: str) -> None:
    migrate.upgrade(database_url, AFTER)
    found = rows(
        database_url,
        "SELECT host, account_id, proof, released_time IS NULL FROM account_hosts ORDER BY host, account_id",
    )
    assert [(*one[:3], bool(one[3])) for one in found] == [
        ("back.agency.example", 4, "operator", True),
        ("back.shop.example", 2, "domain", True),
        ("click.agency.example", 3, "operator", True),
        ("click.agency.example", 4, "operator", False),
        ("click.shop.example", 1, "operator", False),
        ("click.shop.example", 2, "domain", True),
    ]
    used = rows(database_url, "SELECT id, tracking_host_ready, return_path_host_ready FROM domains ORDER BY id")
    assert [(number, bool(tracking), bool(return_path)) for number, tracking, return_path in used] == [
        (1, False, False),
        (2, True, True),
        (3, True, False),
        (4, False, True),
        (5, False, False),
        (6, True, False),
        (7, False, True),
    ]
    migrate.downgrade(database_url, BEFORE)
    assert rows(database_url, "SELECT tracking_host FROM domains WHERE id = 1") == [("click.shop.example",)]
