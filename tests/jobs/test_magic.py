"""What magic addresses simulate: once, after the outcome, for test keys only (docs/testing.md#magic-addresses)."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update

from app.accounts.testing import refreshed_test_account
from app.addresses import ADDRESS_KIND_BY_TYPE
from app.clock import now
from app.db.models import Account, BlockedAddress, CapturedMessage, Contact, Recipient, RecipientStep, Unsubscriber
from app.errors import ServiceError
from app.inbound.replies import record_reply
from app.inbound.simulated import simulate, simulate_due
from app.maintenance import sweeps
from app.sends.delivery.drain import drain
from app.sends.delivery.sender_worker import close_sender_worker
from tests.jobs.conftest import changed
from tests.support.captured import capture
from tests.support.client import SENDS
from tests.support.sends import AcceptedSend, SendsApi, rows_of
from tests.support.tenants import Tenant, add_key, unique

EARLIER = timedelta(minutes=1)


@pytest.fixture
def live(tenant: Tenant) -> SendsApi:
    """The live account, with a list and a number."""
    sends = SendsApi(tenant)
    assert sends.list_id
    assert sends.number
    return sends


@pytest.fixture
def sends(live: SendsApi) -> SendsApi:
    """The test account of the live account, with copies of its list and its number."""
    tenant = live.tenant
    with tenant.services.database.write() as transaction:
        test = refreshed_test_account(transaction, transaction.get_one(Account, tenant.id))
        made = Tenant(tenant.app, test.id, test.name, tenant.domain)
    made.tokens["standard"] = add_key(made, "standard")
    test_sends = SendsApi(made)
    (copied,) = made.api.get("/v1/lists").get_json()["_embedded"]["lists"]
    test_sends.__dict__.update(list_id=copied["id"], number=live.number)
    return test_sends


def send(sends: SendsApi, *addresses: str, **changes: Any) -> AcceptedSend:
    """Accepts a mail or a text message and delivers it."""
    type_ = "email" if "@" in addresses[0] else "sms"
    recipients = [{ADDRESS_KIND_BY_TYPE[type_]: address} for address in addresses]
    accepted = sends.send(getattr(sends, type_)(recipients=recipients, **changes))
    drain(sends.tenant.services)
    return accepted


def age(sends: SendsApi, by: timedelta = EARLIER) -> None:
    """Sets the times of the account's messages, by default so that what is to happen to them is due."""
    account_id, moment = sends.tenant.id, now() - by
    with sends.tenant.services.database.write() as transaction:
        waiting = (CapturedMessage.account_id == account_id, CapturedMessage.simulate_time.is_not(None))
        transaction.execute(update(CapturedMessage).where(*waiting).values(simulate_time=moment))
        sent = (Recipient.account_id == account_id, Recipient.sent_time.is_not(None))
        transaction.execute(update(Recipient).where(*sent).values(sent_time=moment))


def steps(sends: SendsApi) -> list[str]:
    return [row.step for row in rows_of(sends.tenant, RecipientStep)]


def waiting(sends: SendsApi) -> list[Any]:
    return [row.simulate_time for row in rows_of(sends.tenant, CapturedMessage)]


def test_it_happens_some_seconds_after_the_acceptance_and_once(sends: SendsApi) -> None:
    services = sends.tenant.services
    before = now()
    send(sends, "complaint@simulator.test", "open@simulator.test", body_html="<p>Hello</p>")
    assert all(moment > before + timedelta(seconds=2) for moment in waiting(sends))
    age(sends, -timedelta(hours=1))
    simulate_due(services)
    assert steps(sends) == ["sent", "sent"]
    age(sends)
    assert simulate_due(services) >= 2
    assert steps(sends) == ["sent", "sent", "opened", "complained", "unsubscribed"]
    assert waiting(sends) == [None, None]
    simulate_due(services)
    assert len(steps(sends)) == 5


def test_a_machine_is_not_suspected_however_late_the_outcome_was_written(sends: SendsApi) -> None:
    """The delay counts from the acceptance, so it is deferred if that was later than the capture."""
    send(sends, "open@simulator.test", body_html="<p>Hello</p>")
    age(sends)
    sent = now() + timedelta(hours=1)
    with sends.tenant.services.database.write() as transaction:
        transaction.execute(update(Recipient).where(Recipient.account_id == sends.tenant.id).values(sent_time=sent))
    simulate_due(sends.tenant.services)
    assert steps(sends) == ["sent"]
    assert waiting(sends) == [sent + timedelta(seconds=3)]


