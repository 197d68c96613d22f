"""Who may send by SMTP (docs/smtp-submission.md#logging-in): by TLS and a key, by the rules of the API."""

from __future__ import annotations

import asyncio
import base64
import itertools
import secrets
import smtplib
import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from sqlalchemy import update

from app.accounts.auth import KeyUses
from app.clock import now
from app.db.models import Account, ApiKey, Domain, Recipient
from app.settings import Rate
from app.smtp_server import listener as smtp_listener
from app.submission import clients
from app.submission.listener import SubmissionListener
from tests.support.asyncio_servers import in_thread
from tests.support.certificates import Authority
from tests.support.listeners import connect
from tests.support.sends import rows_of
from tests.support.servers import PATIENCE, short_folder, wait_until
from tests.support.submitting import Application, listening, logged_in, mail
from tests.support.tenants import Tenant, add_key, new_email, unique

LOGGED_IN = (235, b"2.7.0 Logged in")
WRONG_KEY = (
    535,
    b"5.7.8 The password must be a key of the API that exists, is not revoked and has no expiry date. "
    b"(api_key_invalid)",
)
NEEDS_LOGIN = (530, b"5.7.0 Authentication required")


@pytest.fixture
def port(tenant: Tenant) -> Iterator[int]:
    with listening(tenant.services) as port:
        yield port


@pytest.fixture
def client(port: int) -> Iterator[smtplib.SMTP]:
    """A client that has greeted."""
    with smtplib.SMTP("127.0.0.1", port, timeout=PATIENCE) as client:
        client.ehlo()
        yield client


@pytest.fixture(scope="module")
def certificates() -> Iterator[tuple[Path, ssl.SSLContext]]:
    """A certificate for localhost with its key in one file, and a context that trusts it."""
    with short_folder() as folder:
        authority = Authority(folder)
        authority.server("localhost")
        yield folder / "localhost.pem", authority.trust


def plain(token: str, user: str = "apikey") -> str:
    return base64.b64encode(f"\0{user}\0{token}".encode()).decode()


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def log_in(client: smtplib.SMTP, token: str) -> tuple[int, bytes]:
    return client.docmd("AUTH", f"PLAIN {plain(token)}")


def set_account(tenant: Tenant, **values: object) -> None:
    with tenant.services.database.write() as transaction:
        transaction.execute(update(Account).where(Account.id == tenant.id).values(**values))


def set_key(tenant: Tenant, **values: object) -> None:
    with tenant.services.database.write() as transaction:
        key = ApiKey.account_id == tenant.id, ApiKey.access_level == "standard"
        transaction.execute(update(ApiKey).where(*key).values(**values))


def test_each_mechanism_takes_a_key_as_the_password_of_anybody(tenant: Tenant, port: int) -> None:
    token = tenant.tokens["standard"]
    for steps in (
        [f"AUTH PLAIN {plain(token)}"],
        [f"AUTH plain {plain(token, 'somebody')}"],
        ["AUTH PLAIN", plain(token)],
        [f"AUTH LOGIN {encoded('apikey')}", encoded(token)],
        ["AUTH LOGIN", encoded("apikey"), encoded(token)],
    ):
        with smtplib.SMTP("127.0.0.1", port, timeout=PATIENCE) as client:
            client.ehlo()
            assert client.esmtp_features["auth"].split() == ["LOGIN", "PLAIN"]
            *asked, last = [client.docmd(step) for step in steps]
            assert [code for code, _ in asked] == [334] * len(asked)
            assert last == LOGGED_IN
            assert client.docmd("AUTH", f"PLAIN {plain(token)}") == (503, b"5.5.1 Already logged in")


