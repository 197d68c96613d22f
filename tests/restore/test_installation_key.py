"""The key of the installation through its first start, rotations, restores and losses
(docs/secrets.md#one-key-for-all-hosts)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.infrastructure.installation_key import (
    ForeignSecretKey,
    check_secret_key,
    record_key,
    recorded_fingerprint,
)
from app.secret_keys import fingerprint, short_fingerprint
from app.settings import Settings
from tests.restore.conftest import Installation, Installer, running
from tests.support.databases import BACKENDS
from tests.support.tenants import new_tenant

OLD, NEW = "the key of before with 32 characters or more", "the key from now on with 32 characters or more"
OTHER = "a key of another host with 32 characters or more"


def starts(installation: Installation, *keys: str) -> bool:
    """Whether a process with SECRET_KEY and these fallbacks starts."""
    try:
        check_secret_key(installation.services.database, keys)
    except ForeignSecretKey:
        return False
    return True


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_first_process_records_its_key_and_others_need_it(installed: Installer, backend: str) -> None:
    """As SECRET_KEY or as a fallback: whoever has the key may introduce another one. An installation that was upgraded
    has recorded none either."""
    installation = installed(backend, migrated=True, SECRET_KEY=OLD)
    assert recorded_fingerprint(installation.services.database) is None
    assert starts(installation, OLD, NEW)
    assert recorded_fingerprint(installation.services.database) == fingerprint(OLD)
    cases = [(OLD,), (OLD, NEW), (NEW, OLD), (NEW,), (OTHER,), (OTHER, NEW)]
    assert [starts(installation, *keys) for keys in cases] == [True, True, True, False, False, False]


def test_a_process_that_was_second_needs_the_key_of_the_first(
    installed: Installer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have seen that none was recorded."""
    installation = installed("sqlite", migrated=True, SECRET_KEY=OLD)
    database, seen = installation.services.database, iter([None, fingerprint(NEW)])
    record_key(database, NEW)
    monkeypatch.setattr("app.infrastructure.installation_key.recorded_fingerprint", lambda _: next(seen))
    assert not starts(installation, OLD)


def test_after_a_rotation_the_new_key_is_needed(installed: Installer, new_settings: Callable[..., Settings]) -> None:
    first = installed("sqlite", migrated=True, SECRET_KEY=OLD)
    assert starts(first, OLD)
    url = {"DATABASE_URL": first.settings.database_url}
    with running(new_settings("sqlite", **url, SECRET_KEY=NEW, SECRET_KEY_FALLBACKS=OLD)) as second:
        refused = second.refused("secrets", "retire", short_fingerprint(OLD), "--yes")
        assert f"{short_fingerprint(OLD)} is the key of the installation" in refused
        second.json("secrets", "rotate")
        cases = [(NEW,), (NEW, OLD), (OLD, NEW), (OLD,)]
        assert [starts(second, *keys) for keys in cases] == [True, True, True, False]
        second.json("secrets", "retire", short_fingerprint(OLD), "--yes")
    with running(new_settings("sqlite", **url, SECRET_KEY=OTHER)) as foreign:
        assert "is not the installation's key" in foreign.refused("secrets", "rotate")
        assert recorded_fingerprint(foreign.services.database) == fingerprint(NEW)


def test_a_generated_key_is_rotated_with_that_of_the_installation(installed: Installer) -> None:
    installation = installed("sqlite", migrated=True)
    old = installation.settings.secret_key
    assert starts(installation, old)
    new = installation.json("secrets", "rotate")["key"]
    assert (recorded_fingerprint(installation.services.database) or "")[:8] == new != short_fingerprint(old)
    assert starts(installation, *installation.settings.secret_keys)


def test_a_key_that_is_lost_is_replaced_when_the_operator_says_so(
    installed: Installer, new_settings: Callable[..., Settings]
) -> None:
    first = installed("sqlite", migrated=True, SECRET_KEY=OLD)
    assert starts(first, OLD)
    with running(new_settings("sqlite", DATABASE_URL=first.settings.database_url, SECRET_KEY=NEW)) as second:
        asked = second.app.test_cli_runner().invoke(args=["secrets", "adopt"], input="n\n")
        assert asked.exit_code == 1
        assert f"Processes that have only the key {short_fingerprint(OLD)} do not start any more" in asked.stderr
        assert not starts(second, NEW)
        assert second.json("secrets", "adopt", "--yes") == {"key": short_fingerprint(NEW), "adopted": True}
        assert second.json("secrets", "adopt") == {"key": short_fingerprint(NEW), "adopted": False}
        assert (starts(second, NEW), starts(second, OLD)) == (True, False)
        (entry,) = second.json("audit", "list", "object=secret_key")
        assert (entry["action"], entry["object_id"]) == ("secret_key.adopted", short_fingerprint(NEW))


