"""Revision 0042 gives the copies of a test account the ids of their originals, negated, and everything follows; and
back again (docs/operations.md#migrations)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from app.db import migrate
from tests.conftest import BACKENDS
from tests.support.servers import scratch_database, short_folder

BEFORE, AFTER = "0039", "0042"
TIME = "2026-03-01 10:00:00.000000+00"
ROWS = (
    "INSERT INTO accounts (id, name, owner_confirmed, allowed_networks, creation_time, last_modified_time, test_of) "
    "VALUES (1, 'Acme', :yes, '[]', :time, :time, NULL), (2, 'Acme (test)', :yes, '[]', :time, :time, 1)",
    "INSERT INTO lists (id, account_id, name, system, allow_duplicates, stop_words, has_automations, creation_time, "
    "last_modified_time, copy_of) VALUES (11, 1, 'A', :no, :no, '[]', :no, :time, :time, NULL), "
    "(12, 1, 'B', :no, :no, '[]', :no, :time, :time, NULL), (13, 2, 'A', :no, :no, '[]', :no, :time, :time, 11), "
    "(14, 2, 'B', :no, :no, '[]', :no, :time, :time, 12), (15, 2, 'Own', :no, :no, '[]', :no, :time, :time, NULL)",
    "INSERT INTO messages (id, account_id, name, type, creation_time, last_modified_time, copy_of) "
    "VALUES (21, 1, 'M', 'email', :time, :time, NULL), (22, 2, 'M', 'email', :time, :time, 21)",
    *(
        "INSERT INTO list_fields (account_id, list_id, position, name, key, type, options) "
        f"VALUES ({account}, {list_id}, 0, 'Email', 'email', 'Email', '[]')"
        for account, list_id in ((1, 11), (2, 13), (2, 15))
    ),
    *(
        "INSERT INTO contacts (account_id, list_id, email, email_key, identifier, subscribed_email, subscribed_mobile, "
        'is_active, double_opt_in, "values", creation_time, last_modified_time) '
        f"VALUES ({account}, {list_id}, 'a@x', 'a@x', 'a@x', :yes, :yes, :yes, :no, '{{}}', :time, :time)"
        for account, list_id in ((1, 11), (1, 12), (2, 13), (2, 14), (2, 15))
    ),
    *(
        "INSERT INTO sends (account_id, request_id, creation_time, type, list_id, message_id, group_id, group_name, "
        "from_address, include_unsubscribed, recipient_data_html_encoded) "
        f"VALUES ({account}, 'r', :time, 'email', {list_id}, {message_id}, 1, 'g', 'a@acme.example', :no, :yes)"
        for account, list_id, message_id in ((1, 11, 21), (2, 13, 22), (2, 15, "NULL"))
    ),
    *(
        f"INSERT INTO contact_counts (list_id, slot, account_id, contacts) VALUES ({list_id}, 0, {account}, 1)"
        for account, list_id in ((1, 11), (2, 13))
    ),
)
FIELDS = "SELECT account_id, list_id FROM list_fields ORDER BY id"
CONTACTS = "SELECT account_id, list_id FROM contacts ORDER BY id"
SENDS = "SELECT account_id, list_id, message_id FROM sends ORDER BY id"
COUNTS = "SELECT account_id, list_id FROM contact_counts ORDER BY account_id"
LISTS = "SELECT id, name, copy_of FROM lists ORDER BY name, account_id"
MESSAGES = "SELECT id, copy_of FROM messages ORDER BY account_id"


def rows(database_url: str, statement: str) -> list[tuple[Any, ...]]:
    engine = create_engine(database_url)
    try:
        with engine.connect() as connection:
            return [tuple(row) for row in connection.execute(text(statement))]
    finally:
        engine.dispose()


@pytest.fixture(params=BACKENDS)
def database_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A database of the previous revision with an account and its test account."""
    with ExitStack() as stack:
        if request.param == "postgresql":
            url = stack.enter_context(scratch_database(request.getfixturevalue("postgres")))
        else:
            url = f"sqlite:///{stack.enter_context(short_folder())}/tms.sqlite3"
        migrate.upgrade(url, BEFORE)
        engine = create_engine(url)
        with engine.begin() as connection:
            for statement in ROWS:
                connection.execute(text(statement), {"time": TIME, "yes": True, "no": False})
            if request.param == "postgresql":
                for table in ("lists", "messages"):
                    connection.execute(text(f"SELECT setval('{table}_id_seq', 100)"))
        engine.dispose()
        yield url


def test_copies_get_the_ids_of_their_originals_and_everything_follows(database_url: str) -> None:
    migrate.upgrade(database_url, AFTER)
    assert rows(database_url, LISTS) == [
        (11, "A", None),
        (-11, "A", 11),
        (12, "B", None),
        (-12, "B", 12),
        (15, "Own", None),
    ]
    assert rows(database_url, MESSAGES) == [(21, None), (-21, 21)]
    assert rows(database_url, FIELDS) == [(1, 11), (2, -11), (2, 15)]
    assert rows(database_url, CONTACTS) == [(1, 11), (1, 12), (2, -11), (2, -12), (2, 15)]
    assert rows(database_url, SENDS) == [(1, 11, 21), (2, -11, -21), (2, 15, None)]
    assert rows(database_url, COUNTS) == [(1, 11), (2, -11)]


def test_downwards_copies_have_ids_like_others(database_url: str) -> None:
    migrate.upgrade(database_url, AFTER)
    migrate.downgrade(database_url, BEFORE)
    lists, messages = rows(database_url, LISTS), rows(database_url, MESSAGES)
    assert [(name, copy_of) for _, name, copy_of in lists] == [
        ("A", None),
        ("A", 11),
        ("B", None),
        ("B", 12),
        ("Own", None),
    ]
    assert [copy_of for _, copy_of in messages] == [None, 21]
    copied_a, copied_b, copied_m = lists[1][0], lists[3][0], messages[1][0]
    assert min(copied_a, copied_b, copied_m) > 0
    assert rows(database_url, FIELDS) == [(1, 11), (2, copied_a), (2, 15)]
    assert rows(database_url, CONTACTS) == [(1, 11), (1, 12), (2, copied_a), (2, copied_b), (2, 15)]
    assert rows(database_url, SENDS) == [(1, 11, 21), (2, copied_a, copied_m), (2, 15, None)]
    assert rows(database_url, COUNTS) == [(1, 11), (2, copied_a)]
    migrate.upgrade(database_url, AFTER)
    assert rows(database_url, CONTACTS) == [(1, 11), (1, 12), (2, -11), (2, -12), (2, 15)]
