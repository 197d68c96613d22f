"""A message that a transport has certainly not taken goes to the next one of its route, and no other does
(docs/routes.md#failover)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from sqlalchemy import select

from app.db.models import RecipientStep
from app.inbound.smpp import incoming_handler
from app.infrastructure.metrics import TRANSPORT_FAILOVERS
from app.sends.delivery.drain import drain
from app.services import Services
from app.transports import base
from tests.jobs.delivery.conftest import StartDrain
from tests.support.routing import Routing, routing_of
from tests.support.rows import Rows
from tests.support.servers import PATIENCE, free_port, wait_until
from tests.support.smpp import INVALID_DESTINATION, OK
from tests.support.smsc import Smsc
from tests.support.tenants import new_mobile
from tests.unit.transports.mailserver import DROP, MailServer


@pytest.fixture
def routing(worker: Services, account_id: int) -> Iterator[Routing]:
    with routing_of(worker, account_id) as made:
        yield made


@pytest.fixture
def second() -> Iterator[MailServer]:
    with MailServer() as server:
        yield server


@pytest.fixture
def gateways() -> Iterator[tuple[Smsc, Smsc]]:
    with Smsc() as first, Smsc() as other:
        yield first, other


def away() -> str:
    return f"smtp://127.0.0.1:{free_port()}"


def notes(rows: Rows, recipient_id: int) -> list[tuple[str, str | None, str | None]]:
    """Step, transport and the operator's note."""
    columns = (RecipientStep.step, RecipientStep.transport, RecipientStep.note)
    statement = select(*columns).where(RecipientStep.recipient_id == recipient_id).order_by(RecipientStep.id)
    with rows.services.database.read() as session:
        return [(row.step, row.transport, row.note) for row in session.execute(statement)]


