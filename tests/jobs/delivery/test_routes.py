"""Routes over named transports: which one sends, and what stands in the timeline (docs/routes.md#routes)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from app.db.models import RecipientStep
from app.inbound.email.receive import receive_email
from app.infrastructure.metrics import TRANSPORT_OUTCOMES
from app.query.grammar import parse_paged_instance
from app.recipients.read import RECIPIENT_SHAPE, Viewer, get_recipient
from app.recipients.redaction import Redaction
from app.routing.transports import transport_named
from app.sends.delivery import drain as drain_module
from app.sends.delivery.drain import drain
from app.services import Services
from tests.jobs.delivery.conftest import Changed, StartDrain
from tests.support.clocks import ClockAhead
from tests.support.mail_reports import delivery_failure
from tests.support.routing import Routing, routing_of
from tests.support.rows import Rows
from tests.support.servers import wait_until
from tests.support.statements import StatementCounter
from tests.support.tenants import new_mobile
from tests.unit.transports.mailserver import MailServer


@pytest.fixture
def routing(worker: Services, account_id: int) -> Iterator[Routing]:
    with routing_of(worker, account_id) as made:
        yield made


@pytest.fixture
def second() -> Iterator[MailServer]:
    with MailServer() as server:
        yield server


def senders(server: MailServer) -> list[str]:
    return sorted(mail.recipients[0] for mail in server.mails)


def steps(rows: Rows, recipient_id: int) -> list[tuple[str, str | None]]:
    """The steps of a timeline with their transports."""
    statement = select(RecipientStep.step, RecipientStep.transport).order_by(RecipientStep.id)
    with rows.services.database.read() as session:
        return [
            (row.step, row.transport)
            for row in session.execute(statement.where(RecipientStep.recipient_id == recipient_id))
        ]


def transport_of_step(rows: Rows, recipient_id: int) -> dict[str, str]:
    """What the API adds to the step of a recipient that was sent."""
    query = parse_paged_instance([], RECIPIENT_SHAPE.resource)
    viewer = Viewer(sees_contacts=False, redaction=Redaction.of(rows.services.settings))
    with rows.services.database.read() as session:
        (step,) = get_recipient(session, rows.account_id, recipient_id, query, viewer)["timeline"]
    return {name: value for name, value in step.items() if name not in ("time", "step", "detail")}


def test_the_first_route_that_a_mail_meets_decides(
    rows: Rows, worker: Services, routing: Routing, mail_server: MailServer, second: MailServer
) -> None:
    """Routes are tried by sender domain and priority. A mail that meets none goes over the transport in the
    settings."""
    name = routing.transport(second.url())
    routing.route(name, priority="high")
    routing.route("default", sender_domain="acme.example")
    routing.route(name, position=1, sender_domain="news.acme.example")
    ids = [
        rows.add_send(["high@a.example"], priority="high")[0],
        rows.add_send(["domain@a.example"])[0],
        rows.add_send(["news@a.example"], from_address="hello@news.acme.example")[0],
        rows.add_send(["none@a.example"], from_address="hello@other.example")[0],
    ]
    before = TRANSPORT_OUTCOMES.labels("email", name, "sent").value
    drain(worker)
    assert rows.states(ids) == ["delivered"] * 4
    assert senders(second) == ["high@a.example", "news@a.example"]
    assert senders(mail_server) == ["domain@a.example", "none@a.example"]
    assert [steps(rows, recipient_id) for recipient_id in ids] == [
        [("sent", transport_name)] for transport_name in (name, None, name, None)
    ]
    assert [transport_of_step(rows, recipient_id) for recipient_id in ids] == [
        {"transport": name},
        {},
        {"transport": name},
        {},
    ]
    assert TRANSPORT_OUTCOMES.labels("email", name, "sent").value - before == 2


def test_another_account_does_not_take_the_route(
    rows: Rows, routing: Routing, mail_server: MailServer, second: MailServer, other_id: int
) -> None:
    routing.route(routing.transport(second.url()))
    Rows(rows.services, other_id).add_send(["other@a.example"])
    rows.add_send(["own@a.example"])
    drain(rows.services)
    assert (senders(second), senders(mail_server)) == (["own@a.example"], ["other@a.example"])


def test_text_messages_are_routed_by_the_prefix_of_the_mobile(
    rows: Rows, worker: Services, routing: Routing, tmp_path: Path
) -> None:
    named = routing.transport(f"file://{tmp_path / 'named'}", "sms")
    routing.route(named, type_="sms", country_prefixes=["64", "614"])
    abroad, home = "6421555000", new_mobile()
    rows.add_send([abroad, home, "447700900123"], type="sms")
    drain(worker)

    def sent(folder: str) -> set[str]:
        return {json.loads(path.read_text("utf-8"))["to"] for path in (tmp_path / folder).glob("*.json")}

    assert (sent("named"), sent("sms")) == ({abroad, home}, {"447700900123"})


def test_the_transport_that_a_send_names_goes_before_all_routes(
    rows: Rows, worker: Services, routing: Routing, mail_server: MailServer, second: MailServer
) -> None:
    routing.route("default")
    name = routing.transport(second.url())
    rows.add_send(["ann@a.example"], transport=name)
    drain(worker)
    assert (senders(second), senders(mail_server)) == (["ann@a.example"], [])


def test_a_change_needs_no_restart(
    rows: Rows, worker: Services, routing: Routing, mail_server: MailServer, second: MailServer
) -> None:
    """A transport gets another URL. Another is disabled, so that its messages wait, and enabled again."""
    name = routing.transport(mail_server.url())
    routing.route(name)
    rows.add_send(["first@a.example"])
    drain(worker)
    routing.change(name, url=second.url())
    rows.add_send(["second@a.example"])
    drain(worker)
    assert (senders(mail_server), senders(second)) == (["first@a.example"], ["second@a.example"])
    routing.change(name, enabled=False)
    (waiting,) = rows.add_send(["third@a.example"])
    drain(worker)
    assert rows.states([waiting]) == ["queued"]
    assert rows.steps(waiting) == [("deferred", "no transport for this message is in use")]
    routing.change(name, enabled=True)
    rows.make_due([waiting])
    drain(worker)
    assert rows.states([waiting]) == ["delivered"]
    assert steps(rows, waiting) == [("deferred", None), ("sent", name)]


def test_connections_of_a_changed_transport_are_closed_while_slow_messages_keep_a_drain_from_ending(
    rows: Rows, routing: Routing, mail_server: MailServer, start_drain: StartDrain, drain_clock: ClockAhead
) -> None:
    first = rows.add_send(["first@example.com"], priority="high")
    with MailServer() as second, mail_server.hold_answers():
        name = routing.transport(second.url())
        routing.route(name, priority="high")
        rows.add_send(["slow@example.com"])
        draining = start_drain(rows.services)
        wait_until(lambda: mail_server.unanswered and rows.states(first) == ["delivered"], "one is sent, one is not")
        routing.change(name, enabled=False)
        rows.add_send(["other@example.com"])
        wait_until(lambda: len(mail_server.unanswered) == 2, "the change is read")
        assert second.open_sessions
        drain_clock.ahead = drain_module.TIME_SLICE + drain_module.MAX_WAIT
        wait_until(lambda: not second.open_sessions, "the connection is closed")
        assert draining.is_alive()


def test_a_transport_that_is_needed_cannot_be_deleted(
    rows: Rows, worker: Services, routing: Routing, second: MailServer
) -> None:
    name = routing.transport(second.url())
    (ann,) = rows.add_send(["ann@a.example"], transport=name)
    with pytest.raises(Exception, match="conflict"):
        routing.delete(name)
    drain(worker)
    assert rows.states([ann]) == ["delivered"]
    routing.delete(name)
    with worker.database.read() as session:
        assert transport_named(session, name) is None


def test_a_transport_whose_url_cannot_be_decrypted_keeps_its_messages_waiting(
    rows: Rows, routing: Routing, make_worker: Changed, second: MailServer
) -> None:
    """The URL was stored under another SECRET_KEY. The next transport of the route sends."""
    broken = routing.transport(second.url())
    routing.route(broken, sender_domain="acme.example")
    routing.route(broken, "default")
    (waiting,) = rows.add_send(["waits@a.example"])
    (sent,) = rows.add_send(["ann@a.example"], from_address="hello@other.example")
    drain(make_worker(secret_key="another key, under which nothing was stored"))
    assert rows.states([waiting, sent]) == ["queued", "delivered"]
    assert rows.steps(waiting) == [("deferred", "the transport cannot be used")]
    assert second.sessions == 0


def test_hosts_of_a_transport_are_hidden_from_accounts(
    rows: Rows, worker: Services, routing: Routing, second: MailServer
) -> None:
    """In the replies of its relay and in reports that come later, as those of the settings are."""
    url = second.url(host="localhost").replace("smtp://", "smtp://relay-7.carrier.example,smtp://")
    routing.route(routing.transport(second.url()))
    routing.transport(url)
    second.reply(".", f"250 2.0.0 taken at 127.0.0.1:{second.port}")
    (ann,) = rows.add_send(["ann@a.example"])
    drain(worker)
    report = delivery_failure(
        second.mails[0].sender, "ann@a.example", diagnostic="smtp; 550 relay-7.carrier.example: no"
    )
    receive_email(worker, report, patience=0)
    assert [detail for _, detail in rows.steps(ann)] == ["250 2.0.0 taken at [hidden]", "550 [hidden]: no (5.1.1)"]


def test_routes_are_read_only_when_they_have_changed(
    rows: Rows, worker: Services, routing: Routing, second: MailServer
) -> None:
    """A batch takes no further statement while no transport is named, nor between two changes. The version comes with
    the sends."""

    def reads() -> int:
        rows.add_send(["ann@a.example", "bob@a.example"])
        with StatementCounter(worker.database.engine) as counted:
            drain(worker)
        texts = [" ".join(statement.split()) for statement in counted.statements]
        alone = [text for text in texts if text.startswith("SELECT routing_version")]
        read = [text for text in texts if "FROM routes" in text or "FROM transports" in text]
        assert len(alone) == len(read) / 2
        return len(read)

    assert [reads(), reads()] == [0, 0]
    routing.route(routing.transport(second.url()))
    assert [reads(), reads()] == [2, 0]
    assert len(second.mails) == 4
