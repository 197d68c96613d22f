"""Pipelining: the envelope of the next message follows the end of the one before (docs/transports.md)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import pytest

from app.transports.base import DeliveryResult, OutboundEmail, Outcome
from app.transports.email import email_transport
from app.transports.email.relays import Relay, RelayConnection
from app.transports.email.smtp import SmtpConnection, smtp_transport
from tests.support.servers import wait_until
from tests.unit.transports.mailserver import LineServer, MailServer

MakeMail = Callable[..., OutboundEmail]

HELLO = ["220 relay ready", "250-relay\r\n250 PIPELINING"]
INVITES = ["250 sender", "250 recipient", "354 go ahead"]
TAKEN = DeliveryResult.accepted("250 taken", "2.0.0")


def connect(relay: LineServer) -> SmtpConnection:
    return smtp_transport(f"smtp://127.0.0.1:{relay.port}").connect()


def send_each_with_the_next(connection: SmtpConnection, mails: Sequence[OutboundEmail]) -> list[DeliveryResult]:
    """Sends each mail with the one that follows it."""
    results = [connection.send(mail, following) for mail, following in zip(mails, [*mails[1:], None], strict=True)]
    connection.close()
    return results


def commands(relay: LineServer) -> str:
    """The first letter of each command line."""
    return "".join(line.decode()[:1].upper() for line in relay.lines if line[:1].upper() in b"EMRDQ")


def test_the_envelope_of_the_next_message_follows_the_end_of_the_one_before(mail: MakeMail) -> None:
    conversation = [*HELLO, *INVITES, "250 taken", *INVITES, "250 taken", "221 bye"]
    with LineServer(conversation) as relay:
        results = send_each_with_the_next(connect(relay), [mail("ann@example.com"), mail("bob@example.com")])
    assert results == [TAKEN, TAKEN]
    assert relay.behind == [b"MAIL FROM:<shop@main.example>\r\nRCPT TO:<bob@example.com>\r\nDATA\r\n", b""]
    assert commands(relay) == "EMRDMRDQ"


def test_without_the_extension_nothing_is_pipelined(mail: MakeMail) -> None:
    invites = ["250 sender", "250 recipient", "354 go ahead"]
    with LineServer(["220 relay ready", "250 relay", *invites, "250 taken", *invites, "250 taken", "221 bye"]) as relay:
        results = send_each_with_the_next(connect(relay), [mail(), mail()])
    assert results == [TAKEN, TAKEN]
    assert relay.behind == [b"", b""]


def test_a_refusal_of_the_pipelined_message_is_its_own_answer(mail: MakeMail) -> None:
    refusal = ["250 sender", "550 5.1.1 no such user", "554 no valid recipients", "250 cleared"]
    conversation = [*HELLO, *INVITES, "250 taken", *refusal, *INVITES, "250 taken", "221 bye"]
    with LineServer(conversation) as relay:
        results = send_each_with_the_next(connect(relay), [mail(), mail("nobody@example.com"), mail()])
    assert results == [TAKEN, DeliveryResult.refused("550 5.1.1 no such user", "5.1.1"), TAKEN]


def test_a_server_that_expects_a_pipelined_message_without_recipients_is_disconnected(mail: MakeMail) -> None:
    refusal = ["250 sender", "550 5.1.1 no such user", "354 go ahead"]
    second = [*HELLO, *INVITES, "250 taken", "221 bye"]
    with LineServer([*HELLO, *INVITES, "250 taken", *refusal], second) as relay:
        results = send_each_with_the_next(connect(relay), [mail(), mail("nobody@example.com"), mail()])
    assert results == [TAKEN, DeliveryResult.refused("550 5.1.1 no such user", "5.1.1"), TAKEN]


def test_without_an_answer_only_the_first_message_is_uncertain(mail: MakeMail) -> None:
    """The pipelined one has not been sent, so it is sent at once over a new session."""
    with LineServer([*HELLO, *INVITES], [*HELLO, *INVITES, "250 taken", "221 bye"]) as relay:
        first, second = send_each_with_the_next(connect(relay), [mail(), mail()])
    assert (first.outcome, second) == (Outcome.UNCERTAIN, TAKEN)
    assert commands(relay)[-5:] == "EMRDQ"


@pytest.mark.parametrize("answers", [[], ["250 sender"], ["421 closing"], ["250 sender", "421 closing"]])
def test_a_session_that_ends_during_pipelining_is_replaced(mail: MakeMail, answers: list[str]) -> None:
    with LineServer([*HELLO, *INVITES, "250 taken", *answers], [*HELLO, *INVITES, "250 taken", "221 bye"]) as relay:
        assert send_each_with_the_next(connect(relay), [mail(), mail()]) == [TAKEN, TAKEN]


@pytest.mark.parametrize(
    ("answers", "result"),
    [
        (["550 5.7.1 not you"], DeliveryResult.refused("550 5.7.1 not you", "5.7.1", about_sender=True)),
        (["250 sender", "550 5.1.1 no such user"], DeliveryResult.refused("550 5.1.1 no such user", "5.1.1")),
        (
            ["250 sender", "550 5.1.1 no such user", "421 closing"],
            DeliveryResult.refused("550 5.1.1 no such user", "5.1.1"),
        ),
        (["250 sender", "451 4.3.0 later"], DeliveryResult.deferred("451 4.3.0 later", "4.3.0")),
    ],
)
def test_the_first_negative_reply_decides_even_if_the_session_ends_behind_it(
    mail: MakeMail, answers: list[str], result: DeliveryResult
) -> None:
    with LineServer([*HELLO, *answers]) as relay:
        assert send_each_with_the_next(connect(relay), [mail()]) == [result]


@pytest.mark.parametrize("answers", [["421 4.3.2 going down"], ["452 4.3.1 disk full"]])
def test_a_relay_that_closes_the_session_behind_its_deferral_of_mail_is_skipped(
    mail: MakeMail, answers: list[str]
) -> None:
    with LineServer([*HELLO, *answers]) as first, LineServer([*HELLO, *INVITES, "250 taken", "221 bye"]) as second:
        connection = email_transport(f"smtp://127.0.0.1:{first.port},smtp://127.0.0.1:{second.port}").connect()
        assert connection.send(mail()) == TAKEN
        connection.close()


def test_a_server_that_expects_a_message_gets_no_command(mail: MakeMail) -> None:
    """QUIT would be read as text of the message."""
    with LineServer([*HELLO, *INVITES, "250 taken", *INVITES, "never sent"]) as relay:
        connection = connect(relay)
        assert connection.send(mail(), mail()) == TAKEN
        connection.close()
    assert commands(relay) == "EMRDMRD"


def test_another_message_than_the_pipelined_one_is_sent_over_a_new_session(mail: MakeMail) -> None:
    with LineServer(
        [*HELLO, *INVITES, "250 taken", *INVITES, "never sent"], [*HELLO, *INVITES, "250 taken", "221 bye"]
    ) as relay:
        connection = connect(relay)
        assert connection.send(mail(), mail("bob@example.com")) == TAKEN
        assert connection.send(mail("cyd@example.com")) == TAKEN
        connection.close()
    assert b"RCPT TO:<cyd@example.com>\r\n" in relay.lines


def test_a_session_at_its_maximum_of_mails_pipelines_nothing(mail: MakeMail) -> None:
    script = [*HELLO, *INVITES, "250 taken", "221 bye"]
    with LineServer(script, script) as relay:
        connection = smtp_transport(f"smtp://127.0.0.1:{relay.port}?messages=1").connect()
        assert send_each_with_the_next(connection, [mail(), mail()]) == [TAKEN, TAKEN]
    assert commands(relay) == "EMRDQEMRDQ"


def test_a_backed_off_relay_is_not_left_waiting_for_its_pipelined_message(mail: MakeMail) -> None:
    """Another connection finds it backed off meanwhile; the pipelined message is sent only to the next relay."""
    first = LineServer([*HELLO, *INVITES, "250 taken", *INVITES, "never sent"])
    with first, LineServer([*HELLO, *INVITES, "250 taken", "221 bye"]) as second:
        transports = [smtp_transport(f"smtp://127.0.0.1:{server.port}") for server in (first, second)]
        ways = [(Relay(transport, time.monotonic), transport.connect()) for transport in transports]
        connection = RelayConnection(ways)
        bob = mail("bob@example.com")
        assert connection.send(mail(), bob) == TAKEN
        ways[0][0].report(reached=False)
        assert connection.send(bob) == TAKEN
        assert commands(first) == "EMRDMRD"
        connection.close()
    assert b"RCPT TO:<bob@example.com>\r\n" in second.lines


def test_work_for_the_time_of_waiting_is_done_between_a_message_and_its_answer(mail: MakeMail) -> None:
    with MailServer() as relay, ExitStack() as held:
        held.enter_context(relay.hold_answers())

        def release_answer() -> None:
            wait_until(lambda: relay.unanswered, "the message has been sent")
            held.close()

        connection = smtp_transport(f"{relay.url()}?timeout=5").connect()
        assert connection.send(mail(), None, release_answer).outcome is Outcome.ACCEPTED
        connection.close()
