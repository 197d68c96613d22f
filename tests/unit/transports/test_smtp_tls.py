"""TLS and login: what is verified, and what is never sent without encryption (docs/transports.md)."""

from __future__ import annotations

import smtplib
import socket
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import cast

import pytest

from app.transports.base import DeliveryResult, OutboundEmail, Outcome, Untaken
from app.transports.email import email_transport
from app.transports.email.smtp_session import PART_SIZE, Dialogue, PartlySent
from app.transports.email.smtp_url import parse_smtp_url
from tests.support.cases import each
from tests.support.servers import PATIENCE
from tests.unit.transports.conftest import Certificate
from tests.unit.transports.mailserver import LineServer, MailServer

MakeMail = Callable[..., OutboundEmail]


def send(url: str, mail: OutboundEmail) -> DeliveryResult:
    connection = email_transport(url).connect()
    result = connection.send(mail)
    connection.close()
    return result


def test_starttls_is_used_where_it_is_offered(certificate: Certificate, mail: MakeMail) -> None:
    with MailServer(tls_context=certificate.server_context) as server:
        assert send(server.url(), mail()).outcome is Outcome.ACCEPTED
        assert server.mails[0].encrypted


def test_without_starttls_mail_is_sent_unencrypted(server: MailServer, mail: MakeMail) -> None:
    assert send(server.url(), mail()).outcome is Outcome.ACCEPTED
    assert not server.mails[0].encrypted


def test_a_large_mail_is_sent_record_by_record_each_with_a_time_out_of_its_own(certificate: Certificate) -> None:
    """How much may have arrived is known when the server stops reading."""
    ours, theirs = socket.socketpair()
    with ThreadPoolExecutor(1) as pool:
        accepting = pool.submit(certificate.server_context.wrap_socket, theirs, server_side=True)
        context = ssl.create_default_context(cafile=certificate.path)
        with context.wrap_socket(ours, server_hostname="localhost") as encrypted, accepting.result(PATIENCE):
            encrypted.settimeout(0.2)
            session = SimpleNamespace(sock=encrypted, timeout=0.2, esmtp_features={})
            with pytest.raises(PartlySent) as partly:
                Dialogue(cast("smtplib.SMTP", session)).write(b"x" * 16 * 1024 * 1024)
    assert partly.value.count in range(PART_SIZE, 16 * 1024 * 1024, PART_SIZE)


def test_tls_none_disables_starttls(certificate: Certificate, mail: MakeMail) -> None:
    with MailServer(tls_context=certificate.server_context) as server:
        assert send(server.url("?tls=none"), mail()).outcome is Outcome.ACCEPTED
        assert not server.mails[0].encrypted


def test_tls_require_defers_without_starttls(server: MailServer, mail: MakeMail) -> None:
    result = send(server.url("?tls=require"), mail())
    assert (result.outcome, result.status) == (Outcome.DEFERRED, "4.7.0")
    assert "offers no STARTTLS" in (result.note or "")
    assert server.mails == []


def test_a_refused_starttls_is_a_deferral(mail: MakeMail) -> None:
    conversation = ["220 relay ready", "250-relay\r\n250 STARTTLS", "454 4.7.0 TLS not available"]
    with LineServer(conversation) as relay:
        result = send(f"smtp://127.0.0.1:{relay.port}", mail())
    assert result == DeliveryResult.deferred("454 4.7.0 TLS not available", "4.7.0", untaken=Untaken.TRANSPORT)


def test_a_failed_handshake_is_a_deferral(mail: MakeMail) -> None:
    with LineServer(["220 relay ready", "250-relay\r\n250 STARTTLS", "220 go ahead", "no TLS at all"]) as relay:
        result = send(f"smtp://127.0.0.1:{relay.port}", mail())
    assert (result.outcome, result.status) == (Outcome.DEFERRED, "4.7.5")


@pytest.mark.parametrize("options", ["?tls=require", ""])
def test_an_unverified_server_gets_neither_password_nor_mail(
    certificate: Certificate, mail: MakeMail, options: str
) -> None:
    with MailServer(tls_context=certificate.server_context, users={"ann": "secret"}) as server:
        result = send(server.url(options, credentials="ann:secret@"), mail())
        assert (result.outcome, result.status) == (Outcome.DEFERRED, "4.7.5")
        assert "certificate" in (result.note or "").lower()
        assert server.mails == []


