"""What `/metrics` shows of relays and gateways, and of messages that are deferred (docs/monitoring/metrics.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import update

from app.db.models import Account
from app.infrastructure import metrics
from app.infrastructure.metric_kinds import exposed
from app.sends.delivery.drain import drain
from app.sends.outcomes.domain_deferrals import FAILURE_THRESHOLD
from app.sends.outcomes.recovery import recover_expired_leases
from app.services import Services
from app.transports import base
from tests.jobs.delivery.conftest import Changed, StartDrain
from tests.jobs.delivery.test_bounds import person
from tests.jobs.delivery.test_crash import claim_rows
from tests.jobs.delivery.test_domain_backoff import SLOW_DOWN
from tests.jobs.delivery.test_failover import away
from tests.jobs.delivery.test_rate import add_sender, send
from tests.support.routing import Routing, routing_of
from tests.support.rows import Rows
from tests.support.scraped import parsed, value
from tests.support.servers import PATIENCE, wait_until
from tests.unit.transports.mailserver import DROP, MailServer

Increase = Callable[..., float]


@pytest.fixture
def routing(worker: Services, account_id: int) -> Iterator[Routing]:
    with routing_of(worker, account_id) as made:
        yield made


def amount(name: str, **labels: str) -> float:
    """What a scrape shows. Only that metric is written: there are thousands of samples of the transports of tests."""
    family = [family for family in metrics.families() if name.startswith(family.name)]
    return value(parsed(exposed(family).decode(), name), name, **labels)


@pytest.fixture
def increase() -> Increase:
    """`increase(name, **labels)`: by how much a sample has grown since the test began."""
    before = metrics.exposition().decode()

    def of(name: str, **labels: str) -> float:
        return amount(name, **labels) - value(parsed(before, name), name, **labels)

    return of


def test_connections_are_counted_when_they_are_opened_and_shown_while_they_are_used(
    rows: Rows, make_worker: Changed, mail_server: MailServer, start_drain: StartDrain, increase: Increase
) -> None:
    worker = make_worker(send_connections=3)
    rows.add_send(["ann@a.example", "bob@a.example"])
    with mail_server.hold_answers():
        draining = start_drain(worker)
        wait_until(lambda: len(mail_server.unanswered) == 2, "two connections wait")
        assert increase("tms_transport_slots", transport="default", state="in_use") == 2
        assert increase("tms_transport_slots", transport="default", state="all") == 3
    draining.join()
    wait_until(lambda: increase("tms_transport_slots", transport="default", state="in_use") == 0, "both are free")
    email = {"type": "email", "transport": "default"}
    assert increase("tms_transport_connections_total", **email, result="opened") == 2
    assert increase("tms_transport_connections_total", **email, result="failed") == 0
    assert increase("tms_transport_replies_total", **email, reply="accepted") == 2
    assert increase("tms_transport_outcomes_total", **email, outcome="sent") == 2


@pytest.mark.parametrize(
    ("reply", "counted", "outcome"),
    [
        ("451 4.7.1 later", "temporary", "deferred"),
        ("550 5.1.1 nobody", "permanent", "bounced"),
        (DROP, "none", "uncertain"),
    ],
)
def test_an_answer_of_a_relay_is_counted_by_its_class_and_what_became_of_the_message(
    rows: Rows, worker: Services, mail_server: MailServer, increase: Increase, *, reply: str, counted: str, outcome: str
) -> None:
    mail_server.reply(".", reply)
    rows.add_send(["ann@a.example"])
    drain(worker)
    email = {"type": "email", "transport": "default"}
    assert increase("tms_transport_replies_total", **email, reply=counted) == 1
    assert increase("tms_transport_outcomes_total", **email, outcome=outcome) == 1
    live = {"type": "email", "account_class": "live"}
    assert increase("tms_recipient_outcomes_total", **live, outcome=outcome) == 1


def test_a_relay_of_a_route_that_is_away_is_set_aside_until_it_takes_a_message(
    rows: Rows,
    worker: Services,
    routing: Routing,
    mail_server: MailServer,
    *,
    monkeypatch: pytest.MonkeyPatch,
    increase: Increase,
) -> None:
    monkeypatch.setattr(base, "FIRST_BACKOFF", PATIENCE)
    gone, spare = routing.transport(away()), routing.transport(mail_server.url())
    routing.route(gone, spare)
    rows.add_send(["ann@a.example"])
    drain(worker)
    assert [amount("tms_transport_set_aside", transport=name) for name in (gone, spare)] == [1, 0]
    assert increase("tms_transport_backoffs_total", transport=gone) == 1
    assert increase("tms_transport_failovers_total", transport=gone) == 1
    to_gone = {"type": "email", "transport": gone}
    assert increase("tms_transport_connections_total", **to_gone, result="failed") == 1
    assert increase("tms_transport_replies_total", **to_gone, reply="none") == 1
    assert increase("tms_transport_outcomes_total", type="email", transport=spare, outcome="sent") == 1
    routing.change(gone, url=mail_server.url())
    rows.add_send(["bob@a.example"])
    drain(worker)
    assert amount("tms_transport_set_aside", transport=gone) == 0
    assert amount("tms_transport_slots", transport=gone, state="all") == worker.settings.send_connections


def deferrals(increase: Increase, type_: str = "email") -> dict[str, float]:
    """The reasons for which messages were deferred since the test began."""
    counts = {reason: increase("tms_deferrals_total", type=type_, reason=reason) for reason in metrics.REASONS}
    return {reason: number for reason, number in counts.items() if number}


def test_mail_that_cannot_be_handed_over_is_put_off_for_the_network(
    rows: Rows, make_worker: Changed, increase: Increase
) -> None:
    rows.add_send(["ann@a.example"])
    drain(make_worker(email_transport_url=away()))
    assert deferrals(increase) == {"network": 1}


def test_mail_to_a_domain_that_defers_is_put_off_by_its_back_off(
    rows: Rows, worker: Services, mail_server: MailServer, increase: Increase
) -> None:
    mail_server.reply(".", *[SLOW_DOWN] * FAILURE_THRESHOLD)
    rows.add_send([f"{number}@slow.example" for number in range(FAILURE_THRESHOLD)])
    drain(worker)
    assert deferrals(increase) == {"policy": FAILURE_THRESHOLD}
    rows.add_send(["ann@slow.example", "bob@slow.example"])
    drain(worker)
    assert deferrals(increase) == {"policy": FAILURE_THRESHOLD, "domain_backoff": 2}


def test_texts_beyond_the_rate_of_their_sender_are_put_off_by_it(
    rows: Rows, worker: Services, increase: Increase
) -> None:
    send(rows, add_sender(rows, 0.01), 4)
    drain(worker)
    assert deferrals(increase, "sms") == {"rate_limit": 3}


def test_texts_of_test_accounts_that_are_put_off_are_not_counted(
    rows: Rows, worker: Services, increase: Increase
) -> None:
    with rows.services.database.write() as transaction:
        transaction.execute(update(Account).where(Account.id == rows.account_id).values(test_of=rows.account_id))
    ids = send(rows, add_sender(rows, 0.01), 4)
    drain(worker)
    assert rows.states(ids) == ["sent", "queued", "queued", "queued"]
    assert deferrals(increase, "sms") == {}


def test_mail_beyond_the_rate_of_its_transport_is_put_off_by_it(
    rows: Rows, worker: Services, routing: Routing, mail_server: MailServer, increase: Increase
) -> None:
    routing.route(routing.transport(mail_server.url(), messages_per_second=0.01))
    rows.add_send([f"{number}@a.example" for number in range(4)])
    drain(worker)
    assert deferrals(increase) == {"transport": 3}


def test_mail_that_waits_for_results_of_its_send_is_put_off_by_the_quota_of_rendering(
    rows: Rows, make_worker: Changed, increase: Increase
) -> None:
    """Another worker has one of the two, which may render all that the send is allowed."""
    first, _second = rows.add_send([person(f"{n}@a.example", v="x") for n in range(2)], body_text="%%v%%")
    claimed = {"state": "sending", "worker": "another", "lease_time": rows.recipient(first).creation_time}
    rows.change([first], **{**claimed, "lease_time": rows.recipient(first).due_time.replace(year=2100)})
    drain(make_worker(max_send_bytes=100, max_body_bytes=100))
    assert deferrals(increase) == {"render_quota": 1}


def test_leases_of_a_dead_sender_are_counted_when_they_are_taken_over(
    rows: Rows, worker: Services, increase: Increase
) -> None:
    ids = claim_rows(worker, rows, "gone", 3)
    rows.change(ids, lease_time=rows.recipient(ids[0]).creation_time)
    recover_expired_leases(worker)
    assert increase("tms_leases_recovered_total", kind="recipients") == 3
    assert rows.states(ids) == ["queued"] * 3
