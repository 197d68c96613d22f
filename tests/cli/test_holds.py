"""What is held after a restore, as operators and clients see it, and what ends it
(docs/restore.md#what-a-restore-holds)."""

from __future__ import annotations

import json
import shlex
from datetime import timedelta
from typing import Any

import click
import pytest
from sqlalchemy import select

from app.clock import now, this_second
from app.db.models import AutomationRun, AutomationVersion, Event, RecipientStep, Webhook
from app.events.batches import has_due
from app.inbound.effect import Effect
from app.inbound.email.receive import receive_email
from app.inbound.receipts import Receipt, take_receipt
from app.infrastructure.metrics import OUTCOMES
from app.runs.pause import RESTORE_REASON
from app.tracking.tokens import return_path
from tests.cli.conftest import Cli
from tests.support.automations import add_automation, release_held, runs_of
from tests.support.cases import each
from tests.support.client import SENDS
from tests.support.mail_reports import delivery_failure
from tests.support.rows import FROM, Rows
from tests.support.tenants import Tenant, new_tenant, unique

FROM_CREATION = {
    "kind": "advanced",
    "trigger": "REST API Contact Created",
    "again": "when ended",
    "steps": [{"name": "a while", "wait": "1 hour"}, {"name": "end", "stop": True}],
}


@pytest.fixture
def rows(tenant: Tenant) -> Rows:
    """Rows of the account."""
    return Rows(tenant.services, tenant.id)


def held(rows: Rows, *addresses: str, was: str = "queued", **options: Any) -> list[int]:
    """Recipients that are held."""
    ids = rows.add_send(
        [{"email": address} if "@" in address else {"mobile": address} for address in addresses], **options
    )
    rows.change(ids, state="held", held_state=was)
    return ids


def test_clients_see_what_is_held_as_queued_and_operators_as_held(tenant: Tenant, rows: Rows, cli: Cli) -> None:
    (recipient_id,) = held(rows, "ann@example.com")
    uuid = rows.recipient(recipient_id).uuid
    assert tenant.api.get(f"{SENDS}/{uuid}").get_json()["state"] == "queued"
    for condition, uuids in {"state=queued": [uuid], "state:ne=queued": [], "state:in=queued,failed": [uuid]}.items():
        page = tenant.api.get(f"{SENDS}?{condition}").get_json()["_embedded"]["recipients"]
        assert [item["uuid"] for item in page] == uuids, condition
    assert tenant.api.get(f"{SENDS}?state=held").status_code == 400
    assert [row["uuid"] for row in cli.json("sends", "list", "--state", "held")] == [uuid]
    assert cli.json("sends", "list", "--state", "queued") == []


def test_an_explanation_names_the_commands_that_end_it(rows: Rows, cli: Cli, bare: Cli) -> None:
    (recipient_id,) = held(rows, "ann@example.com", was="uncertain")
    explained = cli.json("sends", "explain", rows.recipient(recipient_id).uuid)
    finding = explained["findings"][0]
    assert "comes from a restored backup. There it was uncertain" in finding["text"]
    *_, drop = (shlex.split(command.removeprefix("flask --app wsgi ")) for command in finding["commands"])
    assert bare.json(*drop, "--yes") == {"dropped": 1, "outcome": "failed"}
    assert (rows.recipient(recipient_id).state, rows.recipient(recipient_id).reason) == ("failed", "dropped")


def test_only_what_is_named_is_released(tenant: Tenant, other_tenant: Tenant, rows: Rows, bare: Cli) -> None:
    group = rows.add_group()
    first = held(rows, "a@example.com", "b@example.com", group_id=group)
    second = held(rows, "c@example.com", group_id=group, due_in=3600)
    third = held(rows, "d@example.com", was="sending")
    theirs = held(Rows(other_tenant.services, other_tenant.id), "e@example.com")
    release = ("holds", "release", "messages", "--account", tenant.name, "--yes")
    assert bare.json(*release, "--group", str(group), "--due-before", now().isoformat())["released"] == 2
    rows_shown = bare.json("holds", "show", "--account", tenant.name, "--was", "sending")
    assert [(row["account"], row["email"], row["was"]) for row in rows_shown] == [
        (tenant.name, "d@example.com", "sending")
    ]
    assert bare.json(*release, "--was", "sending")["released"] == 1
    counted = bare.json(*release, "--due-after", now().isoformat(), "--dry-run")
    assert (counted["held"], counted["left_out"]) == (1, {})
    assert rows.states([*first, *second, *third, *theirs]) == ["queued", "queued", "held", "queued", "held"]
    assert rows.steps(first[0]) == [("requeued", "released by an operator after a restore")]
    bare.json("holds", "drop", "messages", "--as", "failed", "--account", other_tenant.name, "--yes")
    assert bare.acts("--account", tenant.name) == [("recipient.released", "holds release messages")] * 2
    assert bare.acts("--account", other_tenant.name) == [("recipient.dropped", "holds drop messages")]


