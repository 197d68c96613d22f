"""The process that takes mail of applications: `python -m jobs.submission`."""

from __future__ import annotations

import base64
import signal
import smtplib
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from sqlalchemy import text

from app.db.models import IdempotencyRecord, Recipient, Send
from app.smtp_server.listener import MAX_SESSIONS_OF_NETWORK
from tests.databases.running import Alone, alone
from tests.support.certificates import Authority
from tests.support.listeners import (
    MEGABYTE,
    MOST_GROWTH,
    ListenerProcess,
    connect,
    own_process,
    replies,
    resident,
    started,
)
from tests.support.sends import rows_of
from tests.support.servers import PATIENCE, free_port, wait_until
from tests.support.submitting import logged_in, mail
from tests.support.tenants import Tenant

MODULE = "jobs.submission"


@contextmanager
def listening_at(parts: Alone, **overrides: str) -> Iterator[tuple[ListenerProcess, int]]:
    """The process and its port."""
    port = free_port()
    variables = {"SUBMISSION_LISTEN": f"127.0.0.1:{port}", "REDIS_URL": parts.services.settings.redis_url, **overrides}
    with started(parts, MODULE, **variables) as listener:
        assert "listening" in listener.first_line()
        yield listener, port


def accepts_mail(port: int, tenant: Tenant, list_id: int) -> bool:
    """Whether a mail of an application arrives."""
    with logged_in(port, tenant) as application:
        return application.submit(mail(tenant, list_id), "ann@example.com")[0] == 250


def login(tenant: Tenant) -> bytes:
    """The command by which a client logs in."""
    return b"AUTH PLAIN " + base64.b64encode(f"\0a\0{tenant.tokens['standard']}".encode()) + b"\r\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_accepts_a_mail_and_ends_when_asked(number: signal.Signals) -> None:
    with alone(None) as parts, listening_at(parts) as (listener, port):
        list_id = parts.tenant.add_list()
        with logged_in(port, parts.tenant) as application:
            (uuid,) = application.uuids(mail(parts.tenant, list_id), "ann@example.com")
            assert [row.uuid for row in rows_of(parts.tenant, Recipient)] == [uuid]
            listener.process.send_signal(number)
            assert listener.process.wait() == 0
            with suppress(smtplib.SMTPServerDisconnected):
                application.client.quit()


def test_without_the_setting_it_waits_for_a_signal() -> None:
    with alone(None) as parts, started(parts, MODULE) as listener:
        assert "SUBMISSION_LISTEN is not set" in listener.first_line()
        listener.process.send_signal(signal.SIGTERM)
        assert listener.process.wait() == 0


def test_a_port_in_use_is_reported_in_one_line() -> None:
    with alone(None) as parts, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with started(parts, MODULE, SUBMISSION_LISTEN=address) as listener:
            assert listener.process.wait() == 1
            (line,) = listener.lines()
            assert line.startswith("SUBMISSION_LISTEN: cannot listen there: ")


