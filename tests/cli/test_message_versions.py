"""`flask messages history`, `difference` and `restore` (docs/contacts.md#versions)."""

from __future__ import annotations

import getpass
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from app.accounts.testing import refreshed_test_account
from app.clock import timestamp
from app.db.models import Account, AuditEntry, Message, MessageVersion
from app.messages.define import create_message, update_message
from app.messages.versions import MAX_VERSIONS
from tests.cli.conftest import Cli
from tests.support.races import meanwhile
from tests.support.tenants import Tenant, unique


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """Writes a file; returns its path."""

    def to_file(text: str) -> str:
        path = tmp_path / unique("body")
        path.write_text(text, "utf-8")
        return str(path)

    return to_file


def versions(tenant: Tenant, message_id: int) -> list[MessageVersion]:
    with tenant.services.database.read() as session:
        query = select(MessageVersion).where(MessageVersion.message_id == message_id)
        return list(session.scalars(query.order_by(MessageVersion.number)))


def acts(tenant: Tenant) -> list[tuple[str, str | None]]:
    with tenant.services.database.read() as session:
        criteria = AuditEntry.account_id == tenant.id, AuditEntry.object == "message"
        query = select(AuditEntry.action, AuditEntry.via).where(*criteria).order_by(AuditEntry.id)
        return [(row.action, row.via) for row in session.execute(query)]


def test_each_change_of_a_message_is_kept_with_who_made_it(cli: Cli, tenant: Tenant, write: Any) -> None:
    made = cli.json("messages", "create", "Welcome", "--subject", "Hi", "--text", write("one\ntwo\n"))
    cli.text("messages", "update", "Welcome", "--subject", "Hello", "--text", write("one\n2\n"))
    cli.text("messages", "update", "Welcome", "--subject", "Hello")
    changed = cli.json("messages", "update", "Welcome", "--name", "Greeting", "--subject", "")
    third, second, first = cli.json("messages", "history", "Greeting")
    who = {"actor_kind": "command", "actor": getpass.getuser()}
    assert first == {
        **{"number": 1, "time": made["creation_time"], **who, "via": "messages create"},
        "changed": [],
    }
    assert (second["number"], second["via"], second["changed"]) == (2, "messages update", ["subject", "body_text"])
    assert third == {
        **{"number": 3, "time": changed["last_modified_time"], **who, "via": "messages update"},
        "changed": ["name", "subject"],
    }
    version = cli.json("messages", "history", str(made["id"]), "--version", "1")
    assert version == {
        **first,
        **{"name": "Welcome", "subject": "Hi", "body_text": "one\ntwo\n", "body_html": None},
        **dict.fromkeys(("from_name", "from_address", "reply_to", "thumbnail_url")),
    }
    lines = cli.text("messages", "history", "Greeting").splitlines()
    assert lines[0].split() == ["NUMBER", "TIME", "ACTOR", "VIA", "CHANGED"]
    assert [line.split()[0] for line in lines[1:]] == ["3", "2", "1"]
    assert lines[1].endswith("messages update  name, subject")