def test_a_dropped_message_counts_in_the_class_of_its_account(tenant: Tenant, bare: Cli) -> None:
    def sent() -> list[float]:
        return [OUTCOMES.labels(class_, "email", "sent").value for class_ in ("live", "test")]

    trial = new_tenant(tenant.app, test_of=tenant.id)
    held(Rows(trial.services, trial.id), "a@example.com")
    before = sent()
    bare.json("holds", "drop", "messages", "--as", "sent", "--account", trial.name, "--yes")
    assert [after - number for after, number in zip(sent(), before, strict=True)] == [0, 1]


def test_a_release_asks_first(tenant: Tenant, rows: Rows, bare: Cli) -> None:
    ids = held(rows, "a@example.com")
    result = bare.run("holds", "release", "messages", "--account", tenant.name, input="n\n")
    assert (result.exit_code, rows.states(ids)) == (1, ["held"])
    assert "1 message that is held." in result.stderr
    assert "is not a time such as" in bare.refused("holds", "release", "messages", "--due-before", "noon")


def test_the_question_before_a_release_says_what_has_arrived(tenant: Tenant, rows: Rows, bare: Cli) -> None:
    """An answer that comes late is asked for again if the numbers have changed."""
    arrived, *_ = held(rows, "a@example.com", "b@example.com", "c@example.com")
    tenant.add(RecipientStep, recipient_id=arrived, time=now(), step="opened")
    release = ("holds", "release", "messages", "--account", tenant.name)
    said = bare.text(*release, "--dry-run")
    assert said == "2 of 3 messages would be released\n1 left out: it shows a sign of arrival and is not sent again\n"
    result = bare.run(*release, input="n\n")
    assert (
        "1 left out: it shows a sign of arrival and is not sent again\nRelease 2 of 3 messages? [y/N]" in result.stderr
    )
    assert bare.json(*release, "--yes") == {"released": 2, "arrived": 1}
    assert bare.json(*release, "--yes") == {"released": 0, "arrived": 0}
    assert bare.acts("--account", tenant.name, "object=recipient") == [("recipient.released", "holds release messages")]


@each("is_more", [True, False])
def test_a_question_that_has_stood_for_long_is_asked_again_if_its_numbers_changed(
    tenant: Tenant, rows: Rows, bare: Cli, monkeypatch: pytest.MonkeyPatch, is_more: bool
) -> None:
    held(rows, "a@example.com")
    monkeypatch.setattr("app.cli.holds.VALID_FOR", timedelta(0))
    confirm, asked = click.confirm, list[str]()

    def answered(text: str, **options: Any) -> bool:
        asked.append(text)
        if len(asked) == 1 and is_more:
            held(rows, "b@example.com")
        return confirm(text, **options)

    monkeypatch.setattr(click, "confirm", answered)
    result = bare.run("holds", "release", "messages", "--account", tenant.name, input="y\ny\n")
    assert result.exit_code == 0, result.output
    assert asked == ["Release 1 message?", *(["Release 2 messages?"] if is_more else [])]
    assert ("The numbers have changed since the question was asked. Here are the new ones:" in result.stderr) == is_more


def test_messages_that_were_sent_or_not_have_their_events(tenant: Tenant, rows: Rows, bare: Cli) -> None:
    rows.add_webhook()
    (mail,) = held(rows, "a@example.com")
    (sms,) = held(rows, "61411111111", type="sms")
    drop = ("holds", "drop", "messages", "--account", tenant.name, "--yes")
    bare.json(*drop, "--as", "sent", "--uuid", rows.recipient(mail).uuid.upper())
    bare.json(*drop, "--as", "failed")
    assert rows.states([mail, sms]) == ["delivered", "failed"]
    assert ['"event":"sent"' in payload for payload in rows.payloads()] == [True, False]
    assert '"fail_reason":"dropped"' in rows.payloads()[1]
    groups = [
        bare.json("groups", "show", str(rows.group_of(recipient_id).id), "--account", tenant.name)
        for recipient_id in (mail, sms)
    ]
    assert [(group["delivered"], group["failed_contacts"]) for group in groups] == [(1, 0), (0, 1)]