def test_a_certificate_that_cannot_be_used_is_an_invalid_setting(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("no certificate")
    for path, reason in (
        (tmp_path / "missing.pem", "No such file or directory"),
        (wrong, "it is no certificate with its key"),
    ):
        variables = {"SUBMISSION_LISTEN": f"127.0.0.1:{free_port()}", "SUBMISSION_CERTIFICATE": str(path)}
        with alone(None) as parts, started(parts, MODULE, **variables) as listener:
            assert listener.process.wait() == 2
            assert listener.lines() == [f"cannot start: SUBMISSION_CERTIFICATE={path}: cannot be used: {reason}"]


@pytest.mark.parametrize(
    "variables",
    [{"SUBMISSION_LISTEN": "0.0.0.0:2525"}, {"SUBMISSION_LISTEN": "127.0.0.1:2525", "SUBMISSION_TLS": "tls"}],
)
def test_keys_are_not_sent_over_a_network_unencrypted(variables: dict[str, str]) -> None:
    with alone(None) as parts, started(parts, MODULE, **variables) as listener:
        assert listener.process.wait() == 2
        line = listener.log.read_text().splitlines()[-1]
        assert line == (
            f"cannot start: SUBMISSION_LISTEN={variables['SUBMISSION_LISTEN']}: needs SUBMISSION_CERTIFICATE; without "
            "TLS, applications log in on loopback addresses only"
        )


def begin(link: socket.socket, tenant: Tenant, *to: str) -> None:
    """Sends what comes before the content of a mail."""
    recipients = b"".join(f"RCPT TO:<{address}>\r\n".encode() for address in to)
    sender = f"MAIL FROM:<app@{tenant.domain}>\r\n".encode()
    link.sendall(b"EHLO a\r\n" + login(tenant) + sender + recipients + b"DATA\r\n")
    received = b""
    while b"\r\n354 " not in received:
        received += link.recv(4096)


@pytest.mark.parametrize("with_postgres", [False, True])
def test_a_mail_whose_answer_was_lost_is_accepted_once(with_postgres: bool, postgres: str) -> None:
    """The process is killed between the commit and the answer, and the client sends the mail again."""
    with alone(postgres if with_postgres else None) as parts:
        tenant = parts.tenant
        list_id = tenant.add_list()
        written = mail(tenant, list_id, To="ann@example.com")
        with listening_at(parts) as (listener, port), connect(port) as link:
            begin(link, tenant, "ann@example.com", "bob@example.com")
            link.sendall(written.as_bytes().replace(b"\n", b"\r\n") + b".\r\n")
            wait_until(lambda: len(rows_of(tenant, Recipient)) == 2, "it is committed")
            listener.process.kill()
        uuids = [row.uuid for row in rows_of(tenant, Recipient)]
        with listening_at(parts) as (_, port), logged_in(port, tenant) as application:
            assert application.uuids(written, "ann@example.com", "bob@example.com") == uuids
        assert [row.uuid for row in rows_of(tenant, Recipient)] == uuids
        assert len(rows_of(tenant, Send)) == 1
        assert len(rows_of(tenant, IdempotencyRecord)) == 2


@contextmanager
def held_records(parts: Alone) -> Iterator[None]:
    """No mail is committed inside the block."""
    with parts.services.database.write() as transaction:
        transaction.execute(text("LOCK TABLE idempotency_records IN SHARE MODE"))
        yield


def await_waiting_transaction(parts: Alone) -> None:
    waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    with parts.services.database.read() as session:
        wait_until(lambda: bool(session.execute(waiting).scalar()), "a transaction waits")


def test_a_mail_that_was_not_committed_is_accepted_when_it_is_sent_again(postgres: str) -> None:
    """The process is killed while its transaction waits for a lock."""
    with alone(postgres) as parts:
        tenant = parts.tenant
        list_id = tenant.add_list()
        written = mail(tenant, list_id, To="ann@example.com")
        with listening_at(parts) as (listener, port), connect(port) as link:
            begin(link, tenant, "ann@example.com")
            with held_records(parts):
                link.sendall(written.as_bytes().replace(b"\n", b"\r\n") + b".\r\n")
                await_waiting_transaction(parts)
                listener.process.kill()
        assert rows_of(tenant, Recipient) == []
        with listening_at(parts) as (_, port), logged_in(port, tenant) as application:
            (uuid,) = application.uuids(written, "ann@example.com")
        assert [row.uuid for row in rows_of(tenant, Recipient)] == [uuid]


def test_newer_code_takes_over_its_sockets(tmp_path: Path) -> None:
    """A mail that is on its way is answered, and a client that connects meanwhile waits for its greeting."""
    port, log = free_port(), tmp_path / "log"
    address = f"127.0.0.1:{port}"
    with alone(None) as parts:
        tenant, redis = parts.tenant, parts.services.settings.redis_url
        list_id = tenant.add_list()
        with own_process(parts, MODULE, log, SUBMISSION_LISTEN=address, REDIS_URL=redis) as process:
            wait_until(lambda: "listening" in log.read_text(), "it listens")
            with logged_in(port, tenant) as application, smtplib.SMTP("127.0.0.1", port) as idle:
                client = application.client
                client.mail(application.sender)
                process.send_signal(signal.SIGUSR2)
                assert idle.getreply()[0] == 421
                with smtplib.SMTP(timeout=PATIENCE) as waiting:
                    waiting.sock = socket.create_connection(("127.0.0.1", port), PATIENCE)
                    client.rcpt("ann@example.com")
                    assert client.data(mail(tenant, list_id).as_bytes())[0] == 250
                    assert client.getreply()[0] == 421
                    assert waiting.getreply()[0] == 220
            assert accepts_mail(port, tenant, list_id)
            process.terminate()
            assert process.wait(PATIENCE) == 0
        assert len(rows_of(tenant, Recipient)) == 2


# Bounds.


CONTENTS = {
    "a line without an end": (b"x" * MEGABYTE, 24, "500 5.6.0 line too long"),
    "empty lines": (b"\r\n" * (MEGABYTE // 2), 16, "550 5.6.0 The mail has more than 1000000 lines"),
    "more than a mail may have": (b"x\r\n" * (MEGABYTE // 3), 40, "552 5.3.4 too much mail data"),
}


@pytest.mark.parametrize("content", CONTENTS)
def test_a_mail_does_not_grow_while_it_arrives(content: str) -> None:
    """Others are answered meanwhile, and the client at the end."""
    piece, count, answer = CONTENTS[content]
    with alone(None) as parts, listening_at(parts) as (listener, port), connect(port) as link:
        tenant, list_id = parts.tenant, parts.tenant.add_list()
        assert accepts_mail(port, tenant, list_id)
        size = resident(listener)
        begin(link, tenant, "ann@example.com")
        for _ in range(count):
            link.sendall(piece)
        assert accepts_mail(port, tenant, list_id)
        assert resident(listener) - size < MOST_GROWTH
        link.sendall(b"\r\n.\r\nQUIT\r\n")
        *_, last, bye = replies(link).splitlines()
        assert last.startswith(answer)
        assert bye.startswith("221")


def test_only_some_mails_are_read_at_the_same_time(postgres: str) -> None:
    """Beside one that waits for a lock there is no room for another large one."""
    settings = {"SUBMISSION_MAX_BYTES": str(40 * MEGABYTE), "MAX_ATTACHMENT_BYTES": str(40 * MEGABYTE)}
    with alone(postgres) as parts, listening_at(parts, **settings) as (_, port):
        tenant, list_id = parts.tenant, parts.tenant.add_list()
        written = mail(tenant, list_id)
        written.add_attachment(b"x" * 20 * MEGABYTE, maintype="application", subtype="pdf", filename="a.pdf")
        large = written.as_bytes().replace(b"\n", b"\r\n") + b".\r\nQUIT\r\n"
        with connect(port) as link, connect(port) as other:
            begin(link, tenant, "ann@example.com")
            begin(other, tenant, "bob@example.com")
            with held_records(parts):
                link.sendall(large)
                await_waiting_transaction(parts)
                other.sendall(large)
                *_, answer, _bye = replies(other).splitlines()
                assert answer == "452 4.3.1 no room for the mail now, try again later"
            *_, answer, _bye = replies(link).splitlines()
            assert answer.startswith("250 2.0.0 ")
        assert accepts_mail(port, tenant, list_id)


COMMANDS = {
    "before a login": b"EHLO a\r\nAUTH PLAIN ",
    "of a user name": b"EHLO a\r\nAUTH LOGIN\r\n",
    "before encryption": b"EHLO a\r\nSTARTTLS ",
}


@pytest.mark.parametrize("place", COMMANDS)
def test_a_command_does_not_grow_while_it_arrives(place: str) -> None:
    with alone(None) as parts, listening_at(parts) as (listener, port):
        list_id = parts.tenant.add_list()
        assert accepts_mail(port, parts.tenant, list_id)
        size = resident(listener)
        with connect(port) as link:
            link.sendall(COMMANDS[place])
            with suppress(ConnectionError):
                for _ in range(8):
                    link.sendall(b"x" * MEGABYTE)
            assert accepts_mail(port, parts.tenant, list_id)
            assert resident(listener) - size < MOST_GROWTH
            with suppress(ConnectionError):
                link.sendall(b"\r\nQUIT\r\n")
            assert [line for line in replies(link).splitlines() if line.startswith("5")]


def test_silent_sessions_give_way_to_others_also_before_tls(tmp_path: Path) -> None:
    """A client that begins no handshake is a session, too."""
    authority = Authority(tmp_path)
    authority.server("localhost")
    variables = {"SUBMISSION_CERTIFICATE": str(tmp_path / "localhost.pem"), "SUBMISSION_TLS": "tls"}
    with alone(None) as parts, listening_at(parts, **variables) as (_, port):
        links = [connect(port) for _ in range(MAX_SESSIONS_OF_NETWORK + 1)]
        assert links[0].recv(100) == b""
        with smtplib.SMTP_SSL("localhost", port, timeout=PATIENCE, context=authority.trust) as client:
            client.login("apikey", parts.tenant.tokens["standard"])
        for link in links:
            link.close()


SOON = 25
"""Seconds: fewer than the 30 that the library waits for a client to end TLS."""


def test_a_session_that_gives_way_ends_although_its_client_does_not_end_tls(tmp_path: Path) -> None:
    """Its client still reads why."""
    authority = Authority(tmp_path)
    authority.server("localhost")
    variables = {"SUBMISSION_CERTIFICATE": str(tmp_path / "localhost.pem"), "SUBMISSION_TLS": "tls"}
    with alone(None) as parts, listening_at(parts, **variables) as (_, port), ExitStack() as links:
        plain = connect(port)
        connection = links.enter_context(plain.dup())
        connection.settimeout(SOON)
        link = links.enter_context(authority.trust.wrap_socket(plain, server_hostname="localhost"))
        assert link.recv(1000).startswith(b"220 ")
        for _ in range(MAX_SESSIONS_OF_NETWORK):
            links.enter_context(connect(port))
        assert replies(link) == "421 4.3.2 too many sessions, try again later\r\n"
        assert connection.recv(1) == b""
