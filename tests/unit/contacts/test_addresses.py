"""Email addresses and mobile numbers (docs/contacts.md#addresses)."""

from __future__ import annotations

import email_validator
import phonenumbers
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.addresses import (
    MOBILE,
    PLAIN_EMAIL,
    domain_of,
    email_key,
    is_possible_mobile,
    is_valid_email,
    is_valid_mobile,
    mobile_as_stored,
)
from tests.support.cases import each


@each(
    "email",
    [
        "ann@example.com",
        "ann+tag@example.com",
        "o'neil@example.com",
        "a@host.example",
        "a@host.test",
        "a@host.invalid",
        "a@host.local",
        "a@bücher.example",
        "jürgen@example.com",
        "x" * 64 + "@example.com",
        "x" * 31 + "." + "y" * 32 + "@example.com",
        "ü" * 32 + "@example.com",
        "ann@" + ("x" * 60 + ".") * 4 + "com",
        "a=?b@example.com",
        "a?=b=?c@example.com",
        "=?=@example.com",
    ],
)
def test_valid_emails(email: str) -> None:
    assert is_valid_email(email)


@each(
    "email",
    [
        "",
        "plain",
        "@example.com",
        "a@",
        "a b@example.com",
        "a@b@example.com",
        "a@localhost",
        "a@example",
        "a@example..com",
        "a@-example.com",
        "a@[127.0.0.1]",
        '"a b"@example.com',
        "Ann <ann@example.com>",
        "ann@example.com\n",
        " ann@example.com",
        "ann@example.com\x00",
        "ann@" + ("x" * 60 + ".") * 4 + "museums",
        "\ud800@example.com",
    ],
)
def test_invalid_emails(email: str) -> None:
    assert not is_valid_email(email)


@each(
    "local",
    ["x" * 65, "x" * 32 + "." + "y" * 32, "a.b." * 20 + "c", "ü" * 33, "x" * 63 + "ü", "𝄞" * 17],
)
def test_a_local_part_has_at_most_64_octets(local: str) -> None:
    assert not is_valid_email(f"{local}@example.com")


@each(
    "email",
    [
        "=?utf-8?q?ann?=@example.com",
        "=?utf-8?b?YW5uQGV2aWwuZXhhbXBsZQ==?=@example.com",
        "=?iso-8859-1*en?Q?a?=@example.com",
        "ann=?x?y?z?=lee@example.com",
        "ann.=??=@example.com",
        "=?utf-8?q?ä?=@example.com",
    ],
)
def test_an_encoded_word_in_an_address_is_refused(email: str) -> None:
    assert not is_valid_email(email)


def test_emails_compare_without_regard_to_case() -> None:
    assert email_key("Ann.Lee@EXAMPLE.com") == email_key("ann.lee@example.COM") == "ann.lee@example.com"


@pytest.mark.parametrize(
    ("email", "domain"),
    [
        ("ann@Example.COM", "example.com"),
        ("ann@Bücher.example", "xn--bcher-kva.example"),
        ("ann@XN--BCHER-KVA.example", "xn--bcher-kva.example"),
        ("odd@a..b", "a..b"),
    ],
)
def test_domains_compare_in_their_ascii_form(email: str, domain: str) -> None:
    assert domain_of(email) == domain


@each(
    ("written", "stored"),
    [
        *((written, "61411111111") for written in ("61411111111", "+61 411 111 111", " +61-411-111-111 ")),
        *((written, "61411111111") for written in ("+61 (411) 111 111", "(+61) 411/111/111", "+61.411.111.111")),
        *((written, "61411111111") for written in ("'61411111111", "'+61 411111111", "\u201961411111111")),
        *((written, "61411111111") for written in ("+61\u00a0411\u2009111\u2011111",)),
        *(
            (other, other)
            for other in ("", "+", "'", "0411 111 111", "+61 (0)411 111 111", "61411111111.0", "6.1411E+10")
        ),
        *(
            (other, other)
            for other in ("+61 411 111 111 ext 2", "61+411111111", "++61411111111", "+61 411", "\u0666 1")
        ),
    ],
)
def test_a_mobile_is_read_as_people_write_it_and_nothing_is_made_of_what_is_none(written: str, stored: str) -> None:
    assert mobile_as_stored(written) == stored


@each("mobile", ["61411111111", "12025550123", "447400123456", "491711234567", "390612345678"])
def test_valid_mobiles(mobile: str) -> None:
    assert is_valid_mobile(mobile)


@each(
    "mobile",
    [
        "",
        "+61411111111",
        "0411111111",
        "610411111111",
        "61 411 111 111",
        "61-411-111-111",
        "mobile",
        "6141111",
        "6141111111111111",
        "1202555012",
        "120255501234",
        "99912345678",
        "٦١٤١١١١١١١١",
        "61411111111\n",
    ],
)
def test_invalid_mobiles(mobile: str) -> None:
    assert not is_valid_mobile(mobile)


@each("mobile", ["12345678", "72222222", "4422222222", "5222222222", "912222222", "385222222"])
def test_a_number_that_can_only_be_dialled_locally_is_refused(mobile: str) -> None:
    number = phonenumbers.parse("+" + mobile)
    reason = phonenumbers.is_possible_number_with_reason(number)
    assert reason == phonenumbers.ValidationResult.IS_POSSIBLE_LOCAL_ONLY
    assert not is_valid_mobile(mobile)


@given(st.text(max_size=300))
def test_any_text_is_accepted_or_refused(text: str) -> None:
    assert is_valid_email(text) in (True, False)
    assert is_valid_mobile(text) in (True, False)
    assert email_key(email_key(text)) == email_key(text) or not is_valid_email(text)
    domain_of(text)


@given(st.from_regex(r"\A[a-zA-Z0-9_+-]{1,5}(\.[a-z0-9_-]{1,5})?@([a-z0-9-]{1,70}\.){1,3}[A-Za-z0-9]{1,5}\Z"))
def test_the_fast_check_of_emails_accepts_nothing_that_the_full_check_refuses(text: str) -> None:
    if PLAIN_EMAIL.fullmatch(text):
        email_validator.validate_email(text, check_deliverability=False)


@given(st.from_regex(r"\A[1-9][0-9]{7,14}\Z"))
def test_the_fast_check_of_mobiles_agrees_with_the_library(text: str) -> None:
    assert is_valid_mobile(text) == is_possible_mobile(text)


@each("code", sorted(phonenumbers.COUNTRY_CODE_TO_REGION_CODE))
def test_the_numbering_plan_of_every_country_agrees_with_the_library(code: int) -> None:
    """Checks a number of every length, beginning with every digit, for each country code."""
    for size in range(4, 13):
        for start in "0123456789":
            text = f"{code}{start}{'1' * (size - 1)}"
            assert is_valid_mobile(text) == (bool(MOBILE.fullmatch(text)) and is_possible_mobile(text))
