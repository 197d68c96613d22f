"""Revision 0072 gives suppressions an entry in the form in which addresses are compared, and takes nothing from
processes of the release before; and back again (docs/operations.md#addresses)."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text

from app.db import migrate

TIME = "2026-03-01 10:00:00.000000+00"
WRITTEN, ASCII, DECOMPOSED, OTHER = (
    *("x@bücher.example", "x@xn--bcher-kva.example", "x@bu\u0308cher.example", "x@bücher。example"),
)
ACCOUNT = (
    "INSERT INTO accounts (id, name, owner_confirmed, allowed_networks, creation_time, last_modified_time) "
    "VALUES (1, 'Acme', :yes, '[]', :time, :time)",
    "INSERT INTO lists (id, account_id, name, system, allow_duplicates, stop_words, has_automations, creation_time, "
    "last_modified_time) VALUES (11, 1, 'A', :no, :no, '[]', :no, :time, :time)",
)
CONTACT = (
    "INSERT INTO contacts (id, account_id, list_id, email, email_key, identifier, subscribed_email, "
    'subscribed_mobile, is_active, double_opt_in, "values", creation_time, last_modified_time) '
    "VALUES (:id, 1, 11, :email, :key, :identifier, :yes, :yes, :yes, :no, '{}', :time, :time)"
)
BLOCK = (
    "INSERT INTO blocked_addresses (account_id, kind, address, reason, creation_time) "
    "VALUES (1, 'email', :form, :form, :time)"
)
UNSUBSCRIBE = (
    "INSERT INTO unsubscribers (account_id, list_id, kind, address, creation_time) "
    "VALUES (1, :list, 'email', :form, :time)"
)
ENTRIES = "SELECT address, {} FROM {} ORDER BY id"


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """A database of the release before, with an account."""
    migrate.upgrade(database_url, "0071")
    made = create_engine(database_url)
    write(made, *((statement, {}) for statement in ACCOUNT))
    yield made
    made.dispose()


def write(engine: Engine, *statements: tuple[str, dict[str, Any]]) -> None:
    with engine.begin() as connection:
        for statement, values in statements:
            given = {"time": TIME, "yes": True, "no": False, **values}
            connection.execute(text(statement), {name: given[name] for name in text(statement)._bindparams})


def read(engine: Engine, statement: str) -> set[tuple[Any, ...]]:
    with engine.connect() as connection:
        return {tuple(row) for row in connection.execute(text(statement))}


def test_each_suppression_gets_an_entry_in_the_compared_form_and_keeps_its_own(
    database_url: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In slices, so that others write between them."""
    monkeypatch.setattr(importlib.import_module("app.db.migrations.versions.v0072_addresses"), "SLICE", 1)
    write(engine, *((BLOCK, {"form": form}) for form in (WRITTEN, OTHER, "ann@example.com")))
    write(
        engine, *((UNSUBSCRIBE, {"form": form, "list": list_id}) for form in (WRITTEN, ASCII) for list_id in (11, None))
    )
    migrate.upgrade(database_url, "0072", "expand")
    blocked = read(engine, ENTRIES.format("reason", "blocked_addresses"))
    assert blocked == {
        *((form, form) for form in (WRITTEN, OTHER, "ann@example.com")),
        (ASCII, WRITTEN),
    }
    entries = read(engine, ENTRIES.format("list_id", "unsubscribers"))
    assert entries == {(form, list_id) for form in (WRITTEN, ASCII) for list_id in (11, None)}


def test_code_of_the_release_before_finds_everything_after_a_downgrade(database_url: str, engine: Engine) -> None:
    migrate.upgrade(database_url, "0072")
    write(engine, (BLOCK, {"form": ASCII}), (UNSUBSCRIBE, {"form": ASCII, "list": None}))
    for number, (email, identifier) in enumerate([("X@Bücher.example", ASCII), (ASCII, ASCII.upper())], 1):
        write(engine, (CONTACT, {"id": number, "email": email, "key": ASCII, "identifier": identifier}))
    migrate.downgrade(database_url, "0071")
    for table in ("blocked_addresses", "unsubscribers"):
        found = {address for (address, _) in read(engine, ENTRIES.format("id", table))}
        assert found == {ASCII, WRITTEN, DECOMPOSED}
    stored = read(engine, "SELECT id, email_key, identifier FROM contacts")
    assert stored == {(1, WRITTEN, WRITTEN), (2, ASCII, ASCII.upper())}
    migrate.upgrade(database_url)
    assert migrate.current(database_url) == migrate.newest()
