"""The process that receives inbound mail: `python -m jobs.inbound`."""

from __future__ import annotations

import resource
import signal
import smtplib
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from app.smtp_server.listener import MAX_SESSIONS_OF_NETWORK
from app.tracking.tokens import return_path
from tests.databases.running import Alone, alone
from tests.support.listeners import (
    MEGABYTE,
    MOST_GROWTH,
    ListenerProcess,
    connect,
    more_files,
    own_process,
    replies,
    resident,
    started,
)
from tests.support.mail_reports import delivery_failure
from tests.support.rows import FROM, Rows
from tests.support.servers import PATIENCE, free_port, wait_until


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_accepts_a_report_and_ends_when_asked(number: signal.Signals) -> None:
    """The listener does not wait for the end of an open connection."""
    port = free_port()
    with alone(None) as parts, started(parts, "jobs.inbound", INBOUND_LISTEN=f"127.0.0.1:{port}") as inbound:
        rows = Rows(parts.services, parts.tenant.id)
        (recipient_id,) = rows.add_send(["ann@example.com"])
        rows.change([recipient_id], state="delivered", attempts=1)
        to = return_path(parts.services.settings, recipient_id, FROM)
        assert "listening" in inbound.first_line()
        with smtplib.SMTP("127.0.0.1", port, timeout=PATIENCE) as client:
            assert client.sendmail("<>", [to], delivery_failure(to, "ann@example.com")) == {}
            assert rows.recipient(recipient_id).state == "bounced"
            inbound.process.send_signal(number)
            assert inbound.process.wait() == 0


def test_without_the_setting_it_waits_for_a_signal() -> None:
    """A process manager can always start the listener."""
    with alone(None) as parts, started(parts, "jobs.inbound") as inbound:
        assert "INBOUND_LISTEN is not set" in inbound.first_line()
        inbound.process.send_signal(signal.SIGTERM)
        assert inbound.process.wait() == 0


def test_a_port_in_use_is_reported_in_one_line() -> None:
    with alone(None) as parts, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with started(parts, "jobs.inbound", INBOUND_LISTEN=f"127.0.0.1:{taken.getsockname()[1]}") as inbound:
            assert inbound.process.wait() == 1
            (line,) = inbound.lines()
            assert line.startswith("INBOUND_LISTEN: cannot listen there: ")


def test_newer_code_takes_over_its_sockets(tmp_path: Path) -> None:
    """A message that is on its way is answered, and a client that connects meanwhile waits for its greeting."""
    port, log = free_port(), tmp_path / "log"
    with alone(None) as parts, own_process(parts, "jobs.inbound", log, INBOUND_LISTEN=f"127.0.0.1:{port}") as process:
        rows = Rows(parts.services, parts.tenant.id)
        first, second = rows.add_send(["ann@example.com", "bob@example.com"])
        rows.change([first, second], state="delivered", attempts=1)
        wait_until(lambda: "listening" in log.read_text(), "it listens")
        with smtplib.SMTP("127.0.0.1", port, timeout=PATIENCE) as client, smtplib.SMTP("127.0.0.1", port) as idle:
            to = return_path(parts.services.settings, first, FROM)
            client.ehlo()
            client.mail("<>")
            process.send_signal(signal.SIGUSR2)
            assert idle.getreply()[0] == 421
            with smtplib.SMTP(timeout=PATIENCE) as waiting:
                waiting.sock = socket.create_connection(("127.0.0.1", port), PATIENCE)
                client.rcpt(to)
                assert client.data(delivery_failure(to, "ann@example.com"))[0] == 250
                assert client.getreply()[0] == 421
                assert waiting.getreply()[0] == 220
                to = return_path(parts.services.settings, second, FROM)
                assert waiting.sendmail("<>", [to], delivery_failure(to, "bob@example.com")) == {}
        assert [rows.recipient(each).state for each in (first, second)] == ["bounced", "bounced"]
        process.terminate()
        assert process.wait(PATIENCE) == 0


@contextmanager
def listening_at(parts: Alone) -> Iterator[tuple[ListenerProcess, int, str]]:
    """The process, its port, and an address that it accepts."""
    port = free_port()
    with started(parts, "jobs.inbound", INBOUND_LISTEN=f"127.0.0.1:{port}", BOUNCE_DOMAIN="bounces.example") as inbound:
        (recipient_id,) = Rows(parts.services, parts.tenant.id).add_send(["ann@example.com"])
        assert "listening" in inbound.first_line()
        yield inbound, port, return_path(parts.services.settings, recipient_id, FROM)


def accepts_mail(port: int, to: str, source: str = "127.0.0.1") -> bool:
    """Whether a mail of somebody else arrives."""
    with smtplib.SMTP("127.0.0.1", port, timeout=PATIENCE, source_address=(source, 0)) as client:
        return client.sendmail("<>", [to], delivery_failure(to, "ann@example.com")) == {}