@pytest.mark.parametrize(
    ("steps", "answer"),
    [
        (["AUTH CRAM-MD5"], (504, b"5.5.4 The mechanisms are LOGIN, PLAIN")),
        (["AUTH"], (504, b"5.5.4 The mechanisms are LOGIN, PLAIN")),
        (["AUTH PLAIN ???"], (501, b"5.5.2 The response is not valid base64")),
        (["AUTH PLAIN ="], (501, b"5.5.2 Send authorization, user name and password, separated by NUL")),
        (["AUTH LOGIN", "*"], (501, b"5.5.2 The login was cancelled")),
        (["AUTH LOGIN", "é"], (501, b"5.5.2 The response is not valid base64")),
        ([f"AUTH PLAIN {plain('tms_unknown')}"], WRONG_KEY),
        (["MAIL FROM:<a@b.example>"], NEEDS_LOGIN),
        (["RCPT TO:<a@b.example>"], NEEDS_LOGIN),
        (["DATA"], (503, b"Error: need RCPT command")),
        (["STARTTLS"], (454, b"4.7.0 TLS is not available now")),
    ],
)
def test_what_is_no_login_is_answered(client: smtplib.SMTP, steps: list[str], answer: tuple[int, bytes]) -> None:
    client.sock.settimeout(PATIENCE)  # type: ignore[union-attr]
    client.command_encoding = "utf-8"
    assert [client.docmd(step) for step in steps][-1] == answer


def test_a_key_that_does_not_work_at_the_api_does_not_log_in(tenant: Tenant, client: smtplib.SMTP) -> None:
    assert log_in(client, add_key(tenant, "standard", revoked_time=now())) == WRONG_KEY
    assert log_in(client, add_key(tenant, "standard", expiry_time=now())) == WRONG_KEY
    assert log_in(client, add_key(tenant, "standard", valid_until=now())) == WRONG_KEY
    lacking = b"535 5.7.1 This needs the scope send.email, which keys of the level limited lack. (permission_denied)"
    assert log_in(client, tenant.tokens["limited"]) == (535, lacking[4:])


def test_networks_of_the_account_apply(tenant: Tenant, client: smtplib.SMTP) -> None:
    set_account(tenant, allowed_networks=["192.0.2.0/24"])
    code, text = log_in(client, tenant.tokens["standard"])
    assert (code, text.decode()) == (
        535,
        "5.7.1 The account accepts requests from certain networks only, and this address is not in any of them. Ask "
        "the operator to permit it. (ip_restricted)",
    )
    set_account(tenant, allowed_networks=["127.0.0.0/8"])
    assert log_in(client, tenant.tokens["standard"]) == LOGGED_IN


def test_a_key_that_is_revoked_ends_within_a_session(tenant: Tenant, port: int) -> None:
    list_id = tenant.add_list()
    with logged_in(port, tenant) as application:
        assert application.submit(mail(tenant, list_id), new_email())[0] == 250
        set_key(tenant, revoked_time=now())
        assert application.submit(mail(tenant, list_id), new_email())[0] == 535
    assert len(rows_of(tenant, Recipient)) == 1


def test_the_rate_limit_counts_mails_and_is_that_of_the_api(tenant: Tenant) -> None:
    list_id = tenant.add_list()
    rate = Rate(2, 100_000_000 + secrets.randbelow(100_000_000))  # a window that no other test counts in
    with listening(tenant.services, rate_limit=rate) as port, logged_in(port, tenant) as application:
        answers = [application.submit(mail(tenant, list_id), new_email()) for _ in range(3)]
        assert [code for code, _ in answers] == [250, 250, 451]
        text = answers[-1][1]
        assert text.startswith("4.7.1 The rate limit is used up for ")
        assert text.endswith(" seconds. (too_many_requests)")
    assert len(rows_of(tenant, Recipient)) == 2


def test_the_use_of_a_key_is_noted(tenant: Tenant, port: int) -> None:
    list_id = tenant.add_list()
    with logged_in(port, tenant) as application:
        assert application.submit(mail(tenant, list_id), new_email())[0] == 250


def too_many(answer: tuple[int, bytes]) -> bool:
    code, text = answer
    return code == 451 and text.startswith(b"4.7.1 There were too many failed logins. Try again in ")


ADDRESSES = itertools.count(int(IPv4Address("127.1.0.0")) + secrets.randbelow(1 << 23))
"""Of this machine; those of other runs with the same Redis are others."""


