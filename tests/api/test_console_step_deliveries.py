"""The webhook deliveries that the timeline of a message names (docs/console-messages.md#messages)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select

from app.clock import now, this_second, timestamp
from app.console.step_deliveries import MAX_EVENTS
from app.db.models import Event, Recipient, RecipientStep
from tests.api.test_console_messages import send, settle
from tests.api.test_console_webhooks import add_delivery, add_webhook
from tests.support.browser import signed_in, words
from tests.support.cases import each
from tests.support.sends import SendsApi
from tests.support.tenants import Tenant, new_email

STEP = '<p class="told">'


def delivered(tenant: Tenant, sends: SendsApi) -> str:
    """The uuid of a message that was delivered."""
    uuid = send(sends, new_email())
    settle(tenant, uuid, "delivered")
    return uuid


def add_step(tenant: Tenant, uuid: str, step: str, moment: datetime | None = None) -> datetime:
    """A step of its timeline; returns when it happened."""
    moment = moment or now()
    with tenant.services.database.read() as session:
        recipient = session.scalars(select(Recipient.id).where(Recipient.uuid == uuid)).one()
    tenant.add(RecipientStep, recipient_id=recipient, time=moment, step=step)
    return moment


def tell(tenant: Tenant, webhook_id: int, uuid: str, event: str, moment: datetime) -> int:
    """The event of a step, as it is written for a webhook; its id."""
    payload = f'{{"object":"recipient","event":"{event}","id":1,"timestamp":"{timestamp(moment)}","uuid":"{uuid}"}}'
    return tenant.add(Event, webhook_id=webhook_id, payload=payload)


def told(tenant: Tenant, uuid: str) -> list[str]:
    """What the timeline says of webhooks, one text for each delivery."""
    page = signed_in(tenant).get(f"/console/messages/{uuid}")
    return [" ".join(part.split("</p>")[0].split()) for part in page.text.split(STEP)[1:]]


def test_a_step_names_the_latest_delivery_of_its_event_to_each_webhook(tenant: Tenant, sends: SendsApi) -> None:
    uuid = delivered(tenant, sends)
    good, failing = (add_webhook(tenant, url=f"https://{name}.example/") for name in ("good", "failing"))
    moment = add_step(tenant, uuid, "sent")
    later = moment + timedelta(seconds=1)
    event = tell(tenant, good, uuid, "sent", moment)
    accepted = add_delivery(tenant, good, after_event=event - 1, last_event=event, time=later)
    event = tell(tenant, failing, uuid, "sent", moment)
    for seconds in (1, 30):
        interval = {"after_event": event - 1, "last_event": event, "time": moment + timedelta(seconds=seconds)}
        refused = add_delivery(tenant, failing, outcome="failed", status=500, **interval)
    first, second = told(tenant, uuid)
    assert f'href="/console/webhooks/{good}/deliveries/{accepted}">good.example</a>' in first
    assert ">delivered</span>" in first
    assert f'href="/console/webhooks/{failing}/deliveries/{refused}">failing.example</a>' in second
    assert ">failed</span>" in second
    assert signed_in(tenant).get(f"/console/webhooks/{failing}/deliveries/{refused}").status_code == 200


@each(("values", "said"), [({}, "waiting</span> next attempt"), ({"held_to": 5}, "held</span>")])
def test_an_event_that_was_not_sent_yet_waits_or_is_held(
    tenant: Tenant, sends: SendsApi, values: dict[str, Any], said: str
) -> None:
    uuid = delivered(tenant, sends)
    webhook = add_webhook(tenant, **values)
    moment = add_step(tenant, uuid, "opened")
    add_delivery(tenant, webhook, time=moment + timedelta(seconds=1))
    tell(tenant, webhook, uuid, "opened", moment)
    (delivery,) = told(tenant, uuid)
    assert said in delivery
    assert f'href="/console/webhooks/{webhook}"' in delivery
    assert ("next attempt" in delivery) == (not values)


def test_an_event_is_found_behind_others_and_in_a_later_request(tenant: Tenant, sends: SendsApi) -> None:
    uuid, other = delivered(tenant, sends), delivered(tenant, sends)
    webhook = add_webhook(tenant)
    moment = add_step(tenant, uuid, "sent")
    add_delivery(tenant, webhook, time=moment - timedelta(minutes=1))
    for _ in range(2):
        add_delivery(tenant, webhook, time=moment + timedelta(seconds=1))
    tell(tenant, webhook, other, "sent", moment)
    event = tell(tenant, webhook, uuid, "sent", moment)
    expected = add_delivery(
        tenant, webhook, time=moment + timedelta(seconds=9), after_event=event - 2, last_event=event
    )
    (delivery,) = told(tenant, uuid)
    assert f"/deliveries/{expected}" in delivery


def test_an_event_that_is_too_far_behind_or_purged_is_left_out(tenant: Tenant, sends: SendsApi) -> None:
    uuid = delivered(tenant, sends)
    webhook = add_webhook(tenant)
    moment = add_step(tenant, uuid, "sent")
    add_delivery(tenant, webhook, time=moment + timedelta(seconds=1), after_event=0)
    assert told(tenant, uuid) == []
    filler = [{"webhook_id": webhook, "payload": "{}"} for _ in range(MAX_EVENTS)]
    tenant.add_all(Event, filler)
    tell(tenant, webhook, uuid, "sent", moment)
    assert told(tenant, uuid) == []


def test_a_webhook_that_has_not_chosen_the_event_and_one_of_another_account_are_not_named(
    tenant: Tenant, other_tenant: Tenant, sends: SendsApi
) -> None:
    uuid = delivered(tenant, sends)
    moment = add_step(tenant, uuid, "sent")
    choosy = add_webhook(tenant, chosen_events=["recipient.opened"])
    elsewhere = add_webhook(tenant, chosen_lists=[10**9])
    for owner, webhook in ((tenant, choosy), (tenant, elsewhere), (other_tenant, add_webhook(other_tenant))):
        tell(owner, webhook, uuid, "sent", moment)
    assert told(tenant, uuid) == []


@each("level", ["report", "limited"])
def test_who_sees_no_contacts_sees_no_deliveries(tenant: Tenant, sends: SendsApi, level: str) -> None:
    uuid = delivered(tenant, sends)
    tell(tenant, add_webhook(tenant), uuid, "sent", add_step(tenant, uuid, "sent"))
    assert len(told(tenant, uuid)) == 1
    assert STEP not in signed_in(tenant, level).get(f"/console/messages/{uuid}").text


def test_many_webhooks_and_steps_cost_as_many_statements_as_few(
    tenant: Tenant, sends: SendsApi, count_statements: Callable[[], Any]
) -> None:
    uuid, browser = delivered(tenant, sends), signed_in(tenant)

    def statements() -> int:
        with count_statements() as counter:
            assert browser.get(f"/console/messages/{uuid}").status_code == 200
        return len([statement for statement in counter.statements if statement.startswith("SELECT")])

    def add(webhooks: int, steps: int) -> None:
        ids = [add_webhook(tenant) for _ in range(webhooks)]
        for number in range(steps):
            moment = add_step(tenant, uuid, "opened", this_second() - timedelta(seconds=number))
            for webhook in ids:
                event = tell(tenant, webhook, uuid, "opened", moment)
                add_delivery(tenant, webhook, time=moment, after_event=event - 1, last_event=event)

    add(1, 1)
    few = statements()
    add(6, 8)
    assert statements() == few
    assert 0 < len(told(tenant, uuid)) <= 30


def test_the_overview_of_an_account_leads_to_its_webhooks(tenant: Tenant) -> None:
    webhook = add_webhook(tenant)
    link = f'<a href="/console/webhooks/{webhook}">hooks.example</a>'
    assert link in signed_in(tenant).get("/console").text
    page = signed_in(tenant, "report").get("/console")
    assert link not in page.text
    assert "hooks.example accepting" in words(page)
