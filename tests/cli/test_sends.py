"""`flask sends`, `groups` and `automations`: history, and retries."""

from __future__ import annotations

import csv
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click
import pytest

from app.bulk_actions.run import run_due
from app.clock import now, this_second, timestamp
from app.db.counters import count_in_group, hour_of
from app.db.models import BlockedAddress, RecipientStep
from app.distribution import COMMAND_LINE
from tests.cli.conftest import Cli
from tests.support.cases import each
from tests.support.rows import Rows
from tests.support.tenants import Tenant

TEXTS = ("type", "email", "mobile", "state", "creation_time", "sent_time")


@pytest.fixture
def rows(tenant: Tenant) -> Rows:
    """Rows of the account."""
    return Rows(tenant.services, tenant.id)


def ended(rows: Rows, state: str, reason: str | None, **counters: int) -> tuple[int, str]:
    """Adds a recipient in a final state and counts it in its group; returns its id and uuid."""
    (recipient_id,) = rows.add_send(["Ann@example.com"])
    rows.change([recipient_id], state=state, reason=reason, sent_time=this_second(), attempts=2)
    with rows.services.database.write() as transaction:
        group_id = rows.recipient(recipient_id).group_id
        count_in_group(transaction, rows.account_id, group_id, now(), None, sent=1, **counters)
    return recipient_id, rows.recipient(recipient_id).uuid


def test_recipients_are_listed_newest_first(cli: Cli, rows: Rows) -> None:
    first = rows.add_send(["a@example.com", "b@example.com"])
    second = rows.add_send(["61411111111"], type="sms")
    rows.change(first[:1], state="bounced", reason="no mailbox")
    listed = cli.json("sends", "list")
    assert [message["uuid"] for message in listed] == [
        rows.recipient(recipient_id).uuid for recipient_id in (*second, *reversed(first))
    ]
    assert (listed[0]["type"], listed[0]["mobile"], listed[0]["state"]) == ("sms", "61411111111", "queued")
    assert [message["email"] for message in cli.json("sends", "list", "--state", "bounced")] == ["a@example.com"]
    name = rows.group_of(second[0]).name
    assert [message["mobile"] for message in cli.json("sends", "list", "--group", name)] == ["61411111111"]
    assert len(cli.json("sends", "list", "--limit", "2")) == 2
    assert cli.refused("sends", "list", "--group", "none") == "the account has no group 'none'"


def test_a_recipient_is_shown_with_its_timeline(bare: Cli, tenant: Tenant, rows: Rows) -> None:
    (recipient_id,) = rows.add_send(["ann@example.com"])
    for step, detail, country in (
        ("deferred", "451 4.7.1 later", None),
        ("sent", None, None),
        ("opened", "Mail", "AU"),
    ):
        columns = {"step": step, "detail": detail, "country": country}
        tenant.add(RecipientStep, recipient_id=recipient_id, time=now(), **columns)
    uuid = rows.recipient(recipient_id).uuid
    message = bare.json("sends", "show", uuid)
    assert (message["uuid"], message["email"], message["state"]) == (uuid, "ann@example.com", "queued")
    assert bare.json("sends", "show", uuid.upper()) == message
    assert [(step["step"], step["country"], step["detail"]) for step in message["timeline"]] == [
        ("deferred", None, "451 4.7.1 later"),
        ("sent", None, None),
        ("opened", "AU", "Mail"),
    ]
    text = bare.text("sends", "show", uuid)
    assert re.search(r"deferred +- +- +451 4\.7\.1 later", text)  # over the default transport
    assert re.search(r"opened +- +AU +Mail", text)
    assert bare.refused("sends", "show", "nothing") == "there is no recipient with the uuid 'nothing'"


