"""`flask inbound email`: exit codes for pipes (docs/commands/transports.md#inbound)."""

from __future__ import annotations

import json

import pytest
from click.testing import Result
from sqlalchemy.exc import OperationalError

from app.cli import inbound
from app.infrastructure.installation_key import check_secret_key
from app.tracking.tokens import return_path
from tests.cli.conftest import Cli
from tests.support.cases import each
from tests.support.mail_reports import delivery_failure, plain
from tests.support.rows import FROM, Rows
from tests.support.tenants import Tenant


@pytest.fixture(autouse=True)
def _started(tenant: Tenant) -> None:
    """A process has started, and recorded its key."""
    check_secret_key(tenant.services.database, tenant.services.settings.secret_keys)


@pytest.fixture
def rows(tenant: Tenant) -> Rows:
    """Rows of the account."""
    return Rows(tenant.services, tenant.id)


@pytest.fixture
def recipient_id(rows: Rows) -> int:
    """A delivered mail."""
    (made,) = rows.add_send(["ann@example.com"])
    rows.change([made], state="delivered", attempts=1)
    return made


def pipe(bare: Cli, raw: bytes, *options: str) -> Result:
    return bare.run("inbound", "email", "--json", *options, input=raw)


def test_a_report_is_accepted(bare: Cli, tenant: Tenant, rows: Rows, recipient_id: int) -> None:
    to = return_path(tenant.services.settings, recipient_id, FROM)
    report = delivery_failure(to, "ann@example.com")
    for effect in ("recorded", "known"):
        result = pipe(bare, report)
        assert (result.exit_code, json.loads(result.stdout)) == (0, {"kind": "failed", "effect": effect})
    assert rows.recipient(recipient_id).state == "bounced"


def test_the_envelope_recipient_may_be_an_argument(bare: Cli, tenant: Tenant, rows: Rows, recipient_id: int) -> None:
    report = delivery_failure("undisclosed@elsewhere.example", "ann@example.com")
    assert pipe(bare, report).exit_code == 0
    assert rows.recipient(recipient_id).state == "delivered"
    to = return_path(tenant.services.settings, recipient_id, FROM)
    assert json.loads(pipe(bare, report, "--to", to).stdout) == {"kind": "failed", "effect": "recorded"}
    assert rows.recipient(recipient_id).state == "bounced"


@each(
    "raw",
    [
        *(b"", b"\0\xff\n", plain("hello@acme.example")),
        *(b"To: " + sign * 100_000 for sign in (b"<", b"(", b"[", b'"', b",", b"a@", b"=?")),
        *(name + b": " + b"(" * 9000 for name in (b"From", b"Subject", b"Content-Type", b"Message-ID", b"Return-Path")),
    ],
)
def test_mail_without_meaning_ends_with_success(bare: Cli, raw: bytes) -> None:
    """The mail server would answer a report with a bounce if the command failed."""
    result = pipe(bare, raw)
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"kind": "ordinary", "effect": "ignored"})
    assert "Traceback" not in result.stderr


def test_mail_to_a_forged_address_is_not_parsed(bare: Cli, tenant: Tenant, recipient_id: int) -> None:
    """Parsing costs time, and a forged address belongs to no recipient."""
    forged = return_path(tenant.services.settings, recipient_id, FROM).replace("+", "+a")
    result = pipe(bare, delivery_failure("hello@acme.example", "ann@example.com"), "--to", forged)
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"kind": "automatic", "effect": "ignored"})


def test_a_failing_database_asks_for_a_retry(bare: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OperationalError("SELECT 1", {}, Exception("no connection"))

    monkeypatch.setattr(inbound, "receive_email", fail)
    result = pipe(bare, plain("hello@acme.example"))
    assert (result.exit_code, result.stderr) == (75, "Error: the database cannot be used: no connection\n")


def test_a_report_about_a_message_in_flight_asks_for_a_retry(
    bare: Cli, tenant: Tenant, rows: Rows, recipient_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbound, "PATIENCE", 0.0)
    rows.change([recipient_id], state="sending")
    to = return_path(tenant.services.settings, recipient_id, FROM)
    result = pipe(bare, delivery_failure(to, "ann@example.com"))
    assert (result.exit_code, result.stderr) == (75, "Error: the reported message is still being sent\n")
