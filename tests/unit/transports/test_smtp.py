"""Mail over SMTP: the meaning of replies, and the life of a session (docs/transports.md)."""

from __future__ import annotations

import contextlib
import smtplib
import socket
from collections.abc import Callable
from typing import ClassVar, cast

import pytest

from app.transports.base import DeliveryResult, OutboundEmail, Outcome, Untaken
from app.transports.email import email_transport, smtp
from app.transports.email.smtp import NO_FINAL_REPLY
from app.transports.email.smtp_session import Dialogue
from tests.unit.transports.mailserver import DROP, WAIT, LineServer, MailServer

MakeMail = Callable[..., OutboundEmail]

GREETING = ["220 relay ready", "250 relay"]


def send(url: str, *mails: OutboundEmail) -> list[DeliveryResult]:
    connection = email_transport(url).connect()
    results = [connection.send(mail) for mail in mails]
    connection.close()
    return results


UNTAKEN = {
    **{("MAIL", code): Untaken.TRANSPORT for code in ("421", "451", "530", "535")},
    ("MAIL", "450"): Untaken.MESSAGE,
    **{(step, "421"): Untaken.TRANSPORT for step in ("ann@example.com", "DATA")},
}
"""Step and code -> what allows another transport to send the mail; any other answer counts."""


@pytest.mark.parametrize(
    "expected",
    [
        DeliveryResult.refused("550 5.1.1 no such user here", "5.1.1"),
        DeliveryResult.refused("552 5.2.2 mailbox full", "5.2.2"),
        DeliveryResult.refused("554 go away", "5.0.0"),
        DeliveryResult.deferred("451 4.3.0 try again later", "4.3.0"),
        DeliveryResult.deferred("450 greylisted", "4.0.0"),
        DeliveryResult.deferred("421 4.3.2 shutting down", "4.3.2"),
        DeliveryResult.deferred("530 5.7.0 authenticate first", "4.7.0"),
        DeliveryResult.deferred("535 5.7.8 wrong credentials", "4.7.8"),
    ],
    ids=lambda expected: expected.reply[:3],
)
@pytest.mark.parametrize("step", ["MAIL", "ann@example.com", "DATA", "."])
def test_the_reply_to_every_step_decides_the_outcome(
    server: MailServer, mail: MakeMail, step: str, expected: DeliveryResult
) -> None:
    server.reply(step, expected.reply)
    first, second = send(server.url(), mail(), mail())
    is_about_sender = step == "MAIL" and expected.outcome is Outcome.REFUSED
    assert first == expected._replace(untaken=UNTAKEN.get((step, expected.reply[:3])), about_sender=is_about_sender)
    assert second.outcome is Outcome.ACCEPTED
    assert len(server.mails) == 1


def test_the_result_of_an_accepted_mail_contains_the_reply(server: MailServer, mail: MakeMail) -> None:
    server.reply(".", "250 2.6.0 queued as 4711")
    assert send(server.url(), mail()) == [DeliveryResult(Outcome.ACCEPTED, "250 2.6.0 queued as 4711", "2.6.0")]


def test_a_forwarding_recipient_is_accepted(server: MailServer, mail: MakeMail) -> None:
    server.reply("ann@example.com", "251 2.1.5 will forward")
    assert send(server.url(), mail())[0].outcome is Outcome.ACCEPTED


def test_the_size_is_declared_where_the_server_asks_for_it(server: MailServer, mail: MakeMail) -> None:
    send(server.url(), mail(content=b"Subject: x\r\n\r\nx\r\n"))
    assert server.mails[0].options == ["SIZE=17"]


def test_a_mail_beyond_the_size_limit_of_the_server_is_refused(mail: MakeMail) -> None:
    with MailServer(data_size_limit=100) as server:
        (result,) = send(server.url(), mail(content=b"Subject: x\r\n\r\n" + b"x\r\n" * 100))
    assert (result.outcome, result.reply[:3]) == (Outcome.REFUSED, "552")