def test_it_waits_for_an_outcome_that_is_not_written_yet(sends: SendsApi) -> None:
    """An outcome may be missing after a crash between the capture and the outcome."""
    services = sends.tenant.services
    accepted = sends.send(sends.sms(recipients=[{"mobile": "447700900003"}]))
    capture(
        sends.tenant,
        "447700900003",
        type="sms",
        recipient_id=accepted.recipient.id,
        simulates="acknowledged",
        simulate_time=now() - EARLIER,
    )
    before = now()
    simulate_due(services)
    (put_off,) = waiting(sends)
    assert put_off >= before
    drain(services)
    age(sends)
    simulate_due(services)
    assert (steps(sends), waiting(sends)) == (["sent", "acknowledged"], [None])


def test_nothing_happens_to_a_message_whose_recipient_is_gone(sends: SendsApi) -> None:
    capture(sends.tenant, "open@simulator.test", simulates="open", simulate_time=now() - EARLIER)
    simulate_due(sends.tenant.services)
    assert (steps(sends), waiting(sends)) == ([], [None])


def test_what_cannot_be_simulated_is_given_up_and_keeps_nothing_else(
    sends: SendsApi, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    send(sends, "open@simulator.test", "open+2@simulator.test", body_html="<p>Hello</p>")
    age(sends)
    first, _ = rows_of(sends.tenant, CapturedMessage)

    def failing(settings: Any, transaction: Any, simulations: Any, links: Any) -> None:
        if first.id in {simulation.id for simulation in simulations}:
            raise ValueError("no such thing")
        simulate(settings, transaction, simulations, links)

    monkeypatch.setattr("app.inbound.simulated.simulate", failing)
    with caplog.at_level(logging.ERROR, logger="app.inbound.simulated"):
        simulate_due(sends.tenant.services)
    assert (sorted(steps(sends)), waiting(sends)) == (["opened", "sent", "sent"], [None, None])
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert errors == ["cannot simulate what happens to a message"]


def test_an_interrupted_simulation_leaves_no_trace_and_is_repeated(
    sends: SendsApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = sends.tenant.services
    send(sends, "complaint@simulator.test")
    age(sends)

    def interrupted(settings: Any, transaction: Any, simulations: Any, links: Any) -> None:
        simulate(settings, transaction, simulations, links)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("app.inbound.simulated.simulate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            simulate_due(services)
    assert (steps(sends), rows_of(sends.tenant, BlockedAddress)) == (["sent"], [])
    simulate_due(services)
    assert steps(sends) == ["sent", "complained", "unsubscribed"]


def test_a_message_without_links_is_neither_opened_nor_clicked_nor_unsubscribed(sends: SendsApi) -> None:
    opened, clicked, unsubscribing = (f"{name}@simulator.test" for name in ("open", "click", "unsubscribe"))
    send(sends, opened, clicked, unsubscribing, include_unsubscribed=True)
    age(sends)
    simulate_due(sends.tenant.services)
    assert (steps(sends), waiting(sends)) == (["sent"] * 3, [None] * 3)


def test_a_link_of_another_message_is_not_followed(sends: SendsApi) -> None:
    """One that a person has copied into the body."""
    send(sends, "ann@example.com", body_html='<a href="https://acme.example/secret">Acme</a>')
    (mail,) = rows_of(sends.tenant, CapturedMessage)
    copied = mail.content.decode().replace("=\r\n", "").partition("/c/")[2].partition('"')[0]
    public_url = sends.tenant.services.settings.public_url
    send(sends, "click@simulator.test", body_html=f'<a href="{public_url}/c/{copied}">Acme</a>')
    age(sends)
    simulate_due(sends.tenant.services)
    assert steps(sends) == ["sent", "sent"]


@pytest.mark.parametrize("address", ["bounce@simulator.test", "complaint@simulator.test", "447700900004"])
def test_a_magic_address_can_be_used_again(sends: SendsApi, address: str) -> None:
    states = []
    for _ in range(2):
        accepted = send(sends, address)
        age(sends)
        simulate_due(sends.tenant.services)
        states.append((accepted.recipient.state, accepted.recipient.reason))
    assert states[0] == states[1]
    assert [row.address for row in rows_of(sends.tenant, BlockedAddress)] == [address]


def test_an_ordinary_address_is_skipped_in_a_test_as_in_life(sends: SendsApi) -> None:
    address = f"{unique('blocked')}@example.com"
    sends.tenant.add(BlockedAddress, kind="email", address=address, reason="complaint", creation_time=now())
    assert send(sends, address).recipient.reason == "blocked"


def test_a_dry_run_foresees_that_a_magic_address_is_sent_to_again(sends: SendsApi, live: SendsApi) -> None:
    send(sends, "bounce@simulator.test")
    live.tenant.add(
        BlockedAddress, kind="email", address="bounce@simulator.test", reason="complaint", creation_time=now()
    )
    fates = []
    for account_sends in (sends, live):
        answer = account_sends.tenant.api.post(
            f"{SENDS}?dry_run=true", account_sends.email(recipients=[{"email": "bounce@simulator.test"}])
        )
        (foreseen,) = answer.get_json()["_embedded"]["recipients"]
        fates.append(foreseen["reason"])
    assert fates == [None, "blocked"]


def test_live_keys_know_no_magic_addresses(live: SendsApi) -> None:
    accepted = [send(live, "bounce@simulator.test"), send(live, "447700900001")]
    assert [send.recipient.state for send in accepted] == ["delivered", "sent"]
    assert live.rows(CapturedMessage) == []


def test_a_simulated_stop_unsubscribes_nobody_of_the_live_account(live: SendsApi, sends: SendsApi) -> None:
    for account_sends in (sends, live):  # the live one last, so that a real reply would belong to it
        send(account_sends, "447700900005")
    age(sends)
    simulate_due(sends.tenant.services)
    assert steps(sends) == ["sent", "received", "unsubscribed"]
    assert [len(account_sends.rows(Unsubscriber)) for account_sends in (sends, live)] == [1, 0]
    assert [row.subscribed_mobile for row in live.rows(Contact)] == [True]


def test_a_reply_of_a_person_is_never_to_a_test_account(live: SendsApi, sends: SendsApi) -> None:
    for account_sends in (live, sends):  # the test last
        send(account_sends, "61412345678")
    with live.tenant.services.database.write() as transaction:
        record_reply(transaction, "61412345678", live.number, "Please STOP")
    assert (steps(live), steps(sends)) == (["sent", "received", "unsubscribed"], ["sent"])
    only_copied = sends.add_number()
    with pytest.raises(ServiceError, match="invalid_id"), live.tenant.services.database.write() as transaction:
        record_reply(transaction, "61412345678", only_copied, "Hello")


def test_nobody_replies_to_a_name(live: SendsApi, sends: SendsApi) -> None:
    for account_sends in (live, sends):
        account_sends.tenant.add_sender("ACME", "alphanumeric")
    send(sends, "447700900005", from_address="ACME", unsubscribe_type="none")
    age(sends)
    simulate_due(sends.tenant.services)
    assert (steps(sends), waiting(sends)) == (["sent"], [None])


def test_slow_follows_its_own_delays_and_not_the_retry_rules(sends: SendsApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.sends.delivery.sender_worker.SLOW_DELAYS", (1000.0, 1000.0))
    worker = changed(sends.tenant.services, retry_delay=100_000.0)
    accepted = sends.send(sends.email(recipients=[{"email": "slow@simulator.test"}]))
    drain(worker)
    close_sender_worker(worker)
    assert (steps(sends), sends.rows(CapturedMessage)) == (["deferred"], [])
    assert accepted.recipient.due_time <= now() + timedelta(seconds=1000)


def test_an_account_keeps_so_many_captured_messages_and_the_oldest_go(
    sends: SendsApi, other_tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeps, "CHUNK", 2)
    ids = [capture(sends.tenant, "ann@example.com") for _ in range(8)]
    others = [capture(other_tenant, "ann@example.com") for _ in range(3)]
    sweeps.clean(changed(sends.tenant.services, test_inbox_messages=3))
    assert [row.id for row in sends.rows(CapturedMessage)] == ids[-3:]
    assert [row.id for row in rows_of(other_tenant, CapturedMessage)] == others
