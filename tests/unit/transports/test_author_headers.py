"""Header fields that the author of a mail has written (docs/smtp-submission.md#header-fields): encoded so that they are
one field each, and in the place of the service's own."""

from __future__ import annotations

from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.transports.email import mime


def built(headers: dict[str, str], **values: Any) -> EmailMessage:
    """A mail with these fields."""
    content = mime.build(
        from_name="Acme",
        from_address="hello@acme.example",
        to="ann@example.com",
        reply_to="reply@acme.example",
        subject="s",
        html=None,
        text="x",
        message_id="1@acme.example",
        date=datetime(2026, 11, 28, tzinfo=UTC),
        author_headers=mime.author_headers(headers),
        **values,
    )
    assert all(len(line) <= 998 for line in content.split(b"\r\n"))
    return message_from_bytes(content, policy=policy.default)


def test_they_take_the_place_of_those_of_the_service() -> None:
    headers = {"Cc": "b@example.com", "Reply-To": "Bob <bob@example.com>", "Auto-Submitted": "no", "X-A": "ü"}
    message = built(headers)
    assert {name: message.get_all(name) for name in headers} == {name: [value] for name, value in headers.items()}
    assert (message["To"], message["MIME-Version"]) == (None, "1.0")
    assert (built({"To": "x@example.com"})["To"], built({"X-A": "a"})["To"]) == ("x@example.com", "ann@example.com")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("Ann <ann@example.com>, bob@example.com", "Ann <ann@example.com>, bob@example.com"),
        ("undisclosed-recipients:;", "undisclosed-recipients:;"),
        ("=?utf-8?q?Zo=C3=AB?= <zoe@example.com>", "Zoë <zoe@example.com>"),
        ("Zoë <zoe@bücher.example>, bob@example.com", "Zoë <zoe@xn--bcher-kva.example>, bob@example.com"),
        ("zoe@bücher.example, <bob@bücher.example>", "zoe@xn--bcher-kva.example, bob@xn--bcher-kva.example"),
        (
            "=?utf-8?q?A?= =?utf-8?b?w6k=?= <a@example.com>, Zoë <z@example.com>",
            "Aé <a@example.com>, Zoë <z@example.com>",
        ),
        ("=?utf-8?q?=2C?= <a@example.com>, é@example.com", '"," <a@example.com>, é@example.com'),
        ("=?utf-8?q??= <a@example.com>, Zoë <z@example.com>", "a@example.com, Zoë <z@example.com>"),
    ],
)
def test_addresses_stay_as_they_are_written(written: str, read: str) -> None:
    assert str(built({"To": written})["To"]) == read


def test_a_long_name_is_encoded() -> None:
    (address,) = built({"To": f"{'a' * 1200} <ann@example.com>"})["To"].addresses
    assert (address.addr_spec, address.display_name.replace(" ", "")) == ("ann@example.com", "a" * 1200)


def test_a_hundred_addresses_are_folded() -> None:
    written = ", ".join(f"Person {number} <person-{number}@example.com>" for number in range(100))
    assert built({"To": written})["To"] == written


@given(name=st.sampled_from(["To", "Cc", "Reply-To", "X-Field", "References"]), value=st.text(min_size=1, max_size=300))
def test_no_value_adds_a_field(name: str, value: str) -> None:
    message = built({name: value})
    expected = {"Message-ID", "Date", "From", "Subject", "Auto-Submitted", "MIME-Version", name}
    expected |= {"Content-Type", "Content-Transfer-Encoding"}
    expected |= {"To"} - ({"To"} if name == "Cc" else set())
    expected |= {"Reply-To"}
    assert set(message.keys()) == expected