def test_a_difference_is_a_unified_diff_of_each_field(cli: Cli, write: Any) -> None:
    cli.text("messages", "create", "Welcome", "--subject", "Hi", "--text", write("1\n2\n3\n4\n5\n6\n7\n8\n9"))
    cli.text("messages", "update", "Welcome", "--subject", "", "--text", write("1\n2\n3\n4\nfive\n6\n7\n8\n9\n\x1b[2J"))
    cli.text("messages", "update", "Welcome", "--from-name", "Acme")
    assert cli.text("messages", "difference", "Welcome").splitlines() == [
        *("--- from_name (version 2)", "+++ from_name (version 3)", "@@ -0,0 +1,1 @@", "+Acme"),
    ]
    assert cli.text("messages", "difference", "Welcome", "--version", "2").splitlines() == [
        *("--- subject (version 1)", "+++ subject (version 2)", "@@ -1,1 +0,0 @@", "-Hi"),
        *("--- body_text (version 1)", "+++ body_text (version 2)", "@@ -2,8 +2,9 @@"),
        *(" 2", " 3", " 4", "-5", "+five", " 6", " 7", " 8", " 9", "+\\x1b[2J"),
    ]
    difference = cli.json("messages", "difference", "Welcome", "--version", "1", "--against", "3")
    assert (difference["version"], difference["against"]) == (1, 3)
    assert [(change["field"], change["before"], change["after"]) for change in difference["changed"]][:2] == [
        ("subject", None, "Hi"),
        ("from_name", "Acme", None),
    ]
    assert cli.text("messages", "difference", "Welcome", "--version", "2", "--against", "2") == "no difference\n"
    first = cli.text("messages", "difference", "Welcome", "--version", "1")
    assert first.startswith(
        "--- name (nothing)\n+++ name (version 1)\n@@ -0,0 +1,1 @@\n+Welcome\n--- subject (nothing)"
    )


def test_a_version_is_written_back_as_a_new_one(cli: Cli, tenant: Tenant, write: Any) -> None:
    made = cli.json("messages", "create", "Welcome", "--subject", "Hi", "--html", write("<p>one</p>"))
    cli.text("messages", "update", "Welcome", "--name", "Other", "--subject", "", "--html", write("<p>two</p>"))
    restored = cli.json("messages", "restore", "Other", "--version", "1")
    assert (restored["id"], restored["name"], restored["subject"]) == (made["id"], "Welcome", "Hi")
    assert cli.json("messages", "show", "Welcome")["body_html"] == "<p>one</p>"
    newest = cli.json("messages", "history", "Welcome")[0]
    assert (newest["number"], newest["via"]) == (3, "messages restore")
    assert newest["changed"] == ["name", "subject", "body_html"]
    cli.text("messages", "restore", "Welcome", "--version", "3")
    assert len(versions(tenant, made["id"])) == 3
    assert acts(tenant) == [
        ("message.created", "messages create"),
        ("message.updated", "messages update"),
        ("message.updated", "messages restore"),
    ]


def test_what_cannot_be_written_back_is_said(cli: Cli, tenant: Tenant) -> None:
    message_id = cli.json("messages", "create", "Welcome")["id"]
    cli.text("messages", "update", "Welcome", "--name", "Other")
    cli.text("messages", "create", "Welcome")
    error = "name: the account already has a message 'Welcome'"
    assert cli.refused("messages", "restore", "Other", "--version", "1") == error
    absent = "There is no version 3. The versions 1 to 2 are kept."
    for command in (("restore",), ("history",), ("difference",), ("difference", "--version", "2", "--against")):
        options = command[1:] if len(command) > 1 else ("--version",)
        assert cli.refused("messages", command[0], "Other", *options, "3") == absent
    assert "1" in cli.refused("messages", "history", "Other", "--version", "0")
    assert len(versions(tenant, message_id)) == 2


def test_what_a_message_said_before_versions_were_kept_is_the_first(cli: Cli, tenant: Tenant) -> None:
    message_id, name = tenant.add_message(name="Old", body_html="<p>old</p>"), "Old"
    (line,) = cli.json("messages", "history", name)
    assert (line["number"], line["actor"], line["via"], line["changed"]) == (1, None, None, [])
    assert cli.json("messages", "history", name, "--version", "1")["body_html"] == "<p>old</p>"
    assert versions(tenant, message_id) == []
    cli.text("messages", "update", name, "--subject", "New")
    second, first = cli.json("messages", "history", name)
    assert first == line
    assert (second["number"], second["changed"]) == (2, ["subject"])
    assert [version.body_html for version in versions(tenant, message_id)] == ["<p>old</p>"] * 2


