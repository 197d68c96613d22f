"""A relay that refuses everything of an account is a fault of our own: messages wait, and nobody is blocked
(docs/retries.md#a-relay-that-refuses-everything)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from sqlalchemy import delete, select, update

from app.clock import now
from app.db.models import BlockedAddress, RecipientStep, RelayRefusal, SoftBounces
from app.routing.table import DEFAULT_TRANSPORT
from app.sends.delivery.claim import claim
from app.sends.delivery.drain import drain
from app.sends.outcomes.attempt_result import AttemptResult
from app.sends.outcomes.domain_deferrals import FIRST_LOOK, PROBE_TIMEOUT
from app.sends.outcomes.recovery import resolve_uncertain
from app.sends.outcomes.relay_refusals import MAX_INTERVAL, MIN_REFUSING_DOMAINS, NO_SMTPUTF8, WINDOW, is_refusal
from app.sends.outcomes.transitions import RetryRules
from app.sends.outcomes.write import write_outcomes
from app.services import Services
from app.transports.base import DeliveryResult
from tests.jobs.delivery.conftest import Changed
from tests.support.cases import each
from tests.support.routing import Routing, routing_of
from tests.support.rows import Rows
from tests.support.servers import PATIENCE, free_port
from tests.support.statements import StatementCounter
from tests.unit.transports.mailserver import MailServer

RELAY_DENIED = "554 5.7.1 Relay access denied"
UNAUTHENTICATED = "550 5.7.26 This mail is unauthenticated"
NO_SUCH_USER = "550 5.1.1 no such user here"
FIRST_DELAY = 30.0


@pytest.fixture(autouse=True)
def _one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """The outcomes of a batch are written together, however slow the machine is."""
    monkeypatch.setattr("app.sends.delivery.drain.WRITE_AFTER", PATIENCE)


def people(*domains: str) -> list[str]:
    return [f"ann@{domain}.example" for domain in domains]


def refusals(rows: Rows) -> list[RelayRefusal]:
    with rows.services.database.read() as session:
        criteria = RelayRefusal.account_id == rows.account_id
        return list(session.scalars(select(RelayRefusal).where(criteria).order_by(RelayRefusal.id)))


def change_refusals(rows: Rows, **values: object) -> None:
    with rows.services.database.write() as transaction:
        transaction.execute(update(RelayRefusal).where(RelayRefusal.account_id == rows.account_id).values(**values))


def make_next_try_due(rows: Rows, ids: list[int]) -> None:
    change_refusals(rows, until_time=now() - timedelta(seconds=1))
    rows.make_due([recipient_id for recipient_id in ids if rows.recipient(recipient_id).state == "queued"])


def is_nobody_blocked(rows: Rows) -> bool:
    """Whether no address is blocked, and none is counted towards it by temporary bounces."""
    with rows.services.database.read() as session:
        queries = (
            select(model.id).where(model.account_id == rows.account_id) for model in (BlockedAddress, SoftBounces)
        )
        return not any(session.scalars(query).all() for query in queries)


@pytest.fixture
def waiting(rows: Rows, worker: Services, mail_server: MailServer) -> list[int]:
    """Recipients of three domains, whom the relay has refused in one batch."""
    mail_server.always["RCPT"] = RELAY_DENIED
    ids = rows.add_send(people("a", "b", "c"))
    drain(worker)
    return ids


@pytest.fixture
def routing(worker: Services, account_id: int) -> Iterator[Routing]:
    with routing_of(worker, account_id) as made:
        yield made


@each(
    ("result", "expected"),
    [
        (DeliveryResult.refused(RELAY_DENIED, "5.7.1"), True),
        (DeliveryResult.refused(UNAUTHENTICATED, "5.7.26"), True),
        (DeliveryResult.refused("554 no", "5.0.0"), True),
        (DeliveryResult.refused("503 5.5.1 bad sequence of commands", "5.5.1"), True),
        (DeliveryResult.refused(NO_SUCH_USER, "5.1.1"), False),
        (DeliveryResult.refused("the relay has no SMTPUTF8, which this address needs", NO_SMTPUTF8), False),
        (DeliveryResult.deferred("451 4.7.1 later", "4.7.1"), False),
        (DeliveryResult.accepted("250 ok"), False),
        (None, False),
    ],
)
def test_a_permanent_refusal_that_speaks_of_no_mailbox_counts(result: DeliveryResult | None, expected: bool) -> None:
    assert is_refusal(AttemptResult(1, 1, "ann@a.example", now(), result)) is expected


@pytest.mark.parametrize(
    ("step", "reply"), [("RCPT", RELAY_DENIED), (".", UNAUTHENTICATED), ("MAIL", "550 5.7.1 not from here")]
)
def test_messages_wait_when_recipients_of_three_domains_are_refused(
    rows: Rows, worker: Services, mail_server: MailServer, step: str, reply: str
) -> None:
    mail_server.always[step] = reply
    ids = rows.add_send(people("a", "b", "c"))
    drain(worker)
    assert rows.states(ids) == ["queued"] * 3
    assert {rows.steps(recipient_id)[-1] for recipient_id in ids} == {("deferred", reply)}
    (refusal,) = refusals(rows)
    assert (refusal.transport, refusal.reply, refusal.ended_time) == (DEFAULT_TRANSPORT, reply, None)
    assert is_nobody_blocked(rows)


def test_refusals_that_several_workers_see_are_added_up(
    rows: Rows, make_worker: Changed, mail_server: MailServer
) -> None:
    """Messages that were refused before the refusal was noticed have ended."""
    mail_server.always["RCPT"] = RELAY_DENIED
    ids = []
    for domain in ("a", "b", "c"):
        ids += rows.add_send(people(domain))
        drain(make_worker())
    assert rows.states(ids) == ["bounced", "bounced", "queued"]
    (refusal,) = refusals(rows)
    assert refusal.noticed_time is not None
    assert refusal.first_time < refusal.noticed_time
    assert is_nobody_blocked(rows)


@pytest.mark.parametrize("domains", [("a", "a", "a", "a"), ("a", "b", "a", "b")])
def test_refusals_of_fewer_domains_end_their_messages(
    rows: Rows, worker: Services, mail_server: MailServer, domains: tuple[str, ...]
) -> None:
    """A provider's rule is no fault of the relay."""
    mail_server.always["RCPT"] = RELAY_DENIED
    ids = rows.add_send(people(*domains))
    drain(worker)
    assert rows.states(ids) == ["bounced"] * 4
    assert [refusal.noticed_time for refusal in refusals(rows)] == [None]


