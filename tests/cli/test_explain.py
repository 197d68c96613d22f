"""`flask sends explain`: why a message did not arrive, and the commands that help
(docs/troubleshoot.md#where-is-my-message)."""

from __future__ import annotations

import shlex
from datetime import timedelta
from typing import Any

import pytest

from app.clock import now, this_second, timestamp
from app.db.models import Account, BlockedAddress, Domain, DomainBackoff, RecipientStep, table_of
from app.sends.outcomes.recovery import UNANSWERED, resolve_uncertain
from tests.cli.conftest import Cli
from tests.support.rows import Rows
from tests.support.tenants import Tenant, new_email, new_mobile

PREFIX = "flask --app wsgi "


@pytest.fixture
def rows(tenant: Tenant) -> Rows:
    """Rows of the account."""
    return Rows(tenant.services, tenant.id)


def message_to(rows: Rows, tenant: Tenant, address: str, **columns: Any) -> tuple[int, str]:
    """Adds a message; returns the id and the uuid of its recipient."""
    is_sms = "@" not in address
    content: dict[str, Any] = {"type": "sms"} if is_sms else {"from_address": f"hello@{tenant.domain}"}
    given = {"mobile" if is_sms else "email": address, "contact_id": columns.pop("contact_id", None)}
    (recipient_id,) = rows.add_send([given], **content, **columns)
    return recipient_id, rows.recipient(recipient_id).uuid


def step(tenant: Tenant, recipient_id: int, name: str, detail: str | None) -> None:
    tenant.add(RecipientStep, recipient_id=recipient_id, time=now(), step=name, detail=detail)


def change(tenant: Tenant, model: Any, row_id: int, **values: Any) -> None:
    """Sets columns of a row."""
    table = table_of(model)
    with tenant.services.database.write() as transaction:
        transaction.execute(table.update().where(table.c.id == row_id).values(**values))


def texts(explained: Any) -> str:
    return "\n".join(finding["text"] for finding in explained["findings"])


def commands(explained: Any) -> list[list[str]]:
    """The words of all commands, without the ones that name the account."""
    all_words = []
    for finding in explained["findings"]:
        for written in finding["commands"]:
            words = shlex.split(written.removeprefix(PREFIX))
            if "--account" in words:
                del words[words.index("--account") : words.index("--account") + 2]
            all_words.append(words)
    return all_words


def run(bare: Cli, explained: Any) -> None:
    """Runs all of its commands as they are written."""
    for finding in explained["findings"]:
        for written in finding["commands"]:
            bare.text(*shlex.split(written.removeprefix(PREFIX)))


def test_an_unsubscribed_recipient_is_mended_by_the_commands(bare: Cli, cli: Cli, rows: Rows, tenant: Tenant) -> None:
    """The explanation says where and when the address was unsubscribed. The message is due once the commands ran."""
    email = new_email()
    list_id = tenant.add_list("Customers")
    contact = tenant.new_contact(list_id, email=email)
    cli.text("suppressions", "unsubscribe", email, "--list", "Customers")
    cli.text("suppressions", "unsubscribe", email)
    recipient_id, uuid = message_to(rows, tenant, email, list_id=list_id, contact_id=contact["id"])
    rows.change([recipient_id], state="failed", reason="unsubscribed")
    step(tenant, recipient_id, "failed", None)
    explained = bare.json("sends", "explain", uuid)
    assert (explained["uuid"], explained["state"], explained["address"]) == (uuid, "failed", email)
    assert "because its address was unsubscribed" in texts(explained)
    assert f"{email} has been unsubscribed in the list Customers since " in texts(explained)
    assert f"{email} has been unsubscribed account-wide since " in texts(explained)
    assert commands(explained) == [
        ["suppressions", "resubscribe", email, "--list", "Customers"],
        ["suppressions", "resubscribe", email],
        ["sends", "retry", uuid],
    ]
    assert PREFIX + explained["findings"][-1]["commands"][0].removeprefix(PREFIX) in bare.text("sends", "explain", uuid)
    run(bare, explained)
    assert bare.json("sends", "explain", uuid)["state"] == "queued"


def test_a_service_message_is_not_hindered_by_unsubscribing(bare: Cli, cli: Cli, rows: Rows, tenant: Tenant) -> None:
    email = new_email()
    cli.text("suppressions", "unsubscribe", email)
    recipient_id, uuid = message_to(rows, tenant, email, include_unsubscribed=True)
    rows.change([recipient_id], state="bounced", reason="550 5.7.1 no")
    assert commands(bare.json("sends", "explain", uuid)) == [["sends", "retry", uuid]]