def test_what_a_release_from_before_has_written_meanwhile_is_a_version(cli: Cli, tenant: Tenant) -> None:
    message_id = cli.json("messages", "create", "Welcome", "--subject", "one")["id"]
    with tenant.services.database.write() as transaction:
        message_update = update(Message).where(Message.id == message_id)
        later = transaction.get_one(Message, message_id).last_modified_time.replace(year=2100)
        transaction.execute(message_update.values(subject="two", last_modified_time=later))
    newest = cli.json("messages", "history", "Welcome")[0]
    assert (newest["number"], newest["actor"], newest["time"]) == (2, None, timestamp(later))
    assert "+two" in cli.text("messages", "difference", "Welcome")
    assert cli.json("messages", "restore", "Welcome", "--version", "1")["subject"] == "one"
    assert [(version.number, version.subject) for version in versions(tenant, message_id)] == [
        (1, "one"),
        (2, "two"),
        (3, "one"),
    ]


def test_of_two_changes_at_once_the_second_version_has_both(tenant: Tenant) -> None:
    message_id, database = tenant.add_message(subject="Hi", body_text="a"), tenant.services.database

    def change_body() -> None:
        with database.write() as second:
            update_message(second, second.get_one(Message, message_id), {"body_text": "b"})

    with ExitStack() as stack, database.write() as first:
        update_message(first, first.get_one(Message, message_id), {"subject": "Hello"})
        first.flush()
        stack.enter_context(meanwhile(tenant.services, change_body))
    assert [
        (version.number, version.subject, version.body_text, version.changed)
        for version in versions(tenant, message_id)
    ] == [
        *((1, "Hi", "a", []), (2, "Hello", "a", ["subject"]), (3, "Hello", "b", ["body_text"])),
    ]


def test_changes_that_cancel_each_other_in_one_transaction_are_no_version(tenant: Tenant) -> None:
    message_id, database = tenant.add_message(subject="Hi"), tenant.services.database
    with database.write() as transaction:
        message = transaction.get_one(Message, message_id)
        for subject in ("Hello", "Hi"):
            assert update_message(transaction, message, {"subject": subject})
            transaction.flush()
    assert versions(tenant, message_id) == []
    with database.write() as transaction:
        message = transaction.get_one(Message, message_id)
        update_message(transaction, message, {"subject": "Hello"})
        transaction.flush()
        transaction.delete(message)
    assert versions(tenant, message_id) == []


def test_a_message_keeps_its_newest_versions_until_it_is_deleted(cli: Cli, tenant: Tenant) -> None:
    with tenant.services.database.write() as transaction:
        message_id = create_message(transaction, tenant.id, {"name": "Welcome", "type": "sms"}).id
    for number in range(MAX_VERSIONS + 2):
        with tenant.services.database.write() as transaction:
            update_message(transaction, transaction.get_one(Message, message_id), {"body_text": str(number)})
    assert [version.number for version in versions(tenant, message_id)] == [*range(4, MAX_VERSIONS + 4)]
    absent = f"There is no version 3. The versions 4 to {MAX_VERSIONS + 3} are kept."
    assert cli.refused("messages", "history", "Welcome", "--version", "3") == absent
    cli.text("messages", "delete", "Welcome")
    assert versions(tenant, message_id) == []


def test_copies_in_the_test_account_have_no_history_of_their_own(cli: Cli, tenant: Tenant) -> None:
    message_id = cli.json("messages", "create", "Welcome", "--subject", "one")["id"]
    with tenant.services.database.write() as transaction:
        test = refreshed_test_account(transaction, transaction.get_one(Account, tenant.id))
    cli.text("messages", "update", "Welcome", "--subject", "two")
    with tenant.services.database.write() as transaction:
        refreshed_test_account(transaction, transaction.get_one(Account, tenant.id))
        update_message(transaction, transaction.get_one(Message, -message_id), {"subject": "three"})
    assert versions(tenant, -message_id) == []
    assert [version.subject for version in versions(tenant, message_id)] == ["one", "two"]
    with tenant.services.database.read() as session:
        criteria = MessageVersion.account_id == test.id
        assert session.scalars(select(MessageVersion.id).where(criteria)).all() == []