def test_refusals_of_mailboxes_say_nothing_of_the_relay(rows: Rows, worker: Services, mail_server: MailServer) -> None:
    mail_server.always["RCPT"] = NO_SUCH_USER
    ids = rows.add_send(people("a", "b", "c"))
    drain(worker)
    assert (rows.states(ids), refusals(rows)) == (["bounced"] * 3, [])


def test_a_message_that_is_accepted_meanwhile_shows_that_the_relay_works(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    """In the same batch, or in one between."""
    mail_server.script["ann@c.example"].extend([RELAY_DENIED] * 2)
    for domains in (["a"], ["b", "good"], ["b"], ["good"], ["c", "good"], ["c"]):
        for domain in domains:
            if domain != "good":
                mail_server.reply(f"ann@{domain}.example", RELAY_DENIED)
        rows.add_send(people(*domains))
        drain(worker)
    assert [refusal.noticed_time for refusal in refusals(rows)] == [None]
    rows.add_send(people("good"))
    drain(worker)
    assert refusals(rows) == []


def test_refusals_that_are_further_apart_end_their_messages(
    rows: Rows, worker: Services, mail_server: MailServer
) -> None:
    mail_server.always["RCPT"] = RELAY_DENIED
    first = rows.add_send(people("a", "b"))
    drain(worker)
    (refusal,) = refusals(rows)
    past = {domain: _earlier(time) for domain, time in refusal.domains.items()}
    change_refusals(rows, domains=past, last_time=refusal.last_time - WINDOW)
    late = rows.add_send(people("c"))
    drain(worker)
    assert rows.states([*first, *late]) == ["bounced"] * 3
    assert len(refusals(rows)[0].domains) == 1


def _earlier(time: str) -> str:
    return (datetime.fromisoformat(time) - WINDOW).isoformat()


def test_further_messages_wait_without_an_attempt(
    rows: Rows, worker: Services, mail_server: MailServer, waiting: list[int]
) -> None:
    ids = rows.add_send(people("d", "e"))
    drain(worker)
    (refusal,) = refusals(rows)
    for recipient_id in ids:
        recipient = rows.recipient(recipient_id)
        assert (recipient.state, recipient.attempts, rows.steps(recipient_id)) == ("queued", 0, [])
        assert recipient.due_time == refusal.until_time


def test_another_account_is_not_held_up(
    rows: Rows, other_id: int, worker: Services, mail_server: MailServer, waiting: list[int]
) -> None:
    mail_server.always.clear()
    ids = Rows(worker, other_id).add_send(people("a", "b", "c"))
    drain(worker)
    assert rows.states(ids) == ["delivered"] * 3
    assert [refusal.ended_time for refusal in refusals(rows)] == [None], "what others deliver ends nothing"


def test_one_message_is_tried_at_growing_intervals(
    rows: Rows, worker: Services, mail_server: MailServer, waiting: list[int]
) -> None:
    intervals = [_interval(rows)]
    for _ in range(5):
        attempts = sum(rows.recipient(recipient_id).attempts for recipient_id in waiting)
        make_next_try_due(rows, waiting)
        drain(worker)
        assert sum(rows.recipient(recipient_id).attempts for recipient_id in waiting) == attempts + 1
        intervals.append(_interval(rows))
    for number, interval in enumerate(intervals[:4]):
        assert interval == pytest.approx(FIRST_DELAY * 2**number * 1.05, rel=0.2)
    assert intervals[-1] == pytest.approx(MAX_INTERVAL, rel=0.1)


def _interval(rows: Rows) -> float:
    """Seconds to the next try."""
    (refusal,) = refusals(rows)
    assert refusal.until_time is not None
    return (refusal.until_time - now()).total_seconds()


def test_others_wait_for_the_result_of_the_probe(
    rows: Rows, worker: Services, mail_server: MailServer, waiting: list[int]
) -> None:
    """Whichever worker claims them. They look for it after a few seconds, and then wait until the timeout."""
    make_next_try_due(rows, waiting)
    mail_server.always = {"RCPT": "451 4.3.0 later"}
    drain(worker)
    (refusal,) = refusals(rows)
    assert refusal.probe_id in waiting
    others = [recipient_id for recipient_id in waiting if recipient_id != refusal.probe_id]
    assert refusal.until_time is not None
    first_look = refusal.until_time - timedelta(seconds=PROBE_TIMEOUT - FIRST_LOOK)
    assert [rows.recipient(recipient_id).due_time for recipient_id in others] == [first_look] * 2
    change_refusals(rows, until_time=now() + timedelta(seconds=PROBE_TIMEOUT - FIRST_LOOK))
    rows.make_due(others)
    drain(worker)
    assert {rows.recipient(recipient_id).due_time for recipient_id in others} == {refusals(rows)[0].until_time}


def test_the_probe_is_not_always_the_same_message(
    rows: Rows, worker: Services, mail_server: MailServer, waiting: list[int]
) -> None:
    """One that is refused for itself must not stand for all others."""
    probes = []
    for _ in range(3):
        before = {recipient_id: rows.recipient(recipient_id).attempts for recipient_id in waiting}
        make_next_try_due(rows, waiting)
        drain(worker)
        probes += [
            recipient_id for recipient_id in waiting if rows.recipient(recipient_id).attempts > before[recipient_id]
        ]
    assert sorted(probes) == sorted(waiting)


def test_all_go_on_when_the_relay_accepts_again(
    rows: Rows, worker: Services, mail_server: MailServer, waiting: list[int]
) -> None:
    """Messages that another worker claims right after the try are sent as well."""
    mail_server.always.clear()
    make_next_try_due(rows, waiting)
    drain(worker)
    (refusal,) = refusals(rows)
    assert refusal.ended_time is not None
    assert rows.states(waiting).count("delivered") == 1
    new = rows.add_send(people("d"))
    rows.make_due([recipient_id for recipient_id in waiting if rows.recipient(recipient_id).state == "queued"])
    drain(worker)
    assert rows.states([*waiting, *new]) == ["delivered"] * 4


def test_a_relay_that_refuses_again_later_is_noticed_again(
    rows: Rows, worker: Services, mail_server: MailServer, waiting: list[int]
) -> None:
    mail_server.always.clear()
    make_next_try_due(rows, waiting)
    drain(worker)
    mail_server.always["RCPT"] = RELAY_DENIED
    ids = rows.add_send(people("a", "b", "c"))
    drain(worker)
    assert rows.states(ids) == ["queued"] * 3
    assert [refusal.ended_time is None for refusal in refusals(rows)] == [False, True]


def test_a_mailbox_that_does_not_exist_bounces_meanwhile(
    rows: Rows, worker: Services, mail_server: MailServer, waiting: list[int]
) -> None:
    mail_server.always = {"RCPT": NO_SUCH_USER}
    make_next_try_due(rows, waiting)
    drain(worker)
    assert sorted(rows.states(waiting)) == ["bounced", "queued", "queued"]
    assert [refusal.ended_time for refusal in refusals(rows)] == [None]


def test_at_the_end_of_the_retry_period_messages_bounce_and_nothing_is_counted(
    rows: Rows, make_worker: Changed, mail_server: MailServer
) -> None:
    """Each message is attempted once more, even one that was never attempted."""
    worker = make_worker(retry_period=3600)
    mail_server.always["RCPT"] = RELAY_DENIED
    ids = rows.add_send(people("a", "b", "c"), accepted=now() - timedelta(seconds=3590))
    drain(worker)
    (refusal,) = refusals(rows)
    end = rows.recipient(ids[0]).creation_time + timedelta(hours=1)
    assert all(rows.recipient(recipient_id).due_time == end for recipient_id in ids)
    old = rows.add_send(people("d", "e"), accepted=now() - timedelta(hours=2))
    young = rows.add_send(people("f"), accepted=now() - timedelta(seconds=3590))
    drain(worker)
    assert rows.states(old) == ["bounced", "bounced"]
    assert rows.recipient(young[0]).due_time <= min(end, refusal.until_time or end) + timedelta(seconds=10)
    assert is_nobody_blocked(rows)


@pytest.mark.parametrize("away", [True, False])
def test_what_ends_while_its_relay_is_away_counts_as_no_temporary_bounce(
    rows: Rows, make_worker: Changed, mail_server: MailServer, away: bool
) -> None:
    """A message that the mail server itself has deferred to the end counts as one."""
    mail_server.always["RCPT"] = "452 4.2.2 mailbox full"
    url = f"smtp://127.0.0.1:{free_port()}" if away else mail_server.url()
    (ann,) = rows.add_send(people("a"), accepted=now() - timedelta(hours=2))
    drain(make_worker(retry_period=3600, email_transport_url=url))
    assert rows.states([ann]) == ["bounced"]
    assert is_nobody_blocked(rows) is away


def test_messages_go_over_the_next_transport_of_their_route(
    rows: Rows, worker: Services, routing: Routing, mail_server: MailServer
) -> None:
    """Messages take the next transport as they do where a relay is away. One message still tries the first transport at
    each interval."""
    with MailServer() as spare_server:
        mail_server.always["RCPT"] = RELAY_DENIED
        first, spare = routing.transport(mail_server.url()), routing.transport(spare_server.url())
        routing.route(first)
        ids = rows.add_send(people("a", "b", "c"))
        drain(worker)
        assert [refusal.transport for refusal in refusals(rows)] == [first]
        routing.route(first, spare, position=1)
        rows.make_due(ids)
        drain(worker)
        assert rows.states(ids) == ["delivered"] * 3
        assert [refusal.ended_time for refusal in refusals(rows)] == [None]
        mail_server.always.clear()
        more = rows.add_send(people("d", "e"))
        make_next_try_due(rows, more)
        drain(worker)
        assert (len(mail_server.mails), len(spare_server.mails)) == (1, 4)
        assert refusals(rows)[0].ended_time is not None


def statements_of_a_drain(rows: Rows, count: int, domain: str) -> int:
    """Loading and sending so many messages."""
    rows.add_send([f"{number}@{domain}{number}.example" for number in range(count)])
    with StatementCounter(rows.services.database.engine) as counted:
        drain(rows.services)
    assert not [
        statement
        for statement in counted.statements
        if statement.lstrip().startswith(("INSERT INTO relay", "UPDATE relay"))
    ]
    return counted.count


def statements_of_outcomes(rows: Rows, count: int, result: DeliveryResult) -> int:
    """Writing so many outcomes, each of another domain."""
    rows.add_send([f"{number}@{count}-{number}.example" for number in range(count)])
    database = rows.services.database
    with database.write() as transaction:
        claimed = claim(transaction, "w", size=100, after=0)
        results = [
            AttemptResult(recipient.id, recipient.attempts, recipient.email, now(), result, rendered=1)
            for recipient in claimed
        ]
        with StatementCounter(database.engine) as counted:
            made = write_outcomes(transaction, "w", results, RetryRules(30, 86_400))
    assert len(made) == count
    return counted.count


def test_the_refusals_of_another_account_add_no_statement(
    rows: Rows, other_id: int, worker: Services, mail_server: MailServer
) -> None:
    """Accepted messages need no further statement while the refusals are counted, nor once they were noticed."""
    before = statements_of_outcomes(rows, 20, DeliveryResult.accepted("250 ok"))
    others = Rows(worker, other_id)
    for domains in (("a",), ("b", "c")):
        mail_server.always["RCPT"] = RELAY_DENIED
        others.add_send(people(*domains))
        drain(worker)
        mail_server.always.clear()
        assert statements_of_outcomes(rows, 20, DeliveryResult.accepted("250 ok")) == before
        assert statements_of_a_drain(rows, 20, "x") > 0
    assert refusals(others)[0].noticed_time is not None


def test_refusals_take_as_many_statements_however_many_they_are(rows: Rows, worker: Services) -> None:
    refused = DeliveryResult.refused(RELAY_DENIED, "5.7.1")
    few = statements_of_outcomes(rows, 3, refused)
    with worker.database.write() as transaction:
        transaction.execute(delete(RelayRefusal))
    assert statements_of_outcomes(rows, 60, refused) == few


def test_evidence_of_arrival_ends_nothing(
    rows: Rows, worker: Services, mail_server: MailServer, waiting: list[int]
) -> None:
    """A message of before that turns out to have arrived says nothing of the relay of today."""
    (recipient_id,) = rows.add_send(people("d"))
    rows.change([recipient_id], state="uncertain", due_time=now() - timedelta(seconds=1), attempts=1)
    rows.add(RecipientStep, recipient_id=recipient_id, time=now(), step="opened")
    resolve_uncertain(worker)
    assert rows.states([recipient_id]) == ["delivered"]
    assert [refusal.ended_time for refusal in refusals(rows)] == [None]


def test_as_many_domains_as_tell_are_kept(rows: Rows, worker: Services, waiting: list[int]) -> None:
    assert len(refusals(rows)[0].domains) == MIN_REFUSING_DOMAINS