def test_mail_goes_to_the_next_transport_while_the_first_cannot_be_reached(
    rows: Rows, worker: Services, routing: Routing, second: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one attempt. The second mail does not even try the first transport, which is backed off."""
    monkeypatch.setattr(base, "FIRST_BACKOFF", PATIENCE)
    gone, spare = routing.transport(away()), routing.transport(second.url())
    routing.route(gone, spare)
    before = TRANSPORT_FAILOVERS.labels(gone).value
    (ann,) = rows.add_send(["ann@a.example"])
    drain(worker)
    (bob,) = rows.add_send(["bob@a.example"])
    drain(worker)
    assert rows.states([ann, bob]) == ["delivered", "delivered"]
    assert [rows.recipient(recipient_id).attempts for recipient_id in (ann, bob)] == [1, 1]
    ((step, transport, note),) = notes(rows, ann)
    assert (step, transport) == ("sent", spare)
    assert (note or "").startswith(f"not over {gone}: no connection to 127.0.0.1:")
    assert notes(rows, bob) == [("sent", spare, None)]
    assert TRANSPORT_FAILOVERS.labels(gone).value - before == 1


def test_a_large_message_that_is_passed_on_keeps_no_other_large_one_waiting(
    rows: Rows, worker: Services, routing: Routing, second: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only one large message is built at a time. A message that is passed on is built already when the next transport
    gets it."""
    monkeypatch.setattr(base, "FIRST_BACKOFF", PATIENCE)
    routing.route(routing.transport(away()), routing.transport(second.url()))
    ids = rows.add_send(["ann@a.example", "bob@a.example"], body_text=f"{'x' * 60} " * 3000)
    drain(worker)
    assert rows.states(ids) == ["delivered"] * 2


def drain_all(rows: Rows, ids: list[int]) -> None:
    """Drains as a worker does that is woken for what is left: messages that a slow transport has no room for get a turn
    later, and on a slow machine every transport is slow."""

    def is_all_sent() -> bool:
        drain(rows.services)
        return "queued" not in rows.states(ids)

    wait_until(is_all_sent, "none is queued")


def test_nothing_is_lost_or_doubled_while_many_mails_fail_over(
    rows: Rows, worker: Services, routing: Routing, mail_server: MailServer, second: MailServer
) -> None:
    """The first relay ends the session of every other message, before or after it has taken that one. Each needs one
    attempt only."""
    first, spare = routing.transport(mail_server.url("?messages=3")), routing.transport(second.url())
    routing.route(first, spare)
    mail_server.reply("MAIL", *["421 4.3.2 closing", "250 ok"] * 10)
    ids = rows.add_send([f"{number}@a.example" for number in range(60)])
    drain_all(rows, ids)
    assert rows.states(ids) == ["delivered"] * 60
    assert [rows.recipient(recipient_id).attempts for recipient_id in ids] == [1] * 60
    sent = [mail.recipients[0] for server in (mail_server, second) for mail in server.mails]
    assert sorted(sent) == sorted(f"{number}@a.example" for number in range(60))


@pytest.mark.parametrize(
    ("step", "reply", "state"),
    [
        (".", DROP, "uncertain"),
        (".", "451 4.3.0 later", "queued"),
        ("ann@a.example", DROP, "queued"),
        ("ann@a.example", "550 5.1.1 nobody", "bounced"),
    ],
)
def test_a_mail_that_the_first_transport_may_have_taken_or_refuses_is_not_offered_to_the_next(
    rows: Rows,
    worker: Services,
    routing: Routing,
    mail_server: MailServer,
    second: MailServer,
    *,
    step: str,
    reply: str,
    state: str,
) -> None:
    first = routing.transport(mail_server.url())
    routing.route(first, routing.transport(second.url()))
    mail_server.reply(step, reply)
    (ann,) = rows.add_send(["ann@a.example"])
    drain(worker)
    assert rows.states([ann]) == [state]
    assert [transport for _, transport, _ in notes(rows, ann)] == [first]
    assert second.sessions == 0


def test_a_text_that_a_gateway_refuses_goes_to_the_next(
    rows: Rows, worker: Services, routing: Routing, gateways: tuple[Smsc, Smsc]
) -> None:
    """A text fails only if the last gateway refuses it, too."""
    names = [routing.transport(gateway.url(), "sms") for gateway in gateways]
    routing.route(*names, type_="sms")
    gateways[0].statuses += [INVALID_DESTINATION]
    (ann,) = rows.add_send([new_mobile()], type="sms")
    drain(worker)
    assert rows.states([ann]) == ["sent"]
    assert [transport for _, transport, _ in notes(rows, ann)] == [names[1]]
    for gateway in gateways:
        gateway.statuses += [INVALID_DESTINATION]
    (bob,) = rows.add_send([new_mobile()], type="sms")
    drain(worker)
    assert (rows.recipient(bob).state, rows.recipient(bob).reason) == ("failed", "rejected")


def test_a_text_without_an_answer_is_not_offered_to_the_next_gateway(
    rows: Rows, routing: Routing, gateways: tuple[Smsc, Smsc], start_drain: StartDrain
) -> None:
    routing.route(*(routing.transport(gateway.url(f"?timeout={PATIENCE}"), "sms") for gateway in gateways), type_="sms")
    gateways[0].silent = True
    (ann,) = rows.add_send([new_mobile()], type="sms")
    draining = start_drain(rows.services)
    wait_until(lambda: gateways[0].submissions, "it is sent")
    gateways[0].drop()
    draining.join()
    assert rows.states([ann]) == ["queued"]
    assert [len(gateway.submissions) for gateway in gateways] == [1, 0]


def test_receipts_of_two_gateways_with_the_same_ids_find_their_messages(
    rows: Rows, worker: Services, routing: Routing, gateways: tuple[Smsc, Smsc]
) -> None:
    """Each gateway counts from 1, and both are bound before there is a text to send."""
    ids = []
    for gateway, prefix in zip(gateways, ("64", "61"), strict=True):
        routing.route(routing.transport(gateway.url(), "sms"), type_="sms", country_prefixes=[prefix])
    handler = incoming_handler(worker)
    drain(worker, handler)
    for gateway in gateways:
        wait_until(partial(getattr, gateway, "bound"), "it is bound")
    for mobile in ("6421555000", new_mobile()):
        ids += rows.add_send([mobile], type="sms")
    drain(worker, handler)
    assert rows.states(ids) == ["sent", "sent"]
    assert gateways[1].receipt("m1", "UNDELIV") == OK
    assert rows.states(ids) == ["sent", "bounced"]
    assert gateways[0].receipt("m1") == OK
    assert rows.states(ids) == ["delivered", "bounced"]


@pytest.mark.usefixtures("hasty_rows")
def test_a_slow_transport_holds_up_no_message_for_another_of_the_same_account(
    rows: Rows, routing: Routing, second: MailServer, mail_server: MailServer, start_drain: StartDrain
) -> None:
    """The slow transport accepted its backlog first, and answers none of it."""
    routing.route(routing.transport(second.url(), connections=2), sender_domain="slow.example")
    with second.hold_answers():
        slow = rows.add_send([f"{number}@a.example" for number in range(200)], from_address="a@slow.example")
        start_drain(rows.services)
        wait_until(lambda: len(second.unanswered) == 2, "both connections wait")
        quick = rows.add_send(["quick@b.example"])
        wait_until(lambda: rows.states(quick) == ["delivered"], "the other transport sends")
        assert rows.states(slow).count("delivered") == 0
    assert [mail.recipients for mail in mail_server.mails] == [["quick@b.example"]]


def test_messages_beyond_the_rate_of_a_transport_get_a_turn_and_no_attempt(
    rows: Rows, worker: Services, routing: Routing, second: MailServer
) -> None:
    routing.route(routing.transport(second.url(), messages_per_second=0.01))
    ids = rows.add_send([f"{number}@a.example" for number in range(10)])
    drain(worker)
    states = rows.states(ids)
    waiting = [recipient_id for recipient_id, state in zip(ids, states, strict=True) if state == "queued"]
    assert (states.count("delivered"), len(waiting)) == (1, 9)
    assert [(rows.recipient(recipient_id).attempts, rows.steps(recipient_id)) for recipient_id in waiting] == [
        (0, [])
    ] * len(waiting)