@each(
    ("state", "reason", "counter"),
    [
        ("bounced", "550 5.1.1 no such user", "bounced"),
        ("failed", "unsubscribed", "failed_contacts"),
        ("failed", "rejected", "failed_contacts"),
    ],
)
def test_a_retry_queues_the_recipient_again(bare: Cli, rows: Rows, state: str, reason: str, counter: str) -> None:
    recipient_id, uuid = ended(rows, state, reason, **{counter: 1})
    before = now()
    assert bare.json("sends", "retry", uuid.upper())["state"] == "queued"
    assert bare.acts(f"object_id={uuid}") == [("recipient.retried", "sends retry")]
    recipient = rows.recipient(recipient_id)
    assert (recipient.state, recipient.reason, recipient.sent_time) == ("queued", None, None)
    assert before <= recipient.due_time <= now()
    assert recipient.attempts == 2
    group = rows.group_of(recipient_id)
    assert (group.sent, group.bounced, group.failed_contacts) == (1, 0, 0)
    assert rows.steps(recipient_id) == [("requeued", f"was {state}: {reason}")]
    error = "uuid: is queued; only bounced, failed or uncertain recipients can be retried"
    assert bare.refused("sends", "retry", uuid) == error


@each("state", ["queued", "sending", "sent", "delivered"])
def test_only_a_failure_is_retried(bare: Cli, rows: Rows, state: str) -> None:
    recipient_id, uuid = ended(rows, state, None)
    error = f"uuid: is {state}; only bounced, failed or uncertain recipients can be retried"
    assert bare.refused("sends", "retry", uuid) == error
    assert rows.recipient(recipient_id).state == state


@pytest.mark.parametrize("reason", ["invalid_contact_id", "contact_deleted"])
def test_a_retry_without_effect_is_refused(bare: Cli, rows: Rows, reason: str) -> None:
    _, uuid = ended(rows, "failed", reason, failed_contacts=1)
    assert bare.refused("sends", "retry", uuid) == f"uuid: failed with {reason}; a retry cannot help"


def test_a_blocked_address_must_be_unblocked_before_a_retry(bare: Cli, cli: Cli, tenant: Tenant, rows: Rows) -> None:
    _, uuid = ended(rows, "bounced", "no mailbox", bounced=1)
    tenant.add(
        BlockedAddress, kind="email", address="ann@example.com", reason="permanent bounce", creation_time=this_second()
    )
    assert bare.refused("sends", "retry", uuid) == "uuid: ann@example.com is blocked; unblock it first"
    cli.text("suppressions", "unblock", "ann@example.com")
    assert bare.json("sends", "retry", uuid)["state"] == "queued"


def test_a_message_that_has_not_left_is_cancelled(bare: Cli, rows: Rows) -> None:
    ids = rows.add_send(["ann@example.com"])
    rows.schedule(ids, this_second() + timedelta(days=1))
    uuid = rows.recipient(ids[0]).uuid
    cancelled = bare.json("sends", "cancel", uuid.upper())
    assert (cancelled["state"], cancelled["reason"]) == ("failed", "cancelled")
    assert bare.json("sends", "cancel", uuid) == cancelled
    assert bare.acts(f"object_id={uuid}") == [("recipient.cancelled", "sends cancel")]
    assert bare.refused("sends", "retry", uuid) == "uuid: it was cancelled"


def test_a_message_that_has_left_is_not_cancelled(bare: Cli, rows: Rows) -> None:
    _, uuid = ended(rows, "delivered", None)
    assert bare.refused("sends", "cancel", uuid) == "The message cannot be cancelled: it has been delivered."
    assert bare.refused("sends", "cancel", uuid, "--dry-run") == (
        "--dry-run counts what filters match, such as state=scheduled"
    )


def test_all_that_filters_match_is_cancelled_as_a_bulk_action(cli: Cli, tenant: Tenant, rows: Rows) -> None:
    scheduled, queued = rows.add_send(["a@example.com", "b@example.com"]), rows.add_send(["c@example.com"])
    rows.schedule(scheduled, this_second() + timedelta(days=1))
    said = cli.text("sends", "cancel", "state=scheduled", "--yes")
    assert said.startswith("2 messages will be cancelled, starting in 30 seconds;")
    tenant.make_bulk_actions_due()
    run_due(tenant.services)
    assert rows.states([*scheduled, *queued]) == ["failed", "failed", "queued"]
    assert rows.recipient(scheduled[0]).reason == "cancelled"