def test_an_empty_envelope_sender_is_allowed(server: MailServer, mail: MakeMail) -> None:
    assert send(server.url(), mail(envelope_from=""))[0].outcome is Outcome.ACCEPTED
    assert server.mails[0].sender == "<>"


def test_a_bare_line_end_cannot_end_the_message(server: MailServer, mail: MakeMail) -> None:
    content = b"Subject: x\r\n\r\na\n.\nMAIL FROM:<evil@example.com>\r.\rb"
    assert send(server.url(), mail(content=content))[0].outcome is Outcome.ACCEPTED
    assert [kept.content for kept in server.mails] == [
        b"Subject: x\r\n\r\na\r\n.\r\nMAIL FROM:<evil@example.com>\r\n.\r\nb\r\n"
    ]


# ---------------------------------------------------------------------------------------------- the session


def test_mails_share_a_session_and_it_ends_with_quit(server: MailServer, mail: MakeMail) -> None:
    send(server.url(), mail(), mail(), mail())
    assert server.sessions == 1
    assert server.commands == ["QUIT"]


def test_the_number_of_mails_per_session_is_limited(server: MailServer, mail: MakeMail) -> None:
    send(server.url("?messages=2"), *[mail() for _ in range(5)])
    assert server.sessions == 3
    assert server.commands == ["QUIT"] * 3
    assert len(server.mails) == 5


def test_no_connection_is_opened_before_the_first_mail(server: MailServer) -> None:
    email_transport(server.url()).connect().close()
    assert server.sessions == 0


def test_a_session_that_the_server_closed_when_idle_is_replaced(mail: MakeMail) -> None:
    with MailServer() as server:
        connection = email_transport(server.url()).connect()
        assert connection.send(mail()).outcome is Outcome.ACCEPTED
        server.end_sessions()
        assert server.closed.acquire(timeout=WAIT)
        assert connection.send(mail()).outcome is Outcome.ACCEPTED
        connection.close()
        assert server.sessions == 2
        assert len(server.mails) == 2


@pytest.mark.parametrize("fault", [DROP, "421 4.4.2 timeout exceeded"])
@pytest.mark.parametrize("step", ["MAIL", "ann@example.com", "DATA"])
def test_a_kept_session_lost_before_the_end_of_the_message_is_replaced_once(
    server: MailServer, mail: MakeMail, step: str, fault: str
) -> None:
    connection = email_transport(server.url()).connect()
    connection.send(mail())
    server.reply(step, fault)
    assert connection.send(mail()).outcome is Outcome.ACCEPTED
    connection.close()
    assert server.sessions == 2
    assert len(server.mails) == 2


@pytest.mark.parametrize("step", ["MAIL", "ann@example.com", "DATA"])
def test_a_second_loss_is_a_deferral(server: MailServer, mail: MakeMail, step: str) -> None:
    connection = email_transport(server.url()).connect()
    connection.send(mail())
    server.reply(step, DROP, DROP)
    result = connection.send(mail())
    connection.close()
    assert (result.outcome, result.status) == (Outcome.DEFERRED, "4.4.2")
    assert server.sessions == 2


@pytest.mark.parametrize("step", ["MAIL", "ann@example.com", "DATA"])
def test_a_new_session_that_is_lost_is_a_deferral(server: MailServer, mail: MakeMail, step: str) -> None:
    server.reply(step, DROP)
    (result,) = send(server.url(), mail())
    assert (result.outcome, result.status) == (Outcome.DEFERRED, "4.4.2")
    assert server.sessions == 1


def test_a_kept_session_lost_within_the_message_is_replaced_once(mail: MakeMail) -> None:
    taken = ["250 ok", "250 ok", "354 go ahead", "250 taken"]
    big = mail(content=b"Subject: big\r\n\r\n" + b"x" * 76 * 100_000 + b"\r\n")  # more than the kernel buffers
    with LineServer([*GREETING, *taken, *taken[:3]], [*GREETING, *taken, "221 bye"]) as relay:
        results = send(f"smtp://127.0.0.1:{relay.port}", mail(), big)
    assert results == [DeliveryResult.accepted("250 taken", "2.0.0")] * 2