CONTENTS = {
    "a line without an end": (b"x" * MEGABYTE, 24, "500 5.6.0"),
    "empty lines": (b"\r\n" * (MEGABYTE // 2), 16, "250 2.0.0"),
    "lines of another kind": (b"\n" * MEGABYTE, 16, "250 2.0.0"),
    "more than a mail may have": (b"x\r\n" * (MEGABYTE // 3), 40, "552 5.3.4"),
}


@pytest.mark.parametrize("content", CONTENTS)
def test_a_mail_does_not_grow_while_it_arrives(content: str) -> None:
    """Others are answered meanwhile, and the client at the end."""
    piece, count, answer = CONTENTS[content]
    with alone(None) as parts, listening_at(parts) as (inbound, port, to):
        assert accepts_mail(port, to)
        size = resident(inbound)
        with connect(port) as link:
            link.sendall(f"EHLO a\r\nMAIL FROM:<>\r\nRCPT TO:<{to}>\r\nDATA\r\n".encode())
            for _ in range(count):
                link.sendall(piece)
            assert accepts_mail(port, to)
            assert resident(inbound) - size < MOST_GROWTH
            link.sendall(b"\r\n.\r\nQUIT\r\n")
            *_, last, bye = replies(link).splitlines()
            assert last.startswith(answer)
            assert bye.startswith("221")
            assert resident(inbound) - size < MOST_GROWTH


def test_a_mail_without_an_end_ends_the_session() -> None:
    with alone(None) as parts, listening_at(parts) as (inbound, port, to), connect(port) as link:
        size = resident(inbound)
        link.sendall(f"EHLO a\r\nMAIL FROM:<>\r\nRCPT TO:<{to}>\r\nDATA\r\n".encode())
        with pytest.raises(ConnectionError):
            link.sendall(b"x\r\n" * (200 * MEGABYTE // 3))
        assert resident(inbound) - size < MOST_GROWTH


COMMANDS = {
    "at the beginning": b"",
    "after the greeting": b"EHLO a\r\n",
    "of a recipient": b"EHLO a\r\nMAIL FROM:<>\r\nRCPT TO:<",
    "before encryption": b"EHLO a\r\nSTARTTLS ",
    "behind a refused encryption": b"EHLO a\r\nSTARTTLS\r\n",
    "of a login": b"EHLO a\r\nAUTH PLAIN ",
    "behind a refused login": b"EHLO a\r\nAUTH LOGIN\r\n",
}


def test_a_command_does_not_grow_while_it_arrives() -> None:
    """The command may stand anywhere. Only its end is answered."""
    with alone(None) as parts, listening_at(parts) as (inbound, port, to):
        assert accepts_mail(port, to)
        size = resident(inbound)
        for beginning in COMMANDS.values():
            with connect(port) as link:
                link.sendall(beginning)
                for _ in range(8):
                    link.sendall(b"x" * MEGABYTE)
                assert accepts_mail(port, to)
                assert resident(inbound) - size < MOST_GROWTH
                link.sendall(b"\r\nQUIT\r\n")
                *_, last, bye = replies(link).splitlines()
                assert (last, bye[:3]) == ("500 Command line too long", "221")


def test_a_session_of_errors_ends() -> None:
    """The client sends all its lines at once, and most of them are not answered any more. A client may lose what it has
    not read by the end of a connection, such as the last answer."""
    with alone(None) as parts, listening_at(parts) as (_, port, to):
        for line in (b"\r\n", b"\n", b"MAIL\r\n", b"x" * 600 + b"\r\n", b"HELP\r\n"):
            with connect(port) as link:
                with suppress(ConnectionError):
                    link.sendall(line * (MEGABYTE // len(line)))
                assert len(replies(link).splitlines()) < 200, line
                assert accepts_mail(port, to)


def test_silent_sessions_give_way_to_others() -> None:
    """Others are heard although systems limit the number of open files. Silent sessions of a single address give way as
    well."""
    with alone(None) as parts, listening_at(parts) as (inbound, port, to), ExitStack() as kept:
        hard = resource.prlimit(inbound.process.pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(inbound.process.pid, resource.RLIMIT_NOFILE, (1024, hard))
        more_files()
        patient = kept.enter_context(connect(port, "127.0.0.200"))
        assert patient.recv(100).startswith(b"220")
        links = [kept.enter_context(connect(port, f"127.0.0.{number % 11 + 1}")) for number in range(1100)]
        assert accepts_mail(port, to, "127.0.0.100")
        assert accepts_mail(port, to)
        assert "421 4.3.2 too many sessions" in replies(links[0])
        patient.sendall(b"QUIT\r\n")
        assert patient.recv(100).startswith(b"221"), "who has one session does not make room for who has many"


def test_sessions_of_one_address_are_bounded_by_themselves() -> None:
    with alone(None) as parts, listening_at(parts) as (_, port, _to), ExitStack() as kept:
        links = [kept.enter_context(connect(port)) for _ in range(MAX_SESSIONS_OF_NETWORK + 1)]
        assert "421 4.3.2 too many sessions" in replies(links[0])
        for link in links[1:]:
            link.sendall(b"QUIT\r\n")
            assert replies(link).splitlines()[-1].startswith("221")


def test_commands_and_mails_may_arrive_at_once() -> None:
    """The commands of the next mail are in the same packet as the end of the one before (RFC 2920)."""
    with alone(None) as parts, listening_at(parts) as (_, port, to), connect(port) as link:
        report = delivery_failure(to, "ann@example.com").replace(b"\r\n.", b"\r\n..")
        mail = f"MAIL FROM:<>\r\nRCPT TO:<{to}>\r\nDATA\r\n".encode() + report + b".\r\n"
        link.sendall(b"LHLO a\r\n" + mail * 3 + b"QUIT\r\n")
        codes = [line[:3] for line in replies(link).splitlines() if line[3] == " "]
        assert codes == ["220", "250", *["250", "250", "354", "250"] * 3, "221"]