def test_what_comes_back_tells_that_it_was_sent(tenant: Tenant, rows: Rows, bare: Cli) -> None:
    """A bounce settles it. The receipt of a text message is noted once, and counts when it is released: with both of
    its events, as in life."""
    rows.add_webhook()
    (mail,) = held(rows, "ann@example.com")
    arrived, failed = held(rows, "61411111111", "61411111112", type="sms")
    report = delivery_failure(return_path(tenant.services.settings, mail, FROM), "ann@example.com")
    assert receive_email(tenant.services, report, (), patience=0).effect is Effect.RECORDED
    for receipt in (Receipt(arrived, "delivered"), Receipt(failed, "failed")):
        assert take_receipt(tenant.services, receipt, patience=0) is Effect.RECORDED
    for status in ("delivered", "failed"):  # the first receipt decides
        assert take_receipt(tenant.services, Receipt(arrived, status), patience=0) is Effect.KNOWN
    assert rows.states([mail, arrived, failed]) == ["bounced", "held", "bounced"]
    released = bare.json("holds", "release", "messages", "--account", tenant.name, "--yes")
    assert (released, rows.states([arrived])) == ({"released": 0, "arrived": 1}, ["delivered"])
    assert [step for step, _ in rows.steps(arrived)] == ["acknowledged", "sent"]
    told = [json.loads(payload) for payload in rows.payloads()]
    assert [event["event"] for event in told if event["id"] == arrived] == ["sent", "acknowledged"]
    group = rows.group_of(arrived)
    assert (group.delivered, group.bounced) == (1, 1)


def test_events_since_the_restore_wait_behind_those_of_the_backup(tenant: Tenant, rows: Rows, bare: Cli) -> None:
    url = f"https://{unique('held')}.example/"
    webhook = tenant.add(Webhook, url=url, creation_time=now(), due_time=now(), failures=0, dropped_events=0)
    first, second = (rows.add(Event, webhook_id=webhook, payload="{}") for _ in range(2))
    with tenant.services.database.write() as transaction:
        transaction.get_one(Webhook, webhook).held_to = second
        transaction.get_one(Webhook, webhook).batch_end = first
    third = rows.add(Event, webhook_id=webhook, payload="{}")
    assert bare.json("webhooks", "show", url, "--account", tenant.name)["held"] is True
    listed = bare.json("holds", "list", "--account", tenant.name)
    assert [(row["what"], row["of"], row["held"]) for row in listed] == [("events", url, 2)]
    assert bare.json("holds", "drop", "events", "--account", tenant.name, "--yes") == {"dropped": 2, "webhooks": 1}
    assert ("webhook.dropped", "holds drop events") in bare.acts("--account", tenant.name)
    with tenant.services.database.read() as session:
        webhook_row = session.get_one(Webhook, webhook)
        assert (webhook_row.position, webhook_row.held_to, webhook_row.batch_end, webhook_row.dropped_events) == (
            second,
            None,
            None,
            2,
        )
        assert third > second
        assert has_due(session, tenant.services.settings)


def test_runs_are_held_until_they_are_released_or_dropped(tenant: Tenant, rows: Rows, bare: Cli) -> None:
    """The end of a pause does not let them go. A contact whose run was dropped may enter again."""
    list_id = rows.add_list()
    automation = add_automation(tenant.services, tenant.id, list_id, {"name": unique("auto"), **FROM_CREATION})
    for number in range(2):
        contact = rows.add_contact(list_id, f"{number}@example.com")
        with tenant.services.database.read() as session:
            version = session.scalars(
                select(AutomationVersion.id).where(AutomationVersion.automation_id == automation)
            ).one()
        rows.add(
            AutomationRun, automation_id=automation, version_id=version, list_id=list_id, contact_id=contact,
            entry_key=0, trigger_time=this_second(), state="held", reason=RESTORE_REASON, step="a while",
            due_time=now(),
        )  # fmt: skip
    name = ("--account", tenant.name)
    bare.json("automations", "pause", str(automation), *name)
    bare.json("automations", "resume", str(automation), *name)
    release_held(tenant.services)
    assert [run.state for run in runs_of(tenant.services, automation)] == ["held", "held"]
    first, _ = runs_of(tenant.services, automation)
    moment = first.due_time.isoformat()
    assert bare.json("holds", "drop", "runs", *name, "--due-after", moment, "--dry-run") == {"held": 2}
    after = runs_of(tenant.services, automation)[1].due_time.isoformat()
    assert bare.json("holds", "release", "runs", *name, "--due-before", after, "--yes") == {"released": 1}
    assert bare.json("holds", "drop", "runs", *name, "--automation", str(automation), "--yes") == {"dropped": 1}
    assert bare.acts("via:in=holds release runs,holds drop runs", *name) == [
        ("automation.released", "holds release runs"),
        ("automation.dropped", "holds drop runs"),
    ]
    states = [(run.state, run.reason, run.entry_key == run.id) for run in runs_of(tenant.services, automation)]
    assert states == [("waiting", None, False), ("ended", "dropped", True)]