@pytest.fixture
def strangers(monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Two addresses that no other test uses, and a window that does not end during the test."""
    monkeypatch.setattr(clients, "FAILURE_SECONDS", 100_000_000)
    return str(IPv4Address(next(ADDRESSES))), str(IPv4Address(next(ADDRESSES)))


def test_failed_logins_of_a_key_are_limited_wherever_they_come_from(
    tenant: Tenant, port: int, strangers: tuple[str, str]
) -> None:
    """Another key may log in from there."""
    first, second = strangers
    token = f"tms_{unique()}"
    with smtplib.SMTP("127.0.0.1", port, timeout=PATIENCE, source_address=(first, 0)) as client:
        client.ehlo()
        assert [log_in(client, token) for _ in range(10)] == [WRONG_KEY] * 10
        assert too_many(log_in(client, token))
    with smtplib.SMTP("127.0.0.1", port, timeout=PATIENCE, source_address=(second, 0)) as client:
        client.ehlo()
        assert too_many(log_in(client, token))
        assert log_in(client, tenant.tokens["standard"]) == LOGGED_IN


def test_failed_logins_of_an_address_are_limited_whatever_the_key(
    tenant: Tenant, port: int, strangers: tuple[str, str]
) -> None:
    """Other addresses may log in."""
    first, second = strangers
    answers = []
    for _ in range(6):
        with smtplib.SMTP("127.0.0.1", port, timeout=PATIENCE, source_address=(first, 0)) as client:
            client.ehlo()
            answers += [log_in(client, f"tms_{unique()}") for _ in range(9)]
    assert [code for code, _ in answers] == [535] * 50 + [451] * 4
    with smtplib.SMTP("127.0.0.1", port, timeout=PATIENCE, source_address=(first, 0)) as client:
        client.ehlo()
        assert too_many(log_in(client, tenant.tokens["standard"]))
    with smtplib.SMTP("127.0.0.1", port, timeout=PATIENCE, source_address=(second, 0)) as client:
        client.ehlo()
        assert log_in(client, tenant.tokens["standard"]) == LOGGED_IN


# TLS.


def test_starttls_comes_before_a_login_from_another_machine(
    tenant: Tenant, certificates: tuple[Path, ssl.SSLContext]
) -> None:
    """The test's client connects from an address of this machine that is no loopback one, if there is one."""
    address = own_address()
    if address is None:
        pytest.skip("this machine has loopback addresses only")
    certificate, trust = certificates
    list_id = tenant.add_list()
    with (
        listening(tenant.services, address, submission_certificate=str(certificate)) as port,
        smtplib.SMTP(address, port, timeout=PATIENCE) as client,
    ):
        client.ehlo()
        assert "auth" not in client.esmtp_features
        refused = client.docmd("AUTH", f"PLAIN {plain(tenant.tokens['standard'])}")
        assert refused == (538, b"5.7.11 Encryption is required: use STARTTLS first")
        client._host = "localhost"  # type: ignore[attr-defined]
        client.starttls(context=trust)
        client.login("apikey", tenant.tokens["standard"])
        application = Application(client, f"app@{tenant.domain}")
        assert application.submit(mail(tenant, list_id), new_email())[0] == 250


def own_address() -> str | None:
    """An address of this machine by which others reach it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        address = str(probe.getsockname()[0])
    return None if address.startswith("127.") else address


def test_mails_are_accepted_after_starttls(tenant: Tenant, certificates: tuple[Path, ssl.SSLContext]) -> None:
    """What the client has sent unencrypted behind STARTTLS is not read."""
    certificate, trust = certificates
    list_id = tenant.add_list()
    with listening(tenant.services, submission_certificate=str(certificate)) as port:
        with smtplib.SMTP("localhost", port, timeout=PATIENCE) as client:
            client.starttls(context=trust)
            client.login("apikey", tenant.tokens["standard"])
            assert client.docmd("STARTTLS") == (454, b"4.7.0 TLS is not available now")
            application = Application(client, f"app@{tenant.domain}")
            for _ in range(2):
                assert application.submit(mail(tenant, list_id), new_email())[0] == 250
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as link:
            assert link.recv(1000).startswith(b"220")
            link.sendall(b"EHLO a\r\nSTARTTLS\r\nEHLO injected\r\n")
            received = b""
            while b"220 2.0.0" not in received:
                received += link.recv(1000)
            with trust.wrap_socket(link, server_hostname="localhost") as secured:
                secured.sendall(b"QUIT\r\n")
                assert secured.recv(1000) == b"221 Bye\r\n"


def test_tls_may_begin_with_the_first_byte(tenant: Tenant, certificates: tuple[Path, ssl.SSLContext]) -> None:
    certificate, trust = certificates
    list_id = tenant.add_list()
    settings = {"submission_certificate": str(certificate), "submission_tls": "tls"}
    with listening(tenant.services, **settings) as port:
        with smtplib.SMTP_SSL("localhost", port, timeout=PATIENCE, context=trust) as client:
            client.login("apikey", tenant.tokens["standard"])
            application = Application(client, f"app@{tenant.domain}")
            assert application.submit(mail(tenant, list_id), new_email())[0] == 250
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as link:
            link.sendall(b"EHLO a\r\n")
            assert b"EHLO" not in link.recv(1000)
        with smtplib.SMTP_SSL("localhost", port, timeout=PATIENCE, context=trust) as client:
            assert client.noop()[0] == 250


@pytest.mark.parametrize(("begin", "commands"), [("tls", b""), ("starttls", b"EHLO a\r\nSTARTTLS\r\n")])
def test_a_session_that_gives_way_during_a_handshake_leaves_nothing_behind(
    tenant: Tenant,
    certificates: tuple[Path, ssl.SSLContext],
    monkeypatch: pytest.MonkeyPatch,
    begin: str,
    commands: bytes,
) -> None:
    """Its client never answers."""
    monkeypatch.setattr(smtp_listener, "MAX_SESSIONS_OF_NETWORK", 1)
    changed = replace(tenant.services.settings, submission_certificate=str(certificates[0]), submission_tls=begin)
    listener = SubmissionListener(replace(tenant.services, settings=changed), KeyUses(tenant.services.database))

    async def server() -> asyncio.Server:
        await listener.listen("127.0.0.1", 0)
        return listener.servers[0]

    with in_thread(server()) as port, connect(port) as link:
        link.sendall(commands)
        if commands:
            assert any(line.startswith(b"220 2.0.0 ") for line in link.makefile("rb"))
        with connect(port):
            assert link.recv(1000) == b""
            loop = listener.servers[0].get_loop()
            wait_until(lambda: len(asyncio.all_tasks(loop)) == 1, "only the other session is left")


def test_a_new_certificate_is_used_by_new_sessions(tenant: Tenant) -> None:
    with short_folder() as folder, short_folder() as other:
        first, second = Authority(folder), Authority(other)
        first.server("localhost")
        second.server("localhost")
        certificate = folder / "localhost.pem"
        with listening(tenant.services, submission_certificate=str(certificate)) as port:
            with smtplib.SMTP("localhost", port, timeout=PATIENCE) as client:
                client.starttls(context=first.trust)
            certificate.write_text("no certificate")
            with smtplib.SMTP("localhost", port, timeout=PATIENCE) as client:
                client.starttls(context=first.trust)
            certificate.write_bytes((other / "localhost.pem").read_bytes())
            with smtplib.SMTP("localhost", port, timeout=PATIENCE) as client:
                client.starttls(context=second.trust)


# Senders of the envelope.


def unverified(domain: str) -> str:
    return (
        f"5.7.1 MAIL FROM: the domain {domain} is not a verified domain of the account. (invalid_from_address_domain)"
    )


def test_the_envelope_sender_needs_a_verified_domain_of_the_account(
    tenant: Tenant, other_tenant: Tenant, port: int
) -> None:
    list_id = tenant.add_list()
    tenant.add(Domain, name=f"new.{tenant.domain}", creation_time=now())
    with logged_in(port, tenant) as application:
        for domain in (f"sub.{tenant.domain}", f"new.{tenant.domain}", other_tenant.domain):
            answer = application.submit(mail(tenant, list_id), new_email(), sender=f"a@{domain}")
            assert answer == (550, unverified(domain))
        for sender in ("<>", "nobody"):
            code, text = application.client.docmd(f"MAIL FROM:{sender}")
            assert (code, text) == (550, b"5.1.7 MAIL FROM must be an address of a verified domain of the account")
        assert application.submit(mail(tenant, list_id), new_email(), sender=f"A@{tenant.domain.upper()}")[0] == 250
