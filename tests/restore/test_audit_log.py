"""A backup carries the seals of the audit log, and restoring it says whether they fit (docs/audit.md#verifying)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.maintenance.audit_seals import seal_entries
from app.settings import Settings
from tests.restore.conftest import Installation, Installer, rewritten, running
from tests.restore.test_restored import later
from tests.support.databases import BACKENDS
from tests.support.tenants import new_tenant


def act(source: Installation) -> None:
    """Acts whose entries have values of each kind."""
    tenant = new_tenant(source.app)
    account_option = "--account", tenant.name
    source.json("lists", "create", "Friends – ünïcödé", "--field", "Plan:Text Field", *account_option)
    source.json("senders", "create", "ACME", "--kind", "alphanumeric", *account_option)
    source.json("senders", "update", "ACME", "--rate", "2.5", *account_option)
    source.json("accounts", "update", tenant.name, "--rate-limit", "100/minute", "--owner-confirmed")
    source.json("suppressions", "block", "ann@example.com", *account_option)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_chain_goes_on_after_a_restore_also_into_the_other_database(
    installed: Installer, new_settings: Callable[..., Settings], file: str, backend: str
) -> None:
    source = installed(backend, migrated=True)
    act(source)
    sealed = seal_entries(source.services)
    source.json("lists", "create", "Not sealed yet", "--account", "1")
    source.json("backup", file)
    before = source.json("audit", "verify")
    assert (before["whole"], before["sealed"], before["waiting"]) == (True, sealed, 2)
    (other,) = {*BACKENDS} - {backend}
    settings = new_settings(other)
    with running(settings) as target:
        assert target.json("restore", file)["audit_breaks"] == []
    with running(later(source, settings)) as target:
        report = target.json("audit", "verify")
        assert (report["whole"], report["last_seal"], report["waiting"]) == (True, before["last_seal"], 3)
        assert seal_entries(target.services) == 3
        assert target.json("audit", "verify", "--seal", before["last_seal"])["sealed"] == sealed + 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backup_whose_log_was_changed_is_restored_and_says_so(
    installed: Installer, new_settings: Callable[..., Settings], file: str, backend: str
) -> None:
    source = installed(backend, migrated=True)
    act(source)
    seal_entries(source.services)
    source.json("backup", file)
    changed = rewritten(file, audit_entries=lambda lines: lines.replace(b"alphanumeric", b"numeric"))
    with running(new_settings(backend)) as target:
        printed = target.run("restore", changed)
    assert printed.exit_code == 0
    (told,) = (line for line in printed.stdout.splitlines() if "audit log" in line)
    assert told.startswith("the audit log of the backup was changed, first at entry ")
    assert "the entry was changed" in told
