"""Rules for every email transport, whatever its URL."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.transports.base import OutboundEmail, Outcome
from app.transports.email import email_transport
from tests.support.servers import free_port
from tests.unit.transports.conftest import Certificate
from tests.unit.transports.mailserver import MailServer

MakeMail = Callable[..., OutboundEmail]


@dataclass(frozen=True)
class Outlet:
    """A transport's URL, the contents delivered to it (one for each address), and a URL where delivery fails."""

    url: str
    arrived: Callable[[], list[bytes]]
    broken_url: str


def _folder(tmp_path: Path) -> Outlet:
    folder, blocked = tmp_path / "outbox", tmp_path / "blocked"
    blocked.write_text("a file stands where the folder would be")
    return Outlet(
        f"file://{folder}",
        lambda: [path.read_bytes() for path in folder.glob("*.eml")],
        f"file://{blocked}/outbox",
    )


def _relay(server: MailServer, url: str) -> Outlet:
    return Outlet(
        url,
        lambda: [mail.content for mail in server.mails for _ in mail.recipients],
        url.replace(f":{server.port}", f":{free_port()}"),
    )


@pytest.fixture(params=["file", "smtp", "starttls", "starttls required", "smtps", "login"])
def outlet(request: pytest.FixtureRequest, tmp_path: Path, trusted: Certificate) -> Iterator[Outlet]:
    context = trusted.server_context
    if request.param == "file":
        yield _folder(tmp_path)
    elif request.param == "smtp":
        with MailServer() as server:
            yield _relay(server, server.url())
    elif request.param == "starttls":
        with MailServer(tls_context=context) as server:
            yield _relay(server, server.url())
    elif request.param == "starttls required":
        with MailServer(tls_context=context, require_starttls=True) as server:
            yield _relay(server, server.url("?tls=require"))
    elif request.param == "smtps":
        with MailServer(tls=context) as server:
            yield _relay(server, server.url(scheme="smtps"))
    else:
        with MailServer(tls_context=context, users={"ann": "p@ss/word"}, auth_required=True) as server:
            yield _relay(server, server.url(credentials="ann:p%40ss%2Fword@"))


def test_a_mail_arrives_byte_for_byte(outlet: Outlet, mail: MakeMail) -> None:
    content = b"Subject: Hi\r\n\r\n.\r\n..two\r\nline.\r\n\r\n.\r\n"
    connection = email_transport(outlet.url).connect()
    result = connection.send(mail(content=content))
    connection.close()
    assert result.outcome is Outcome.ACCEPTED
    assert result.status == "2.0.0"
    assert outlet.arrived() == [content]


def test_one_connection_carries_several_mails(outlet: Outlet, mail: MakeMail) -> None:
    connection = email_transport(outlet.url).connect()
    results = [connection.send(mail(content=b"Subject: %d\r\n\r\nx\r\n" % number)) for number in range(5)]
    connection.close()
    assert {result.outcome for result in results} == {Outcome.ACCEPTED}
    assert sorted(outlet.arrived()) == [b"Subject: %d\r\n\r\nx\r\n" % number for number in range(5)]


def test_a_closed_connection_opens_again(outlet: Outlet, mail: MakeMail) -> None:
    connection = email_transport(outlet.url).connect()
    connection.close()
    assert connection.send(mail()).outcome is Outcome.ACCEPTED
    connection.close()
    connection.close()
    assert connection.send(mail()).outcome is Outcome.ACCEPTED
    connection.close()
    assert len(outlet.arrived()) == 2


def test_threads_share_a_transport_with_a_connection_each(outlet: Outlet, mail: MakeMail) -> None:
    transport = email_transport(outlet.url)
    outcomes: list[Outcome] = []

    def send_some() -> None:
        connection = transport.connect()
        outcomes.extend(connection.send(mail()).outcome for _ in range(3))
        connection.close()

    threads = [threading.Thread(target=send_some) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == [Outcome.ACCEPTED] * 12
    assert len(outlet.arrived()) == 12


def test_a_failure_is_a_deferral_and_no_exception(outlet: Outlet, mail: MakeMail) -> None:
    connection = email_transport(outlet.broken_url).connect()
    results = [connection.send(mail()), connection.send(mail())]
    connection.close()
    assert [result.outcome for result in results] == [Outcome.DEFERRED] * 2
    assert all(result.status.startswith("4.") and result.reply for result in results if result.status)
    assert all(result.status for result in results)
    assert outlet.arrived() == []
