"""Email addresses and mobile numbers: what a valid one looks like, and the form in which two are compared.

Pure, and quick enough for a thousand addresses in one request (docs/contacts.md#addresses).
"""

from __future__ import annotations

import re
from functools import cache
from typing import Literal, NamedTuple

import email_validator
import idna
import phonenumbers

AddressKind = Literal["email", "mobile"]
ADDRESS_KINDS: tuple[AddressKind, ...] = ("email", "mobile")

LONGEST_EMAIL = 254
LONGEST_LOCAL_PART = 64
"""Octets (RFC 5321, 4.5.3.1.1)."""
MOBILE = re.compile(r"[1-9][0-9]{7,14}")
PLAIN_EMAIL = re.compile(
    r"(?!.*[^.@]{64})[a-z0-9_+-]+(\.[a-z0-9_+-]+)*@([a-z0-9]+(-[a-z0-9]+)*\.)+[a-z]{2,}", re.ASCII | re.IGNORECASE
)
"""What nearly all addresses look like. The library accepts them too, but takes twenty times as long to say so."""

# Syntax only: `host.test` and `host.invalid` are addresses here (docs/contacts.md#addresses). The library names this as
# the way.
email_validator.SPECIAL_USE_DOMAIN_NAMES.clear()


def email_key(email: str) -> str:
    """The form in which emails are compared: without regard to case (docs/contacts.md#addresses)."""
    return email.lower()


class NormalizedAddress(NamedTuple):
    """An email address or mobile number in the form in which two are compared."""

    kind: AddressKind
    key: str


def normalize_address(kind: AddressKind, text: str) -> NormalizedAddress:
    """An address as a client or a person wrote it, in the form in which it is compared."""
    return NormalizedAddress(kind, email_key(text) if kind == "email" else text)


def is_valid_email(text: str) -> bool:
    """Whether the text is an email address by its syntax; nothing is looked up.

    At most 254 characters, a local part of at most 64 octets, a dot in the domain; special-use and international
    domains are fine (docs/contacts.md#addresses). An encoded word (RFC 2047) is no part of an address: some readers
    decode it, and see another address than the one that was checked (docs/contacts.md#addresses).
    """
    if len(text) > LONGEST_EMAIL or _has_long_local_part(text) or _holds_encoded_word(text):
        return False
    if PLAIN_EMAIL.fullmatch(text):
        return True
    try:
        email_validator.validate_email(text, check_deliverability=False)
    except email_validator.EmailNotValidError:
        return False
    return True


def _has_long_local_part(text: str) -> bool:
    local = text.rpartition("@")[0]
    return len(local.encode("utf-8", "replace")) > LONGEST_LOCAL_PART


def _holds_encoded_word(text: str) -> bool:
    start = text.find("=?")
    return start >= 0 and text.find("?=", start + 2) >= 0


def domain_of(email: str) -> str:
    """The domain in the form in which domains are compared: lower-case, international ones in their ASCII form."""
    domain = email.rpartition("@")[2].lower()
    if domain.isascii():  # it is its own ASCII form, which takes the library 0.1 ms to find
        return domain
    try:
        return idna.encode(domain, uts46=True).decode("ascii")
    except idna.IDNAError:
        return domain


def is_valid_mobile(text: str) -> bool:
    """Whether the text is a number in international format: digits with the country code, without plus or zero.

    8 to 15 digits, possible for the country code (docs/contacts.md#addresses) and from everywhere, not only within its
    area (docs/contacts.md#addresses), and without the zero that is dialled before a number only inside its country
    (docs/contacts.md#addresses).
    """
    return MOBILE.fullmatch(text) is not None and (_is_plain_mobile(text) or is_possible_mobile(text))


class NumberingPlan(NamedTuple):
    """The numbers of a country code: how many digits follow it, and what may be dialled before them in the country."""

    lengths: frozenset[int]
    prefix: re.Pattern[str]


def _is_plain_mobile(digits: str) -> bool:
    """What nearly all numbers look like: as long as their country has them, and nothing that might be a prefix.

    The library accepts them too (the plans are its own), but takes ten times as long to say so.
    """
    for size in (1, 2, 3):
        plan = _plan(digits[:size])
        if plan is not None:
            national = digits[size:]
            return len(national) in plan.lengths and not plan.prefix.match(national)
    return False


@cache
def _plan(country_code: str) -> NumberingPlan | None:
    """None for what is not a country code."""
    regions = phonenumbers.COUNTRY_CODE_TO_REGION_CODE.get(int(country_code))
    plan = regions and phonenumbers.PhoneMetadata.metadata_for_region_or_calling_code(int(country_code), regions[0])
    if not plan or not plan.general_desc:
        return None
    # Zeros are looked at more closely, too: some countries have numbers that begin with one.
    prefixes = [prefix for prefix in ("0", plan.national_prefix_for_parsing) if prefix]
    return NumberingPlan(frozenset(plan.general_desc.possible_length), re.compile("|".join(prefixes)))


def is_possible_mobile(text: str) -> bool:
    """The library's word on digits with the country code."""
    try:
        number = phonenumbers.parse("+" + text)
    except phonenumbers.NumberParseException:
        return False
    national = text[len(str(number.country_code)) :]
    if national.startswith("0") and not number.italian_leading_zero:
        return False
    reason = phonenumbers.is_possible_number_with_reason(number)
    return bool(reason == phonenumbers.ValidationResult.IS_POSSIBLE)