def test_a_blocked_address_is_named_with_the_bounce_that_blocked_it(bare: Cli, rows: Rows, tenant: Tenant) -> None:
    email = new_email()
    first, bounced = message_to(rows, tenant, email)
    rows.change([first], state="bounced", reason="550 5.1.1 no such user")
    tenant.add(BlockedAddress, kind="email", address=email, reason="permanent bounce", creation_time=now())
    second, uuid = message_to(rows, tenant, email)
    rows.change([second], state="failed", reason="blocked")
    explained = bare.json("sends", "explain", uuid)
    assert f"Before that, {bounced} bounced: 550 5.1.1 no such user" in texts(explained)
    assert commands(explained) == [["suppressions", "unblock", email], ["sends", "retry", uuid]]
    run(bare, explained)


def test_a_deferred_message_says_until_when(bare: Cli, rows: Rows, tenant: Tenant) -> None:
    recipient_id, uuid = message_to(rows, tenant, new_email())
    due = this_second() + timedelta(minutes=7)
    rows.change([recipient_id], due_time=due, attempts=3)
    step(tenant, recipient_id, "deferred", "451 4.3.2 try again later")
    backoff = {"sender_domain": tenant.domain, "domain": "example.com", "failures": 3, "until_time": due}
    tenant.add(DomainBackoff, **backoff)
    explained = bare.json("sends", "explain", uuid.upper())
    end = rows.recipient(recipient_id).creation_time + timedelta(days=1)
    assert "in attempt 3: 451 4.3.2 try again later" in texts(explained)
    assert f"The next attempt is due at {timestamp(due)}, the last one at {timestamp(end)}." in texts(explained)
    assert f"All mail from {tenant.domain} to example.com waits until {timestamp(due)}" in texts(explained)
    assert commands(explained) == []


def test_a_message_that_nobody_takes_tells_of_the_workers(bare: Cli, rows: Rows, tenant: Tenant) -> None:
    recipient_id, uuid = message_to(rows, tenant, new_email())
    early = now() - timedelta(minutes=5)
    rows.change([recipient_id], due_time=early, ready_time=early)
    explained = bare.json("sends", "explain", uuid)
    assert "Check that workers are running" in texts(explained)
    assert commands(explained) == [["status"]]


def test_an_uncertain_message_says_when_it_is_decided(bare: Cli, rows: Rows, tenant: Tenant) -> None:
    recipient_id, uuid = message_to(rows, tenant, new_email())
    due = this_second() + timedelta(minutes=9)
    rows.change([recipient_id], state="uncertain", due_time=due)
    explained = bare.json("sends", "explain", uuid)
    assert f"If there is no sign of arrival by {timestamp(due)}, it is sent again" in texts(explained)
    assert commands(explained) == [["sends", "retry", uuid]]
    rows.change([recipient_id], creation_time=now() - timedelta(days=1))
    explained = bare.json("sends", "explain", uuid)
    assert f"If there is no sign of arrival by {timestamp(due)}, it bounces" in texts(explained)


def test_a_message_that_bounced_without_an_answer_may_have_arrived(bare: Cli, rows: Rows, tenant: Tenant) -> None:
    recipient_id, uuid = message_to(rows, tenant, new_email())
    rows.change([recipient_id], state="uncertain", due_time=now(), attempts=1, creation_time=now() - timedelta(days=2))
    resolve_uncertain(tenant.services)
    explained = bare.json("sends", "explain", uuid)
    assert f": {UNANSWERED.reply} (4.4.7)" in texts(explained)
    assert "If the log of the relay shows that the relay never got it, retry it now:" in texts(explained)
    assert commands(explained) == [["sends", "retry", uuid]]


def test_an_inactive_contact_is_activated(bare: Cli, rows: Rows, tenant: Tenant) -> None:
    list_id = tenant.add_list("Customers")
    contact = tenant.new_contact(list_id, email=new_email(), is_active=False)
    recipient_id, uuid = message_to(rows, tenant, contact["email"], list_id=list_id, contact_id=contact["id"])
    rows.change([recipient_id], state="failed", reason="contact_inactive", email=None)
    explained = bare.json("sends", "explain", uuid)
    assert explained["address"] == contact["email"]
    assert commands(explained)[0] == [
        *("contacts", "update", str(contact["id"]), "--list", "Customers", "is_active=yes")
    ]
    run(bare, explained)