def test_groups_are_shown_as_reports(cli: Cli, rows: Rows) -> None:
    recipient_id, _ = ended(rows, "delivered", None, delivered=1, opened=1)
    group = rows.group_of(recipient_id)
    report = cli.json("groups", "show", group.name)
    counters = {name: value for name, value in report.items() if isinstance(value, int) and name != "id"}
    assert counters == {
        **{"sent": 1, "failed_contacts": 0, "bounced": 0, "delivered": 1},
        **{"opened": 1, "clicked": 0, "unsubscribed": 0},
    }
    other = rows.add_group("sms")
    assert [group["id"] for group in cli.json("groups", "list")] == [other, group.id]
    assert cli.json("groups", "list")[1] == report
    assert cli.json("groups", "show", str(group.id)) == report


def hours_shown(cli: Cli, *arguments: str) -> dict[str, dict[str, int]]:
    """The hours or days of `groups stats` with their counters, without zeros."""
    counts_by_hour = {}
    for row in cli.json("groups", "stats", *arguments):
        counts = {name: count for name, count in row.items() if isinstance(count, int) and count}
        if counts:
            counts_by_hour[row.get("hour") or row["day"]] = counts
    return counts_by_hour


def test_counts_of_the_last_hours_and_days_are_shown(
    cli: Cli, tenant: Tenant, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = rows.add_group(), rows.add_group()
    moment = now()
    monkeypatch.setattr("app.cli.groups.now", lambda: moment)
    this_hour = hour_of(moment)
    with rows.services.database.write() as transaction:
        count_in_group(transaction, tenant.id, first, this_hour, sent=2, delivered=1)
        count_in_group(transaction, tenant.id, second, this_hour - timedelta(hours=23), sent=3, failed_contacts=1)
        count_in_group(transaction, tenant.id, first, this_hour - timedelta(hours=24), bounced=4)
    newest, oldest = timestamp(this_hour), timestamp(this_hour - timedelta(hours=23))
    assert [row["hour"] for row in cli.json("groups", "stats")][::23] == [oldest, newest]
    assert hours_shown(cli) == {oldest: {"sent": 3, "failed_contacts": 1}, newest: {"sent": 2, "delivered": 1}}
    assert hours_shown(cli, str(first)) == {newest: {"sent": 2, "delivered": 1}}
    before = timestamp(this_hour - timedelta(hours=24))
    assert hours_shown(cli, str(first), "--last", "25") == {before: {"bounced": 4}, newest: {"sent": 2, "delivered": 1}}
    assert "FAILED CONTACTS" in cli.text("groups", "stats")
    assert cli.refused("groups", "stats", "none") == "the account has no group 'none'"
    error = "--last: counts are kept for 30 days (RETAIN_LOGS)"
    assert cli.refused("groups", "stats", "--last", "721") == error
    assert cli.refused("groups", "stats", "--by", "day", "--last", "31") == error


def test_days_are_those_of_the_account(
    cli: Cli, bare: Cli, tenant: Tenant, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = now()
    monkeypatch.setattr("app.cli.groups.now", lambda: moment)
    bare.text("accounts", "update", tenant.name, "--time-zone", "Pacific/Kiritimati")
    here = moment.astimezone(ZoneInfo("Pacific/Kiritimati"))
    midnight = here.replace(hour=0, minute=0, second=0, microsecond=0)
    group_id = rows.add_group()
    with rows.services.database.write() as transaction:
        for hours, count in ((0, 1), (-1, 2), (-24, 4), (-25, 8)):
            counted = (midnight + timedelta(hours=hours)).astimezone(UTC)
            count_in_group(transaction, tenant.id, group_id, counted, sent=count)
    today, yesterday = here.date().isoformat(), (here - timedelta(days=1)).date().isoformat()
    assert hours_shown(cli, "--by", "day", "--last", "2") == {yesterday: {"sent": 6}, today: {"sent": 1}}


def test_a_retry_is_taken_out_of_the_hour_of_the_failure(bare: Cli, cli: Cli, tenant: Tenant, rows: Rows) -> None:
    recipient_id, uuid = ended(rows, "bounced", "no mailbox", bounced=1)
    before = now()
    failed = before - timedelta(hours=5)
    tenant.add(RecipientStep, recipient_id=recipient_id, time=failed, step="bounced", detail=None)
    bare.json("sends", "retry", uuid)
    counts_by_hour = hours_shown(cli)
    bounced_by_hour = {hour: counts["bounced"] for hour, counts in counts_by_hour.items()}
    assert bounced_by_hour in [{timestamp(hour_of(failed)): -1, timestamp(hour_of(end)): 1} for end in (before, now())]


def test_firings_are_shown_under_both_names(cli: Cli, tenant: Tenant, customers: int) -> None:
    contact: dict[str, Any] = tenant.new_contact(customers, email="ann@example.com")
    tenant.api.patch(f"/v1/lists/{customers}/contacts/{contact['id']}", {"first_name": "Ann"})
    firings = cli.json("automations", "firings")
    assert [(firing["contact_id"], firing["standard_trigger"], firing["advanced_trigger"]) for firing in firings] == [
        (contact["id"], "When a Contact is updated from the REST API", "REST API Contact Updated"),
        (contact["id"], "When a Contact is created from the REST API", "REST API Contact Created"),
    ]
    assert len(cli.json("automations", "firings", "--limit", "1")) == 1


def test_recipients_are_exported(cli: Cli, tenant: Tenant, other_tenant: Tenant, rows: Rows, tmp_path: Path) -> None:
    first = rows.add_send(["a@example.com", "b@example.com"])
    second = rows.add_send(["61411111111"], type="sms")
    rows.change(first[:1], state="bounced", reason="=no mailbox", sent_time=this_second())
    Rows(tenant.services, other_tenant.id).add_send(["other@example.com"])
    file = tmp_path / "sends.csv"
    assert cli.text("sends", "export", str(file)) == f"3 exported to {file}\n"
    with file.open(newline="") as source:
        exported = list(csv.DictReader(source))
    listed = {message["uuid"]: message for message in cli.json("sends", "list")}
    assert [row["uuid"] for row in exported] == [
        rows.recipient(recipient_id).uuid for recipient_id in (*first, *second)
    ]
    assert exported[0]["reason"] == "'=no mailbox"
    for row in exported:
        message = listed[row["uuid"]]
        assert [row[name] or None for name in TEXTS] == [message[name] for name in TEXTS]
    bounced = cli.run("sends", "export", "-", "--state", "bounced").stdout
    assert bounced.count("\n") == 2


def test_filters_choose_what_is_exported(cli: Cli, rows: Rows) -> None:
    first, second = rows.add_send(["a@example.com", "b@example.com"]), rows.add_send(["c@example.com"])
    rows.change([first[0], second[0]], state="failed", reason="expired")
    group = str(rows.recipient(first[0]).group_id)

    def exported(*arguments: str) -> list[str]:
        return [line.split('","')[2] for line in cli.run("sends", "export", "-", *arguments).stdout.splitlines()[1:]]

    assert exported("state=failed") == ["a@example.com", "c@example.com"]
    assert exported("state=failed", f"group_id={group}") == exported("state=failed", "--group", group)
    assert exported(f"group_id={group}", "--state", "queued") == ["b@example.com"]
    assert exported("state=failed", "--state", "queued") == []
    refused = cli.refused("sends", "export", "-", "colour=red")
    assert refused.startswith("colour is not a query parameter of recipient")
    assert cli.refused("sends", "export", "-", "limit=5") == "limit is not available here."


def test_all_that_match_filters_are_retried_as_a_bulk_action(cli: Cli, bare: Cli, tenant: Tenant, rows: Rows) -> None:
    ids = [ended(rows, "failed", "expired", failed_contacts=1)[0] for _ in range(2)]
    blocked, _ = ended(rows, "bounced", "550 no", bounced=1)
    rows.change([blocked], email="dead@example.com")
    tenant.add(
        BlockedAddress, kind="email", address="dead@example.com", reason="permanent bounce", creation_time=this_second()
    )
    retry = ("sends", "retry", "state:in=failed,bounced")
    left_out = "1 left out: the address is blocked"
    assert cli.text(*retry, "--dry-run") == f"2 of 3 messages of {tenant.name} would be retried\n{left_out}\n"
    preview = cli.json(*retry, "--dry-run")
    assert datetime.fromisoformat(preview.pop("time")) <= now()
    assert preview == {"messages": 3, "done": 2, "left_out": {"blocked": 1}, "not_looked_at": 0}
    stopped = cli.run(*retry, input="n\n")
    assert f"{left_out}\nRetry 2 of 3 messages of {tenant.name}? [y/N]" in stopped.stderr
    account = ("--account", tenant.name)
    assert bare.json("sends", "bulk-actions", "list", *account) == []
    asked = cli.json(*retry, "--yes")
    assert (asked["state"], asked["messages"], asked["query"]) == ("waiting", 3, "state:in=failed,bounced")
    number = str(asked["id"])
    assert [action["id"] for action in bare.json("sends", "bulk-actions", "list", "--state", "waiting", *account)] == [
        asked["id"]
    ]
    assert bare.json("sends", "bulk-actions", "cancel", number, *account)["state"] == "cancelled"
    refused = f"The bulk action {number} has ended: it is cancelled."
    assert bare.refused("sends", "bulk-actions", "cancel", number, *account) == refused
    said = cli.text(*retry, "--yes")
    assert said.startswith("2 of 3 messages will be retried, starting in 30 seconds; `")
    assert f"`{COMMAND_LINE} sends bulk-actions cancel " in said
    tenant.make_bulk_actions_due()
    run_due(tenant.services, time_slice=60)
    (done, _) = bare.json("sends", "bulk-actions", "list", *account)
    assert (done["state"], done["done"], done["left_out"]) == ("done", 2, {"blocked": 1})
    assert "1 blocked" in bare.text("sends", "bulk-actions", "show", str(done["id"]), *account)
    assert rows.states([*ids, blocked]) == ["queued", "queued", "bounced"]
    acts = [
        bare.acts(*account, "object=bulk_action", f"object_id={action_id}") for action_id in (asked["id"], done["id"])
    ]
    assert acts == [
        [("bulk_action.asked", "sends retry"), ("bulk_action.cancelled", "sends bulk-actions cancel")],
        [("bulk_action.asked", "sends retry"), ("bulk_action.ended", None)],
    ]


@each("is_more", [True, False])
def test_an_answer_that_comes_late_is_asked_for_again_if_the_numbers_changed(
    cli: Cli, rows: Rows, monkeypatch: pytest.MonkeyPatch, is_more: bool
) -> None:
    ended(rows, "failed", "expired", failed_contacts=1)
    for module in ("app.cli.bulk_actions", "app.bulk_actions.preview"):
        monkeypatch.setattr(f"{module}.VALID_FOR", timedelta(0))
    confirm, asked = click.confirm, list[str]()

    def answered(text: str, **options: Any) -> bool:
        asked.append(text.partition(" of ")[0])
        if len(asked) == 1 and is_more:
            ended(rows, "failed", "expired", failed_contacts=1)
        return confirm(text, **options)

    monkeypatch.setattr(click, "confirm", answered)
    result = cli.run("sends", "retry", "state=failed", input="y\nn\n")
    assert len(asked) == 1 + is_more
    assert ("have changed since the question was asked" in result.stderr) == is_more
    assert result.exit_code == int(is_more)


def test_a_bulk_retry_that_is_refused_is_one_line(cli: Cli, bare: Cli, other_tenant: Tenant, rows: Rows) -> None:
    ended(rows, "failed", "expired", failed_contacts=1)
    assert cli.refused("sends", "retry", "state=delivered", "--yes") == "No matching message can be retried."
    said = "email: a bulk action cannot select a single address; retry its messages one by one."
    assert cli.refused("sends", "retry", "email=ann@example.com") == said
    said = "--dry-run counts what filters match, such as state=failed"
    assert cli.refused("sends", "retry", "0b7c6a35-3c7f-4e0b-9f6e-8a4b5f3f2a10", "--dry-run") == said
    number = str(cli.json("sends", "retry", "state=failed", "--yes")["id"])
    for action in ("show", "cancel"):
        arguments = ("sends", "bulk-actions", action, number, "--account", other_tenant.name)
        assert bare.refused(*arguments) == f"There is no bulk action {number}."
