"""Validation and normalisation of email addresses and mobile numbers (docs/contacts.md#addresses).

Pure, and fast enough for a thousand addresses in one request.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache
from string import ascii_lowercase, ascii_uppercase
from typing import Literal, NamedTuple

import email_validator
import idna
import phonenumbers

AddressKind = Literal["email", "mobile"]
ADDRESS_KINDS: tuple[AddressKind, ...] = ("email", "mobile")
ADDRESS_KIND_BY_TYPE: dict[str, AddressKind] = {"email": "email", "sms": "mobile"}
"""The kind of address that a message of a type goes to."""
MESSAGE_TYPES = tuple(ADDRESS_KIND_BY_TYPE)

LONGEST_EMAIL = 254
LONGEST_LOCAL_PART = 64
"""Octets (RFC 5321, 4.5.3.1.1)."""
MOBILE = re.compile(r"[1-9][0-9]{7,14}")
WRITTEN_MOBILE = re.compile(r"(?![^.]*\.[0-9]*$)['\u2019]?[(\[]?\+?[0-9\s()\[\]./\u002d\u2010-\u2015]+")
"""A number as people write it: behind a plus, with signs between its digits, and with the apostrophe by which a
spreadsheet keeps it; but not a decimal, which a spreadsheet has made of it."""
ASCII_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
NO_DIGITS = re.compile(r"[^0-9]+")
PLAIN_EMAIL = re.compile(
    r"(?!.*[^.@]{64})[a-z0-9_+-]+(\.[a-z0-9_+-]+)*@([a-z0-9]+(-[a-z0-9]+)*\.)+[a-z]{2,}", re.ASCII | re.IGNORECASE
)
"""The form of nearly all addresses. The library accepts them too, but takes twenty times as long."""

# Syntax only: `host.test` and `host.invalid` are valid here. The library documents this as the way to allow them.
email_validator.SPECIAL_USE_DOMAIN_NAMES.clear()


def email_key(email: str) -> str:
    """The normalised form for comparison: lower case, composed (NFC), the domain in ASCII (UTS 46)."""
    if email.isascii():  # nearly all addresses, and the ASCII form of an international domain
        return email.lower()
    local, _, domain = email.rpartition("@")
    return f"{_composed(local)}@{domain_of(email)}" if local else _composed(domain)


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).lower())


class NormalizedAddress(NamedTuple):
    """An email address or mobile number in the form in which two are compared."""

    kind: AddressKind
    key: str


def normalize_address(kind: AddressKind, text: str) -> NormalizedAddress:
    """An address as a client or a person wrote it, in the form in which it is compared."""
    if kind == "email":  # without a call for nearly all addresses, of which a request brings a thousand
        text = text.lower() if text.isascii() else email_key(text)
    return NormalizedAddress(kind, text)


def address_forms(key: str) -> tuple[str, ...]:
    """A normalized address, and the other forms in which releases before revision 0072 stored the same one: its domain
    as it is written, and decomposed (NFD). They normalised only the case. One form for nearly all addresses."""
    if key.isascii() and "xn--" not in key:
        return (key,)
    local, at, domain = key.rpartition("@")
    composed = key, f"{local}{at}{_written_domain(domain)}"
    return tuple(dict.fromkeys((*composed, *(unicodedata.normalize("NFD", form) for form in composed))))


def written_forms(text: str) -> tuple[str, ...]:
    """The forms in which an address may be stored that somebody has written: normalized, and as it is written, in the
    lower case of a database, which may know the letters of ASCII alone."""
    forms = address_forms(email_key(text))
    return forms if text.isascii() else tuple(dict.fromkeys((*forms, text.lower(), text.translate(ASCII_LOWER))))


def all_forms(keys: Iterable[str]) -> list[str]:
    """The forms in which any of these normalized addresses may be stored: themselves, unless one is international."""
    keys = list(keys)
    together = "\n".join(keys)
    if together.isascii() and "xn--" not in together:
        return keys
    return [form for key in keys for form in address_forms(key)]


class AccountAddress(NamedTuple):
    """A normalized address of an account, as the tables of blocked and of unsubscribed addresses store it."""

    account_id: int
    kind: AddressKind
    key: str

    @classmethod
    def of(cls, account_id: int, kind: AddressKind, text: str) -> AccountAddress:
        """The address as a client or a person wrote it, of that account."""
        return cls(account_id, kind, email_key(text) if kind == "email" else text)


def is_valid_email(text: str) -> bool:
    """Whether the text is an email address by its syntax; nothing is looked up.

    At most 254 characters, a local part of at most 64 octets, a dot in the domain; special-use and international
    domains are allowed. Encoded words (RFC 2047) are not: some mail clients decode them, and see an address other than
    the one that was checked.
    """
    if len(text) > LONGEST_EMAIL:
        return False
    if PLAIN_EMAIL.fullmatch(text):
        return text.find("@") <= LONGEST_LOCAL_PART
    if _has_long_local_part(text) or _holds_encoded_word(text):
        return False
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
    """The domain in its normalised form: lower case, international domains in ASCII."""
    domain = email.rpartition("@")[2]
    if domain.isascii():  # its own ASCII form; the library takes 0.1 ms
        return domain.lower()
    return _ascii_domain(domain) if len(domain) <= LONGEST_EMAIL else _composed(domain)


@lru_cache(maxsize=1024)
def _ascii_domain(domain: str) -> str:
    """The composed form of one that has no ASCII form."""
    try:
        return idna.encode(domain, uts46=True).decode("ascii")
    except UnicodeError:
        return _composed(domain)


@lru_cache(maxsize=1024)
def _written_domain(domain: str) -> str:
    """An ASCII form as people write it; any other domain as it is."""
    try:
        return idna.decode(domain)
    except UnicodeError:
        return domain


def is_valid_mobile(text: str) -> bool:
    """Whether the text is a number in international format: digits with the country code, without plus or zero.

    8 to 15 digits, possible for the country code, reachable from anywhere, not only within its area, and without the
    zero that is dialled only within the country.
    """
    return MOBILE.fullmatch(text) is not None and (_is_plain_mobile(text) or is_possible_mobile(text))


class NumberingPlan(NamedTuple):
    """The numbers of a country code: possible lengths without it, and the national prefix."""

    lengths: frozenset[int]
    prefix: re.Pattern[str]


def _is_plain_mobile(digits: str) -> bool:
    """The form of nearly all numbers: a length of their country, and nothing that could be a prefix.

    The library accepts them too (the plans are its own), but takes ten times as long.
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
    # A leading zero goes to the library, too: some countries have numbers that begin with one.
    prefixes = [prefix for prefix in ("0", plan.national_prefix_for_parsing) if prefix]
    return NumberingPlan(frozenset(plan.general_desc.possible_length), re.compile("|".join(prefixes)))


def mobile_as_stored(text: str) -> str:
    """The digits of a mobile number that a person has written (docs/contacts.md#addresses); what is none stays as it
    is."""
    if not WRITTEN_MOBILE.fullmatch(text.strip()):
        return text
    digits = NO_DIGITS.sub("", text)
    return digits if is_valid_mobile(digits) else text


def is_possible_mobile(text: str) -> bool:
    """Whether the library accepts the digits with country code."""
    try:
        number = phonenumbers.parse("+" + text)
    except phonenumbers.NumberParseException:
        return False
    national = text[len(str(number.country_code)) :]
    if national.startswith("0") and not number.italian_leading_zero:
        return False
    reason = phonenumbers.is_possible_number_with_reason(number)
    return bool(reason == phonenumbers.ValidationResult.IS_POSSIBLE)
