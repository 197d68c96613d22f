"""Metadata by which the events of a relay name a mail (docs/transports.md#relay-metadata)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.transports.base import OutboundEmail, TransportUrlError
from app.transports.email.smtp import smtp_transport
from app.transports.email.smtp_url import parse_smtp_url
from tests.support.cases import each
from tests.unit.transports.mailserver import LineServer, MailServer

MakeMail = Callable[..., OutboundEmail]
UUID = "6f1d2c3b-4a59-4e68-9f70-8192a3b4c5d6"
FIELDS = {
    "mailgun": f'X-Mailgun-Variables: {{"tmsuuid": "{UUID}"}}',
    "postmark": f"X-PM-Metadata-tmsuuid: {UUID}",
    "sparkpost": f'X-MSYS-API: {{"metadata": {{"tmsuuid": "{UUID}"}}}}',
}


@pytest.mark.parametrize("provider", [*FIELDS, "none"])
def test_a_mail_has_its_uuid_in_the_form_of_the_provider(server: MailServer, mail: MakeMail, provider: str) -> None:
    connection = smtp_transport(f"{server.url()}?provider={provider}").connect()
    connection.send(mail(uuid_=UUID))
    connection.send(mail(uuid_=f"{UUID}-bcc"))
    connection.close()
    first, copy = (sent.content for sent in server.mails)
    assert first == (f"{FIELDS[provider]}\r\n".encode() if provider in FIELDS else b"") + copy


@each(
    ("host", "provider"),
    [
        ("smtp.postmarkapp.com", "postmark"),
        ("SMTP.eu.mailgun.org", "mailgun"),
        ("smtp.sparkpostmail.com", "sparkpost"),
        ("postmarkapp.com.example", "none"),
        ("relay", "none"),
    ],
)
def test_the_provider_is_known_by_its_host(host: str, provider: str) -> None:
    assert parse_smtp_url(f"smtp://{host}").provider == provider
    assert parse_smtp_url(f"smtp://{host}?provider=none").provider == "none"


def test_an_unknown_provider_is_refused() -> None:
    with pytest.raises(TransportUrlError, match="provider is one of mailgun, postmark, sparkpost or none"):
        smtp_transport("smtp://relay?provider=pigeons")


def test_an_announced_mail_has_its_metadata_too(mail: MakeMail) -> None:
    """The announced size is that of the mail with it."""
    invites = ["250 sender", "250 recipient", "354 go ahead"]
    hello = ["220 relay", "250-relay\r\n250-PIPELINING\r\n250 SIZE 100000"]
    first, second = mail(uuid_=UUID), mail(uuid_=UUID.replace("6", "7"))
    with LineServer([*hello, *invites, "250 taken", *invites, "250 taken", "221 bye"]) as relay:
        connection = smtp_transport(f"smtp://127.0.0.1:{relay.port}?provider=postmark").connect()
        results = [connection.send(first, second), connection.send(second)]
        connection.close()
    assert [result.outcome.value for result in results] == ["accepted"] * 2
    size = len(first.content) + len(FIELDS["postmark"]) + 2
    assert [line for line in relay.lines if line.startswith(b"MAIL")] == [
        f"MAIL FROM:<shop@main.example> SIZE={size}\r\n".encode()
    ] * 2
    assert relay.behind[0].startswith(b"MAIL FROM")
