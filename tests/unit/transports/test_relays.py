"""Several relays: their order, and the back-off after a failure (docs/transports.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from app.transports.base import FIRST_BACKOFF, MAX_BACKOFF, DeliveryResult, OutboundEmail, Outcome, TransportUrlError
from app.transports.email import email_transport
from app.transports.email.relays import RelayTransport
from app.transports.email.smtp import smtp_transport
from tests.support.servers import free_port
from tests.unit.transports.mailserver import DROP, LineServer, MailServer

MakeMail = Callable[..., OutboundEmail]
HELLO = ["220 relay ready", "250-relay", "250 PIPELINING"]


@pytest.fixture
def second() -> Iterator[MailServer]:
    with MailServer() as running:
        yield running


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.moment = 1000.0

    def __call__(self) -> float:
        return self.moment


def send(url: str, *mails: OutboundEmail) -> list[DeliveryResult]:
    connection = email_transport(url).connect()
    results = [connection.send(mail) for mail in mails]
    connection.close()
    return results


def away() -> str:
    return f"smtp://127.0.0.1:{free_port()}"


def test_the_first_relay_is_preferred(server: MailServer, second: MailServer, mail: MakeMail) -> None:
    send(f"{server.url()}, {second.url()}", mail(), mail())
    assert (len(server.mails), second.sessions) == (2, 0)


def test_the_next_relay_is_used_at_once(server: MailServer, mail: MakeMail) -> None:
    results = send(f"{away()},{server.url()}", mail(), mail())
    assert [result.outcome for result in results] == [Outcome.ACCEPTED] * 2
    assert server.sessions == 1


@pytest.mark.parametrize("greeting", [["554 5.3.2 not today"], ["421 4.7.0 too many"], ["SSH-2.0"]])
def test_a_relay_that_refuses_the_connection_is_skipped(
    server: MailServer, mail: MakeMail, greeting: list[str]
) -> None:
    with LineServer(greeting) as relay:
        (result,) = send(f"smtp://127.0.0.1:{relay.port},{server.url()}", mail())
    assert result.outcome is Outcome.ACCEPTED


@pytest.mark.parametrize("step", ["ann@example.com", "."])
@pytest.mark.parametrize("reply", ["550 5.1.1 no", "451 4.3.0 later", DROP])
def test_an_answer_about_the_message_is_final(
    server: MailServer, second: MailServer, mail: MakeMail, step: str, reply: str
) -> None:
    """Another relay would deliver a message that the first may have accepted."""
    server.reply(step, reply)
    (result,) = send(f"{server.url()},{second.url()}", mail())
    assert result.outcome is not Outcome.ACCEPTED
    assert second.sessions == 0


@pytest.mark.parametrize(
    ("step", "reply"),
    [
        ("MAIL", "452 4.3.1 disk full"),
        ("MAIL", "530 5.7.0 authenticate first"),
        ("MAIL", "421 4.3.2 going down"),
        ("ann@example.com", "421 4.3.2 going down"),
    ],
)
def test_a_relay_that_accepts_no_messages_now_is_skipped(
    server: MailServer, second: MailServer, mail: MakeMail, step: str, reply: str
) -> None:
    """The relay answered before the recipient, or closed before the message, so it cannot have accepted the message."""
    server.reply(step, reply)
    results = send(f"{server.url()},{second.url()}", mail(), mail())
    assert [result.outcome for result in results] == [Outcome.ACCEPTED] * 2
    assert (len(server.mails), server.sessions, second.sessions) == (0, 1, 1)


@pytest.mark.parametrize(
    "reply", ["451 4.7.1 you again", "450 4.1.8 no such domain", "451 later", "550 5.7.1 not you", "421 4.7.0 bye"]
)
def test_a_relay_that_defers_one_sender_stays_available_to_the_others(
    server: MailServer, second: MailServer, mail: MakeMail, reply: str
) -> None:
    """If the relay were set aside for all, the reputation of one account would decide the route of the others' mail."""
    server.reply("MAIL", reply)
    results = send(f"{server.url()},{second.url()}", mail(), mail())
    passed_over, is_set_aside = reply.startswith("4"), reply.startswith("421")
    assert [result.outcome is Outcome.ACCEPTED for result in results] == [passed_over, True]
    assert (len(server.mails), len(second.mails)) == (0 if is_set_aside else 1, passed_over + is_set_aside)


def test_one_message_probes_a_backed_off_relay(server: MailServer, mail: MakeMail) -> None:
    """The others do not wait for it, however long the relay does not answer."""
    clock = Clock()
    transport = RelayTransport([smtp_transport(away()), smtp_transport(server.url())], clock)
    first = transport._relays[0]
    first.report(reached=False)
    clock.moment = first.backoff_until
    assert first.begin()
    connection = transport.connect()
    assert connection.send(mail()).outcome is Outcome.ACCEPTED
    connection.close()
    assert first.backoff_until == clock.moment, "it was asked a second time"
    first.report(reached=False)
    assert first.backoff_until > clock.moment


