"""What all commands share: naming an account, printing, failing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime

import pytest

from app import create_app
from app.cli.base import given_options, print_row, print_rows
from app.settings import Settings, from_environment
from app.tms import tms
from tests.cli.conftest import Cli
from tests.support.apps import app_with
from tests.support.cases import each
from tests.support.commands import commands_of
from tests.support.prepared import migrated_file
from tests.support.rows import Rows
from tests.support.servers import migrated_database, short_folder
from tests.support.tenants import Tenant, new_email, new_mobile, new_tenant


def test_an_account_is_named_by_its_name_or_id(bare: Cli, tenant: Tenant) -> None:
    by_name = bare.json("keys", "list", "--account", tenant.name)
    assert len(by_name) == 4
    assert bare.json("keys", "list", "--account", str(tenant.id)) == by_name


ACCOUNT_NOUNS = (
    "keys",
    "domains",
    "senders",
    "lists",
    "contacts",
    "messages",
    "webhooks",
    "groups",
    "suppressions",
    "sends",
)
"""Nouns whose rows belong to an account."""


@pytest.fixture
def two(settings: Settings, request: pytest.FixtureRequest) -> Iterator[tuple[Tenant, Tenant]]:
    """All accounts of a database: that of the suite has hundreds."""
    with ExitStack() as stack:
        if settings.database_url.startswith("sqlite"):
            url = migrated_file(stack.enter_context(short_folder()) / "tms.sqlite3")
        else:
            url = stack.enter_context(migrated_database(request.getfixturevalue("postgres")))
        app = stack.enter_context(app_with(settings, database_url=url))
        yield new_tenant(app), new_tenant(app)


def test_lists_without_an_account_show_all_accounts(two: tuple[Tenant, Tenant]) -> None:
    for account in two:
        row_of_each_noun(account)
    bare = Cli(two[0].app)
    for noun in ACCOUNT_NOUNS:
        rows_of_all = bare.json(noun, "list")
        for account in two:
            account_rows = bare.json(noun, "list", "--account", account.name)
            assert account_rows, noun
            assert [row for row in rows_of_all if row["account"] == account.name] == [
                {"account": account.name, **row} for row in account_rows
            ]


def test_a_table_of_all_accounts_shows_their_names(bare: Cli, tenant: Tenant, other_tenant: Tenant) -> None:
    for account in (tenant, other_tenant):
        account.add_sender(new_mobile())
    table = bare.text("senders", "list")
    assert tenant.name in table
    assert other_tenant.name in table


def row_of_each_noun(tenant: Tenant) -> None:
    """Gives the account a row of each noun; it already has keys and domains."""
    rows = Rows(tenant.services, tenant.id)
    tenant.add_sender(new_mobile())
    tenant.add_message()
    tenant.new_contact(tenant.add_list(), email=new_email(), subscribed={"email": False})
    rows.add_webhook()
    rows.add_send([new_email()])


def test_the_only_account_need_not_be_named() -> None:
    with short_folder() as folder:
        app = create_app(from_environment({"DATA_DIR": str(folder), "LOG_FORMAT": "json"}))
        lonely = Cli(app)
        lonely.text("db", "upgrade")
        assert lonely.refused("keys", "revoke", "k") == "there is no account yet"
        assert lonely.text("keys", "list") == "none\n"
        lonely.text("accounts", "create", "Acme")
        assert lonely.json("keys", "create", "backend", "--level", "report")["name"] == "backend"


def test_an_unusable_database_is_reported_in_one_line_with_exit_code_1() -> None:
    with short_folder() as folder:
        result = Cli(create_app(from_environment({"DATA_DIR": str(folder), "LOG_FORMAT": "json"}))).run("keys", "list")
        expected = f"using the database sqlite:///{folder}/tms.sqlite3, which was never migrated\n"
    assert result.exit_code == 1
    assert result.stderr == expected + "Error: the database cannot be used: no such table: accounts\n"


@each(
    ("arguments", "error"),
    [
        (["keys", "frobnicate"], "No such command 'frobnicate'."),
        (["keys", "create"], "Missing argument 'NAME'."),
        (["keys", "create", "k", "--level", "root"], "Invalid value for '--level': 'root' is not one of"),
        (["keys", "list", "--frob"], "No such option '--frob'."),
        (["groups", "list", "--limit", "0"], "Invalid value for '--limit': 0 is less than 1."),
        (["seed", "/no/such/file"], "Invalid value for 'FILE': File '/no/such/file' does not exist."),
        (["groups", "list", "--limit", "few"], "Invalid value for '--limit': 'few' is not a whole number."),
        (["senders", "update", "a", "--rate", "few"], "Invalid value for '--rate': 'few' is not a number."),
        (
            ["accounts", "update", "a", "--track-opens", "x"],
            "Invalid value for '--track-opens': 'x' is neither on nor off.",
        ),
        (["contacts", "show", "1"], "Missing option '--list'."),
        (["keys", "create", "k"], "Missing option '--level': it is one of report, limited, standard, manager."),
        (["backup"], "Missing argument 'FILE' or 'FOLDER'."),
        (["contacts", "update", "--list", "1"], "Missing argument 'CONTACT'."),
        (["sends", "retry"], "Missing argument 'UUID' or 'FILTER'."),
    ],
)
def test_an_invalid_argument_is_reported_in_one_line(bare: Cli, arguments: list[str], error: str) -> None:
    assert bare.refused(*arguments).startswith(error)


def test_no_command_asks_for_what_is_missing_in_the_notation_of_its_usage(bare: Cli) -> None:
    """One line, which ends as a sentence and has no bars, brackets, dots or indented choices."""
    required = {
        words: command for words, command in commands_of(tms) if any(param.required for param in command.params)
    }
    lines = {words: bare.refused(*words) for words in required}
    assert {words: line for words, line in lines.items() if re.search(r"[|\[\]\\]|\.\.|[^.]$", line)} == {}


def test_lists_of_commands_show_whole_sentences(bare: Cli) -> None:
    for words in ([], ["sends"], ["holds", "release"]):
        assert "..." not in bare.text(*words, "--help").partition("Commands:")[2]


def test_tables_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    print_rows([{"id": 7, "last_name": "Lee", "ok": True}, {"id": 1234, "last_name": None, "ok": False}], False)
    print_row({"at": moment, "words": ["a", "b"], "none": [], "body": "one\ntwo"}, False, texts=["body"])
    print_rows([], False)
    assert capsys.readouterr().out == (
        "ID    LAST NAME  OK\n7     Lee        yes\n1234  -          no\n"
        "at:    2026-01-02T03:04:05Z\nwords: a, b\nnone:  -\nbody:  \none\ntwo\nnone\n"
    )


def test_an_empty_text_clears_and_an_absent_option_does_nothing() -> None:
    assert given_options(a="x", b="", c=None, d=False) == {"a": "x", "b": None, "d": False}
