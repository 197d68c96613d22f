"""Reading of `smtp://` and `smtps://` URLs (docs/transports.md#smtp)."""

from __future__ import annotations

import pytest

from app.transports.base import TransportUrlError
from app.transports.email import email_transport
from app.transports.email.smtp_url import SmtpSettings, Tls, parse_smtp_url
from tests.support.cases import each


@each(
    ("url", "settings"),
    [
        ("smtp://mail.example.com", SmtpSettings("mail.example.com", 25, None, None, Tls.OFFERED, 30, 100)),
        ("smtp://u:p@mail.example.com", SmtpSettings("mail.example.com", 587, "u", "p", Tls.OFFERED, 30, 100)),
        ("smtps://u:p@mail.example.com/", SmtpSettings("mail.example.com", 465, "u", "p", Tls.IMPLICIT, 30, 100)),
        ("smtps://h?tls=require", SmtpSettings("h", 465, None, None, Tls.IMPLICIT, 30, 100)),
        ("SMTP://H:2525?tls=require", SmtpSettings("h", 2525, None, None, Tls.REQUIRE, 30, 100)),
        ("smtp://h?tls=none&timeout=2.5&messages=7", SmtpSettings("h", 25, None, None, Tls.NONE, 2.5, 7)),
        ("smtp://[::1]:26", SmtpSettings("::1", 26, None, None, Tls.OFFERED, 30, 100)),
        (
            "smtp://a%40b.example:p%2F%3F%23%3A%40@h:1",
            SmtpSettings("h", 1, "a@b.example", "p/?#:@", Tls.OFFERED, 30, 100),
        ),
        (" smtp://h\n", SmtpSettings("h", 25, None, None, Tls.OFFERED, 30, 100)),
    ],
)
def test_parts_and_options_of_a_url(url: str, settings: SmtpSettings) -> None:
    assert parse_smtp_url(url) == settings


@each(
    ("url", "line"),
    [
        ("smtp://", "smtp://: a host is needed, as in smtp://mail.example.com:25"),
        ("smtp://u:p@", "smtp://: a host is needed, as in smtp://mail.example.com:25"),
        ("smtp://a..b", "smtp://a..b: a host is needed, as in smtp://mail.example.com:25"),
        ("smtp://one,two", "smtp://one,two: several relays are several URLs, as in smtp://one,smtp://two"),
        ("smtp://one,,smtp://two", "smtp://one,: several relays are several URLs, as in smtp://one,smtp://two"),
        ("smtp://h:0", "smtp://h:0: the port is a number from 1 to 65535"),
        ("smtp://u@h", "smtp://h: user and password go together, as in smtp://user:password@host"),
        ("smtp://:p@h", "smtp://h: user and password go together, as in smtp://user:password@host"),
        ("smtp://u:p%C3%A9@h", "smtp://h: user and password must be ASCII"),
        ("smtp://h/inbox", "smtp://h/inbox: nothing but options follows the host and port"),
        ("smtp://h#x", "smtp://h: nothing but options follows the host and port"),
        ("smtp://h?tls=maybe", "smtp://h: tls is require or none"),
        ("smtp://h?tls=", "smtp://h: tls is require or none"),
        ("smtps://h?tls=none", "smtps://h: smtps:// is always encrypted; write smtp:// with tls=none"),
        ("smtp://h?tsl=none", "smtp://h: unknown option 'tsl'; known options: messages, provider, timeout, tls"),
        ("smtp://h?tls=none&tls=require", "smtp://h: the option 'tls' is given twice"),
        ("smtp://h?timeout=0", "smtp://h: timeout is a number from 0.1 to 600.0"),
        ("smtp://h?timeout=soon", "smtp://h: timeout is a number from 0.1 to 600.0"),
        ("smtp://h?timeout=nan", "smtp://h: timeout is a number from 0.1 to 600.0"),
        ("smtp://h?messages=0", "smtp://h: messages is a whole number from 1 to 1000000"),
        ("smtp://h?messages=2.5", "smtp://h: messages is a whole number from 1 to 1000000"),
    ],
)
def test_an_invalid_url_is_reported_in_one_line(url: str, line: str) -> None:
    with pytest.raises(TransportUrlError) as caught:
        email_transport(url)
    assert str(caught.value) == line


@each(
    "url",
    [
        "smtp://ann:sesame@h:port",
        "smtp://ann:ses/ame@h",
        "smtp://ann:12/sesame@h",
        "smtp://ann:12?sesame=1@h",
        "smtp://ann:12#sesame@h",
        "smtp://ann:sesame@h?tls=maybe",
        "smtp://ann:sesame@h/x",
        "smtp://ann:sesame@",
        "smtp://ann:sesame%C3%A9@h",
        "smtp://ann:sesame@[h",
    ],
)
def test_no_error_contains_the_password(url: str) -> None:
    with pytest.raises(TransportUrlError) as caught:
        email_transport(url)
    assert "ame" not in str(caught.value)
    assert "ann" not in str(caught.value)
    assert "12" not in str(caught.value)


def test_the_transport_does_not_show_the_password() -> None:
    assert "sesame" not in repr(email_transport("smtp://ann:sesame@h"))
