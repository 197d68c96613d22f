"""What commands say of a relay that refuses everything of an account, and what to do about it
(docs/retries.md#a-relay-that-refuses-everything)."""

from __future__ import annotations

import re
import shlex
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select

from app.bulk_actions.run import run_due
from app.clock import now, timestamp
from app.db.models import RecipientStep, RelayRefusal
from app.maintenance.figures import read_figures
from tests.cli.conftest import Cli
from tests.support.rows import Rows
from tests.support.tenants import Tenant

REPLY = "554 5.7.1 Relay access denied"
PREFIX = "flask --app wsgi "


@pytest.fixture
def rows(tenant: Tenant) -> Rows:
    """Rows of the account."""
    return Rows(tenant.services, tenant.id)


def refuse(tenant: Tenant, transport: str = "default", **values: Any) -> int:
    """A refusal that was noticed three minutes after it had begun, five minutes ago."""
    moment = now()
    columns: dict[str, Any] = {
        **{"transport": transport, "reply": REPLY, "domains": {}, "bounced": 2, "failures": 3, "probe_id": None},
        **{"first_time": moment - timedelta(minutes=8), "last_time": moment},
        **{"noticed_time": moment - timedelta(minutes=5), "until_time": moment + timedelta(minutes=2)},
        "ended_time": None,
    }
    return tenant.add(RelayRefusal, **{**columns, **values})


def bounce(rows: Rows, address: str, minutes: int, transport: str | None = None) -> str:
    """A message that has bounced so long ago; returns its uuid."""
    (recipient_id,) = rows.add_send([address], accepted=now() - timedelta(minutes=minutes + 1))
    rows.change([recipient_id], state="bounced", reason=REPLY)
    time = now() - timedelta(minutes=minutes)
    rows.add(RecipientStep, recipient_id=recipient_id, time=time, step="bounced", detail=REPLY, transport=transport)
    return str(rows.recipient(recipient_id).uuid)


def next_try(tenant: Tenant, refusal: int) -> datetime:
    with tenant.services.database.read() as session:
        return session.scalars(select(RelayRefusal.until_time).where(RelayRefusal.id == refusal)).one() or now()


def commands_in(text: str) -> list[list[str]]:
    return [shlex.split(command.removeprefix(PREFIX)) for command in re.findall(r"`(flask [^`]+)`", text)]


def line_about(tenant: Tenant, text: str) -> str:
    (line,) = (line_of_status for line_of_status in text.splitlines() if f"of {tenant.name}" in line_of_status)
    return line


def test_status_says_it_with_the_answer_and_with_the_commands(bare: Cli, rows: Rows, tenant: Tenant) -> None:
    """Which list the messages that have bounced before it was noticed, and send them again together."""
    refuse(tenant)
    before = [bounce(rows, "ann@a.example", 8), bounce(rows, "bob@b.example", 7)]
    bounce(rows, "eve@a.example", 20)
    bounce(rows, "eve@b.example", 7, "other")
    line = line_about(tenant, bare.text("status"))
    begin = re.escape(f"! the transport default has refused all messages of {tenant.name} since ")
    assert re.match(rf"{begin}\S+Z, with: {REPLY}\. Its messages wait, no address is blocked, ", line), line
    assert "2 messages bounced before this was noticed" in line
    assert "(TmsRelayRefuses)" in line
    listing, retrying = commands_in(line)
    assert sorted(message["uuid"] for message in bare.json(*listing)) == sorted(before)
    assert bare.text(*retrying, "--dry-run").startswith("2 messages of ")
    assert bare.run("status", "--check").exit_code == 1


def test_status_has_it_as_json(bare: Cli, tenant: Tenant) -> None:
    before = bare.json("status")["relays_refusing"]
    refuse(tenant, bounced=0)
    status = bare.json("status")
    assert status["relays_refusing"] == before + 1
    (refusal,) = [refusal for refusal in status["refusals"] if refusal["account"] == tenant.name]
    assert (refusal["transport"], refusal["reply"], refusal["ended_time"]) == ("default", REPLY, None)
    assert f"has refused all messages of {tenant.name}" in refusal["words"]
    assert "retry" not in refusal["words"], "nothing has bounced"