def test_an_answer_to_a_complete_message_is_final_for_this_attempt(server: MailServer, mail: MakeMail) -> None:
    connection = email_transport(server.url()).connect()
    connection.send(mail())
    server.reply(".", "421 4.3.2 shutting down")
    assert connection.send(mail()) == DeliveryResult.deferred("421 4.3.2 shutting down", "4.3.2")
    assert server.sessions == 1


def test_a_mail_without_an_answer_is_never_sent_again_at_once(server: MailServer, mail: MakeMail) -> None:
    connection = email_transport(server.url()).connect()
    connection.send(mail())
    server.reply(".", DROP)
    result = connection.send(mail())
    assert result == DeliveryResult(Outcome.UNCERTAIN, NO_FINAL_REPLY, "4.4.2")
    assert server.sessions == 1
    assert connection.send(mail()).outcome is Outcome.ACCEPTED
    connection.close()
    assert server.sessions == 2


def test_a_session_that_cannot_be_reset_is_closed(server: MailServer, mail: MakeMail) -> None:
    server.reply("ann@example.com", "550 5.1.1 no such user here")
    server.reply("RSET", "500 what?")
    first, second = send(server.url(), mail(), mail())
    assert (first.outcome, first.status) == (Outcome.REFUSED, "5.1.1")
    assert second.outcome is Outcome.ACCEPTED
    assert server.sessions == 2


def test_a_refusal_stands_when_the_session_is_lost_after_it(server: MailServer, mail: MakeMail) -> None:
    server.reply("ann@example.com", "550 5.1.1 no such user here")
    server.reply("RSET", DROP)
    (result,) = send(server.url(), mail())
    assert result == DeliveryResult(Outcome.REFUSED, "550 5.1.1 no such user here", "5.1.1")


# ---------------------------------------------------------------------------------------------- timeouts


def test_a_server_that_does_not_answer_is_a_deferral(mail: MakeMail) -> None:
    with LineServer(["220 relay ready"]) as relay:
        (result,) = send(f"smtp://127.0.0.1:{relay.port}?timeout=1", mail())
    assert (result.outcome, result.status) == (Outcome.DEFERRED, "4.4.2")