def test_smtps_verifies_the_certificate(certificate: Certificate, mail: MakeMail) -> None:
    with MailServer(tls=certificate.server_context) as server:
        result = send(server.url(scheme="smtps"), mail())
        assert (result.outcome, result.status) == (Outcome.DEFERRED, "4.7.5")
        assert server.mails == []


def test_the_name_in_the_certificate_must_be_that_of_the_host(trusted: Certificate, mail: MakeMail) -> None:
    with MailServer(tls=trusted.server_context) as server:
        assert send(server.url(scheme="smtps", host="127.0.0.2"), mail()).outcome is Outcome.DEFERRED
        assert send(server.url(scheme="smtps", host="localhost"), mail()).outcome is Outcome.ACCEPTED


def test_login_happens_over_a_verified_connection(trusted: Certificate, mail: MakeMail) -> None:
    with MailServer(tls_context=trusted.server_context, users={"ann": "secret"}, auth_required=True) as server:
        assert send(server.url(credentials="ann:secret@"), mail()).outcome is Outcome.ACCEPTED
        assert (server.mails[0].user, server.mails[0].encrypted) == ("ann", True)


def test_a_wrong_password_does_not_bounce_the_recipient(trusted: Certificate, mail: MakeMail) -> None:
    with MailServer(tls_context=trusted.server_context, users={"ann": "secret"}) as server:
        result = send(server.url(credentials="ann:guess@"), mail())
    assert (result.outcome, result.reply[:9], result.status) == (Outcome.DEFERRED, "535 5.7.8", "4.7.8")


def test_a_server_without_login_is_a_deferral(server: MailServer, mail: MakeMail) -> None:
    server.users["ann"] = "secret"
    with LineServer(["220 relay ready", "250 relay"]) as relay:
        result = send(f"smtp://ann:secret@127.0.0.1:{relay.port}", mail())
    assert (result.outcome, result.status) == (Outcome.DEFERRED, "4.7.0")
    assert "AUTH" in (result.note or "")


def test_a_malformed_challenge_is_a_deferral(mail: MakeMail) -> None:
    conversation = ["220 relay ready", "250-relay\r\n250 AUTH CRAM-MD5", "334 x", "535 no"]
    with LineServer(conversation) as relay:
        result = send(f"smtp://ann:secret@127.0.0.1:{relay.port}", mail())
    assert result.outcome is Outcome.DEFERRED


def test_a_password_may_be_sent_unencrypted_to_the_loopback_address(mail: MakeMail) -> None:
    with MailServer(users={"ann": "secret"}) as server:
        assert send(server.url(credentials="ann:secret@"), mail()).outcome is Outcome.ACCEPTED
        assert (server.mails[0].user, server.mails[0].encrypted) == ("ann", False)


@each(
    ("url", "may"),
    [
        ("smtp://ann:secret@relay.example", False),
        ("smtp://ann:secret@relay.example?tls=none", True),
        ("smtp://ann:secret@192.0.2.1", False),
        ("smtp://ann:secret@127.0.0.1", True),
        ("smtp://ann:secret@[::1]", True),
        ("smtp://ann:secret@localhost", True),
        ("smtp://ann:secret@localhost.example", False),
    ],
)
def test_a_password_is_sent_unencrypted_elsewhere_only_with_tls_none(url: str, may: bool) -> None:
    assert parse_smtp_url(url).may_log_in_unencrypted is may


def test_otherwise_the_password_is_not_sent(mail: MakeMail) -> None:
    """127.1 reaches the loopback address but is not among the names that the rule knows."""
    with LineServer(["220 relay ready", "250-relay\r\n250 AUTH PLAIN", "221 bye"]) as relay:
        result = send(f"smtp://ann:secret@127.1:{relay.port}", mail())
    assert (result.outcome, result.status) == (Outcome.DEFERRED, "4.7.0")
    assert "not sent in the clear" in (result.note or "")
    assert not any(line.startswith(b"AUTH") for line in relay.lines)