def test_after_its_end_status_names_the_messages_until_they_are_sent_again(
    bare: Cli, rows: Rows, tenant: Tenant
) -> None:
    refuse(tenant, ended_time=now() - timedelta(minutes=1))
    assert tenant.name not in bare.text("status")
    bounced = bounce(rows, "ann@a.example", 7)
    line = line_about(tenant, bare.text("status"))
    assert line.startswith(f"- the transport default refused all messages of {tenant.name} from ")
    listing, _ = commands_in(line)
    assert [message["uuid"] for message in bare.json(*listing)] == [bounced]
    bare.text("sends", "retry", bounced)
    assert tenant.name not in bare.text("status")


def test_the_messages_are_sent_again_together(bare: Cli, rows: Rows, tenant: Tenant) -> None:
    """The next try of the relay is due at once."""
    refusal = refuse(tenant)
    uuids = [bounce(rows, "ann@a.example", 8), bounce(rows, "bob@b.example", 7)]
    _, retrying = commands_in(line_about(tenant, bare.text("status")))
    action = bare.json(*retrying, "--yes")
    assert action["messages"] == 2
    tenant.make_bulk_actions_due()
    run_due(tenant.services, time_slice=60)
    assert {message["state"] for message in bare.json("sends", "list", "--account", tenant.name)} == {"queued"}
    assert len(uuids) == bare.json("sends", "bulk-actions", "show", str(action["id"]), "--account", tenant.name)["done"]
    assert next_try(tenant, refusal) <= now()


def test_a_retry_or_another_url_makes_the_next_try_due(bare: Cli, rows: Rows, tenant: Tenant) -> None:
    refusal, named = refuse(tenant), refuse(tenant, name := f"t{tenant.id}")
    bare.text("transports", "create", name, "--type", "email", "--url", "smtp://127.0.0.1")
    try:
        bare.text("transports", "update", name, "--url", "smtp://127.0.0.1:26")
        assert (next_try(tenant, refusal) > now(), next_try(tenant, named) > now()) == (True, False)
    finally:
        bare.text("transports", "delete", name)
    bare.text("sends", "retry", bounce(rows, "ann@a.example", 8))
    assert next_try(tenant, refusal) <= now()


def test_explain_says_it_of_a_message_that_waits(bare: Cli, rows: Rows, tenant: Tenant) -> None:
    refusal = refuse(tenant)
    (recipient_id,) = rows.add_send(["ann@a.example"], from_address=f"hello@{tenant.domain}")
    explained = bare.json("sends", "explain", rows.recipient(recipient_id).uuid)
    texts = [finding["text"] for finding in explained["findings"]]
    (said,) = [text for text in texts if text.startswith("The transport default has refused all messages of")]
    assert f"the next attempt is at {timestamp(next_try(tenant, refusal))}" in said
    commands = [command for finding in explained["findings"] for command in finding["commands"]]
    assert any("sends retry state=bounced" in command for command in commands)


def test_explain_says_nothing_of_it_to_a_text_message(bare: Cli, rows: Rows, tenant: Tenant) -> None:
    refuse(tenant)
    (recipient_id,) = rows.add_send(["61411111111"], type="sms")
    explained = bare.json("sends", "explain", rows.recipient(recipient_id).uuid)
    assert not [finding for finding in explained["findings"] if "refused everything" in finding["text"]]


def test_the_metric_counts_accounts_by_transport_and_answer(tenant: Tenant, other_tenant: Tenant) -> None:
    """The metric counts refusals that were noticed and have not ended."""
    name = f"t{tenant.id}"
    refuse(tenant, name)
    refuse(other_tenant, name)
    refuse(tenant, f"{name}b", noticed_time=None, until_time=None)
    refuse(tenant, f"{name}c", ended_time=now())
    with tenant.services.database.read() as session:
        refused_accounts = read_figures(session, tenant.services.settings)["tms_relay_refused_accounts"]
    assert {key: number for key, number in refused_accounts.items() if key[0].startswith(name)} == {(name, REPLY): 2.0}