def test_the_answer_to_a_complete_message_is_awaited_longer(
    server: MailServer, mail: MakeMail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This answer is awaited for several timeouts, and every other answer for one."""
    waits: list[int] = []
    receive = Dialogue._receive

    def noting(dialogue: Dialogue, patience: int) -> bytes:
        waits.append(patience)
        return receive(dialogue, patience)

    monkeypatch.setattr(Dialogue, "_receive", noting)
    (result,) = send(server.url(), mail())
    assert result.outcome is Outcome.ACCEPTED
    assert waits.pop() == 4
    assert set(waits) == {1}


@pytest.mark.parametrize("patience", [1, 4])
def test_the_wait_for_an_answer_is_limited_to_that_many_time_outs(patience: int) -> None:
    with contextlib.ExitStack() as stack:
        ours, theirs = (stack.enter_context(end) for end in socket.socketpair())
        waiting = _LateAnswer(ours, theirs, comes_at=patience)
        assert Dialogue(cast("smtplib.SMTP", waiting)).read_reply(patience).code == 250
        waiting = _LateAnswer(ours, theirs, comes_at=patience + 1)
        with pytest.raises(TimeoutError):
            Dialogue(cast("smtplib.SMTP", waiting)).read_reply(patience)
        assert waiting.tries == patience


@pytest.mark.parametrize("part", [b"2", b"250-again\r\n"])
def test_a_reply_that_comes_bit_by_bit_is_not_waited_for_without_end(part: bytes) -> None:
    """Each bit comes within the time-out of a read."""
    with contextlib.ExitStack() as stack:
        ours, theirs = (stack.enter_context(end) for end in socket.socketpair())
        dripping = _DrippingAnswer(ours, theirs, part)
        with pytest.raises(TimeoutError):
            Dialogue(cast("smtplib.SMTP", dripping)).read_reply()


class _DrippingAnswer:
    """A session whose server sends the same bytes for each read, after a tenth of the time-out."""

    esmtp_features: ClassVar[dict[str, str]] = {}
    timeout = 0.2

    def __init__(self, ours: socket.socket, theirs: socket.socket, part: bytes) -> None:
        self.sock, self.settimeout = self, ours.settimeout
        self._ours, self._theirs, self._part = ours, theirs, part

    def recv(self, size: int) -> bytes:
        with contextlib.suppress(TimeoutError):
            self._ours.settimeout(self.timeout / 10)
            self._ours.recv(size)
        self._theirs.sendall(self._part)
        return self._ours.recv(size)


class _LateAnswer:
    """A session whose server answers only after a number of reads have timed out."""

    esmtp_features: ClassVar[dict[str, str]] = {}
    timeout = 0.05

    def __init__(self, ours: socket.socket, theirs: socket.socket, *, comes_at: int) -> None:
        self.sock, self.tries = self, 0
        self._ours, self._theirs, self._comes_at = ours, theirs, comes_at
        ours.settimeout(self.timeout)

    def recv(self, size: int) -> bytes:
        self.tries += 1
        if self.tries == self._comes_at:
            self._theirs.sendall(b"250 at last\r\n")
        return self._ours.recv(size)


def test_a_message_without_an_answer_is_uncertain(
    server: MailServer, mail: MakeMail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only for this answer is the wait short."""
    receive = Dialogue._receive

    def hurried(dialogue: Dialogue, timeouts: int) -> bytes:
        if timeouts == smtp.DATA_TIMEOUTS:
            dialogue._socket.settimeout(0.05)
        return receive(dialogue, timeouts)

    monkeypatch.setattr(Dialogue, "_receive", hurried)
    with server.hold_answers():
        assert send(server.url(), mail()) == [DeliveryResult(Outcome.UNCERTAIN, NO_FINAL_REPLY, "4.4.2")]


# ---------------------------------------------------------------------------------------------- unusual servers


@pytest.mark.parametrize(
    ("conversation", "reply", "status"),
    [
        (["554 5.3.2 not today"], "554 5.3.2 not today", "4.3.2"),
        (["421 4.7.0 too many connections"], "421 4.7.0 too many connections", "4.7.0"),
        (["220 relay ready", "550 no", "550 5.7.1 who are you?"], "550 5.7.1 who are you?", "4.7.1"),
    ],
)
def test_a_refusal_before_the_recipient_is_named_is_a_deferral(
    mail: MakeMail, conversation: list[str], reply: str, status: str
) -> None:
    with LineServer(conversation) as relay:
        (result,) = send(f"smtp://127.0.0.1:{relay.port}", mail())
    assert result == DeliveryResult.deferred(reply, status, untaken=Untaken.TRANSPORT)


@pytest.mark.parametrize(
    "conversation",
    [
        ["SSH-2.0-OpenSSH_9.2"],
        [*GREETING, "hello"],
        [*GREETING, "250 ok", "199 hm"],
        [*GREETING, "250 ok", "250 ok", "25O ok"],
        [*GREETING, "250 ok", "250 ok", "250 yes please", "250 cleared"],
        [*GREETING, "250 ok", "250 ok", "354 go ahead", "gone"],
        [*GREETING, "250 ok", "250 ok", "354 go ahead", "354 go on"],
        [*GREETING, "250 " + "x" * 9000],
    ],
)
def test_a_server_that_does_not_speak_smtp_is_a_deferral(mail: MakeMail, conversation: list[str]) -> None:
    with LineServer(conversation) as relay:
        (result,) = send(f"smtp://127.0.0.1:{relay.port}", mail())
    assert result.outcome is (Outcome.UNCERTAIN if result.reply == NO_FINAL_REPLY else Outcome.DEFERRED)
    assert result.status is not None
    assert result.status.startswith("4.")


def test_a_server_without_ehlo_is_supported(mail: MakeMail) -> None:
    conversation = ["220 relay", "502 what?", "250 hello", "250 ok", "250 ok", "354 go ahead", "250 taken", "221 bye"]
    with LineServer(conversation) as relay:
        (result,) = send(f"smtp://127.0.0.1:{relay.port}", mail())
    assert result == DeliveryResult(Outcome.ACCEPTED, "250 taken", "2.0.0")
    assert b"MAIL FROM:<shop@main.example>\r\n" in relay.lines


def test_a_host_without_an_address_is_a_deferral(mail: MakeMail) -> None:
    (result,) = send("smtp://no-such-host.invalid", mail())
    assert (result.outcome, result.status) == (Outcome.DEFERRED, "4.4.1")


# ---------------------------------------------------------------------------------------------- addresses


def test_an_international_domain_is_sent_in_its_ascii_form(server: MailServer, mail: MakeMail) -> None:
    send(server.url(), mail(to="ann@bücher.example", envelope_from="shop@münchen.example"))
    (kept,) = server.mails
    assert (kept.sender, kept.recipients) == ("shop@xn--mnchen-3ya.example", ["ann@xn--bcher-kva.example"])
    assert "SMTPUTF8" not in kept.options


def test_an_international_local_part_needs_smtputf8(server: MailServer, mail: MakeMail) -> None:
    assert send(server.url(), mail(to="zoë@bücher.example"))[0].outcome is Outcome.ACCEPTED
    (kept,) = server.mails
    assert kept.recipients == ["zoë@xn--bcher-kva.example"]
    assert "SMTPUTF8" in kept.options


def test_utf8_in_the_message_is_declared(server: MailServer, mail: MakeMail) -> None:
    content = "Reply-To: zoë@main.example\r\n\r\nx\r\n".encode()
    assert send(server.url(), mail(content=content))[0].outcome is Outcome.ACCEPTED
    assert {"SMTPUTF8", "BODY=8BITMIME"} <= set(server.mails[0].options)
    assert server.mails[0].content == content


def test_without_smtputf8_an_international_local_part_is_refused(mail: MakeMail) -> None:
    with MailServer(enable_SMTPUTF8=False) as server:
        first, second = send(server.url(), mail(to="zoë@example.com"), mail(to="ann@bücher.example"))
        assert (first.outcome, first.status) == (Outcome.REFUSED, "5.6.7")
        assert second.outcome is Outcome.ACCEPTED
        assert len(server.mails) == 1


def test_without_smtputf8_an_international_sender_does_not_bounce_the_recipient(mail: MakeMail) -> None:
    with MailServer(enable_SMTPUTF8=False) as server:
        results = send(
            server.url(), mail(envelope_from="zoë@main.example"), mail(content="Reply-To: ä@b.example\r\n\r\n".encode())
        )
    assert [(result.outcome, result.status) for result in results] == [(Outcome.DEFERRED, "4.6.7")] * 2


@pytest.mark.parametrize("address", ["", "a@b.example>\r\nRCPT TO:<c@d.example", "a b@c.example", "a\udc80@b.example"])
def test_a_recipient_address_cannot_inject_a_command(server: MailServer, mail: MakeMail, address: str) -> None:
    (result,) = send(server.url(), mail(to=address))
    assert (result.outcome, result.status) == (Outcome.REFUSED, "5.1.3")
    assert server.mails == []


def test_a_sender_address_cannot_inject_a_command(server: MailServer, mail: MakeMail) -> None:
    (result,) = send(server.url(), mail(envelope_from="a@b.example>\r\nRCPT TO:<c@d.example"))
    assert (result.outcome, result.status) == (Outcome.DEFERRED, "4.1.7")
    assert server.mails == []