NEED_THE_KEY = [
    ("init", "--domain", "second.example", "--owner", "you@second.example", "--relay", "smtp://relay.example"),
    ("domains", "add", "third.example"),
    ("domains", "rotate", "first.example"),
    ("domains", "import-key", "first.example", "--selector", "s1", "--key", "{file}"),
    ("transports", "create", "another", "--type", "email", "--url", "smtp://relay.example"),
    ("transports", "update", "first", "--url", "smtp://relay.example"),
    ("webhooks", "create", "https://hooks.example.com/in"),
    ("webhooks", "rotate", "https://hooks.example.com/first"),
    ("seed", "{file}"),
    ("contacts", "create", "--list", "news", "email=ann@example.com"),
    ("contacts", "update", "--list", "news", "bob@example.com", "mobile=61491570156"),
    ("contacts", "delete", "--list", "news", "bob@example.com"),
    ("contacts", "import", "--list", "news", "{file}"),
    ("contacts", "forget", "ann@example.com", "--yes"),
    ("contacts", "export-person", "bob@example.com"),
    ("audit", "list", "--address", "bob@example.com"),
    ("inbound", "kannel-url"),
    ("inbound", "sms", "--from", "61491570156", "--to", "61491570157", "--text", "STOP"),
    ("transports", "test", "first", "--to", "bob@example.com"),
    ("suppressions", "show", "bob@example.com"),
    ("suppressions", "block", "ann@example.com"),
    ("suppressions", "unblock", "ann@example.com"),
    ("suppressions", "unsubscribe", "ann@example.com"),
    ("suppressions", "resubscribe", "ann@example.com"),
    ("backup", "{file}.zip"),
]


def test_a_command_that_encrypts_hashes_or_backs_up_needs_the_key_of_the_installation(
    installed: Installer, new_settings: Callable[..., Settings], file: str
) -> None:
    """A command line without the setting generates a key, which the processes do not have. What needs none runs, and
    a backup without a key."""
    first = installed("sqlite", migrated=True, SECRET_KEY=OLD)
    first.json("accounts", "create", "acme")
    assert recorded_fingerprint(first.services.database) is None
    first.json("domains", "add", "first.example")
    first.json("transports", "create", "first", "--type", "email", "--url", "smtp://relay.example")
    first.json("webhooks", "create", "https://hooks.example.com/first")
    first.json("lists", "create", "news")
    first.json("lists", "add-field", "news", "Email", "Email")
    first.json("contacts", "create", "--list", "news", "email=bob@example.com")
    before = first.rows("audit_entries")
    Path(file).write_text("accounts: []", "utf-8")
    with running(new_settings("sqlite", DATABASE_URL=first.settings.database_url)) as second:
        generated = short_fingerprint(second.settings.secret_key)
        refusal = f"Error: SECRET_KEY ({generated}) is not the installation's key ({short_fingerprint(OLD)}): set it to"
        for arguments in NEED_THE_KEY:
            (line,) = second.refused(*(argument.format(file=file) for argument in arguments)).splitlines()
            assert line.startswith(refusal), arguments
        piped = second.app.test_cli_runner().invoke(args=["inbound", "email"], input="Subject: hello\n\n")
        assert (piped.exit_code, piped.stderr.startswith(refusal)) == (75, True), "the mail server keeps it"
        assert [account["name"] for account in second.json("accounts", "list")] == ["acme"]
        assert not Path(f"{file}.zip").exists()
        assert first.rows("audit_entries") == before
        second.json("backup", f"{file}.zip", "--without-secret-key")
        second.json("keys", "create", "backend", "--level", "report")
        second.json("keys", "revoke", "backend")
        second.json("sends", "pause", "--account", "acme")
    url = {"DATABASE_URL": first.settings.database_url}
    with running(new_settings("sqlite", **url, SECRET_KEY=NEW, SECRET_KEY_FALLBACKS=OLD)) as third:
        third.json("domains", "add", "third.example")


LOOK_UP = [
    ("audit", "list", "--address", "bob@example.com"),
    ("suppressions", "show", "bob@example.com"),
    ("inbound", "sms", "--from", "61491570156", "--to", "61491570157", "--text", "STOP"),
]


def test_a_command_that_stores_nothing_with_its_key_does_not_record_it(installed: Installer) -> None:
    """After a restore, the pipe of a mail server may come before the first process, and with a key of its own."""
    installation = installed("sqlite", migrated=True, SECRET_KEY=OTHER)
    installation.json("accounts", "create", "acme")
    runner = installation.app.test_cli_runner()
    for arguments in LOOK_UP:
        said = runner.invoke(args=list(arguments))
        assert "SECRET_KEY" not in said.stderr, arguments
    piped = runner.invoke(args=["inbound", "email"], input="Subject: hello\n\n")
    assert (piped.exit_code, piped.stderr) == (75, "Error: no process of the service has started yet\n")
    assert recorded_fingerprint(installation.services.database) is None


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_restored_installation_has_the_key_of_its_first_process(
    installed: Installer, backend: str, file: str
) -> None:
    """Also where a process had started on the empty database before, and with another key than that of the backup."""
    first = installed("sqlite", migrated=True, SECRET_KEY=OLD)
    assert starts(first, OLD)
    new_tenant(first.app)
    assert first.run("backup", file).exit_code == 0
    target = installed(backend, migrated=True, SECRET_KEY=NEW)
    assert starts(target, OTHER)
    restored = target.run("restore", file, "--other-secret-key")
    assert restored.exit_code == 0, restored.output
    assert [starts(target, key) for key in (NEW, OLD, OTHER)] == [True, False, False]