def test_without_a_working_relay_the_message_is_deferred(mail: MakeMail) -> None:
    (result,) = send(f"{away()},{away()}", mail())
    assert (result.outcome, result.status) == (Outcome.DEFERRED, "4.4.1")


def test_the_pause_of_a_failing_relay_grows(server: MailServer, mail: MakeMail) -> None:
    clock = Clock()
    with LineServer(*[["554 no"]] * 4) as relay:
        transport = RelayTransport(
            [smtp_transport(f"smtp://127.0.0.1:{relay.port}"), smtp_transport(server.url())], clock
        )
        connection, (first, _) = transport.connect(), transport._relays
        rests = []
        for _ in range(4):
            connection.send(mail())
            rests.append(first.backoff_until - clock.moment)
            connection.send(mail())  # it is not tried during the back-off
            clock.moment = first.backoff_until
        connection.close()
    assert rests == [FIRST_BACKOFF * 2**number for number in range(4)]
    assert len(server.mails) == 8


def test_an_answer_ends_the_pause_of_a_relay(server: MailServer, second: MailServer, mail: MakeMail) -> None:
    clock = Clock()
    transport = RelayTransport([smtp_transport(server.url()), smtp_transport(second.url())], clock)
    first = transport._relays[0]
    for _ in range(20):
        first.report(reached=False)
        clock.moment = first.backoff_until
    first.report(reached=False)
    assert first.backoff_until - clock.moment == MAX_BACKOFF
    clock.moment = first.backoff_until
    connection = transport.connect()
    connection.send(mail())
    connection.close()
    assert (len(server.mails), first.backoff_until) == (1, 0)


def test_when_all_relays_are_paused_the_next_one_to_return_is_asked(server: MailServer, mail: MakeMail) -> None:
    transport = RelayTransport([smtp_transport(away()), smtp_transport(server.url())], Clock())
    gone, well = transport._relays
    well.report(reached=False)
    gone.report(reached=False)
    well.backoff_until -= 1
    connection = transport.connect()
    assert connection.send(mail()).outcome is Outcome.ACCEPTED
    connection.close()


def test_an_invalid_relay_is_reported_without_its_password() -> None:
    with pytest.raises(TransportUrlError) as caught:
        email_transport("smtp://a,smtp://u:secret@b?tls=maybe")
    assert str(caught.value) == "smtp://b: tls is require or none"


def test_a_password_may_contain_a_comma(mail: MakeMail) -> None:
    with MailServer(users={"ann": "a,b"}) as server:
        (result,) = send(server.url(credentials="ann:a,b@"), mail())
    assert result.outcome is Outcome.ACCEPTED


# ---------------------------------------------------------------------------------------------- pipelining


def test_a_relay_with_pipelining_gets_all_commands_at_once(mail: MakeMail) -> None:
    taken = ["250 sender", "250 recipient", "354 go ahead", "250 taken"]
    with LineServer([*_hello(), *taken, "221 bye"]) as relay:
        (result,) = send(f"smtp://127.0.0.1:{relay.port}", mail())
    assert result == DeliveryResult.accepted("250 taken", "2.0.0")
    assert relay.lines[1:4] == [b"MAIL FROM:<shop@main.example>\r\n", b"RCPT TO:<ann@example.com>\r\n", b"DATA\r\n"]


def test_a_refused_recipient_in_a_pipeline_is_refused(mail: MakeMail) -> None:
    replies = ["250 sender", "550 5.1.1 no such user", "554 no valid recipients", "250 cleared"]
    with LineServer([*_hello(), *replies, "221 bye"]) as relay:
        (result,) = send(f"smtp://127.0.0.1:{relay.port}", mail())
    assert result == DeliveryResult.refused("550 5.1.1 no such user", "5.1.1")
    assert relay.lines[4] == b"RSET\r\n"


def test_a_server_that_expects_a_message_without_recipients_is_disconnected(mail: MakeMail) -> None:
    replies = ["250 sender", "550 5.1.1 no such user", "354 go ahead"]
    with LineServer([*_hello(), *replies]) as relay:
        (result,) = send(f"smtp://127.0.0.1:{relay.port}", mail())
    assert result == DeliveryResult.refused("550 5.1.1 no such user", "5.1.1")
    assert len(relay.lines) == 4


def _hello() -> list[str]:
    """A greeting, and a one-line answer to EHLO."""
    return [HELLO[0], "\r\n".join(HELLO[1:])]