def test_a_deleted_contact_cannot_be_retried(bare: Cli, rows: Rows, tenant: Tenant) -> None:
    recipient_id, uuid = message_to(rows, tenant, new_email(), contact_id=987_654_321)
    rows.change([recipient_id], state="failed", reason="contact_deleted")
    explained = bare.json("sends", "explain", uuid)
    assert "The contact 987654321 has been deleted." in texts(explained)
    assert "It cannot be retried" in texts(explained)
    assert commands(explained) == []


def test_an_unverified_domain_and_an_unconfirmed_owner_are_named(bare: Cli, rows: Rows, tenant: Tenant) -> None:
    recipient_id, uuid = message_to(rows, tenant, new_email())
    rows.change([recipient_id], state="bounced", reason="550 5.7.1 rejected")
    change(tenant, Account, tenant.id, owner_confirmed=False)
    with tenant.services.database.write() as transaction:
        domains = table_of(Domain)
        transaction.execute(domains.update().where(domains.c.account_id == tenant.id).values(verified_time=None))
    assert commands(bare.json("sends", "explain", uuid)) == [
        ["accounts", "update", tenant.name, "--owner-confirmed"],
        ["domains", "verify", tenant.domain],
        ["sends", "retry", uuid],
    ]


def test_a_delivered_message_says_what_is_known(bare: Cli, rows: Rows, tenant: Tenant) -> None:
    recipient_id, uuid = message_to(rows, tenant, new_email())
    rows.change([recipient_id], state="delivered", sent_time=this_second())
    step(tenant, recipient_id, "sent", "250 2.0.0 queued as 7F1A2")
    assert "250 2.0.0 queued as 7F1A2" in texts(bare.json("sends", "explain", uuid))
    assert "spam folder" in texts(bare.json("sends", "explain", uuid))
    rows.change([recipient_id], state="delivered", first_open_time=this_second())
    assert "It was opened at" in texts(bare.json("sends", "explain", uuid))


def test_the_newest_message_to_an_address_is_explained(cli: Cli, rows: Rows, tenant: Tenant) -> None:
    """The address is compared without regard to case. A message by contact_id is found as well, although it has no
    address yet."""
    email = new_email()
    list_id = tenant.add_list()
    contact = tenant.new_contact(list_id, email=email)
    message_to(rows, tenant, email.upper(), accepted=now() - timedelta(hours=2))
    _, second = message_to(rows, tenant, email, accepted=now() - timedelta(hours=1))
    (named,) = rows.add_send([{"contact_id": contact["id"]}], list_id=list_id)
    (told,) = cli.json("sends", "explain", email)["accounts"]
    assert [message["uuid"] for message in told["messages"]] == [rows.recipient(named).uuid]
    (told,) = cli.json("sends", "explain", email.title(), "--limit", "2")["accounts"]
    assert [message["uuid"] for message in told["messages"]] == [rows.recipient(named).uuid, second]
    assert [message["uuid"] for message in cli.json("sends", "list", "--to", email.upper())][:2] == [
        rows.recipient(named).uuid,
        second,
    ]


def test_an_address_without_messages_is_explained(cli: Cli, tenant: Tenant) -> None:
    mobile = new_mobile()
    tenant.add(BlockedAddress, kind="mobile", address=mobile, reason="blocked by hand", creation_time=now())
    said = cli.text("sends", "explain", mobile)
    assert f"The history has no message to {mobile}." in said
    assert "blocked by hand" in said
    assert "suppressions unblock" in said


def test_what_is_neither_uuid_nor_address_is_refused(bare: Cli) -> None:
    refused = "'nobody' is neither a uuid nor an email address nor a mobile number such as 61411111111"
    assert bare.refused("sends", "explain", "nobody") == refused
    unknown = "0b7c6a35-3c7f-4e0b-9f6e-8a4b5f3f2a10"
    assert bare.refused("sends", "explain", unknown) == f"there is no recipient with the uuid '{unknown}'"


def test_recipients_are_listed_by_address_and_state(cli: Cli, rows: Rows, tenant: Tenant) -> None:
    email, mobile = new_email(), new_mobile()
    (first, _), (second, _) = message_to(rows, tenant, email), message_to(rows, tenant, mobile)
    rows.change([second], state="bounced", reason="expired")

    def listed(*options: str) -> list[str]:
        return [message["uuid"] for message in cli.json("sends", "list", *options)]

    assert listed("--to", email.upper()) == [rows.recipient(first).uuid]
    assert listed("--to", mobile) == listed("--state", "bounced") == [rows.recipient(second).uuid]
    assert listed("--to", email, "--state", "bounced") == []
    assert listed("--state", "queued") == [rows.recipient(first).uuid]
    assert cli.refused("sends", "list", "--to", "ann").startswith("'ann' is neither an email address")
