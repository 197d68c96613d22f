"""Values of list fields: what each type accepts, for the API, the seed file and imports alike
(docs/contacts.md#values).

Pure. An accepted value is stored and shown as it was given, except the empty string, which means null
(docs/contacts.md#values).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime
from typing import Any
from urllib.parse import urlsplit

from app.addresses import is_valid_email, is_valid_mobile
from app.lists.fields import FieldSpec, ValueType

MAX_STRING_LENGTH = 10_000
MAX_NAMED_OPTIONS = 10
"""Options that a refusal names: it is repeated for each invalid value of a request or a file."""

DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
DATETIME = re.compile(DATE.pattern + r"T[0-9]{2}:[0-9]{2}:[0-9]{2}")
UNSTORABLE_CHARACTER = re.compile("[\x00\ud800-\udfff]")
"""PostgreSQL cannot store a null byte in text, and half a surrogate pair is no character."""
FORBIDDEN_IN_URLS = re.compile(r"[\s\x00-\x1f\x7f<>\"\\^`{|}]")
HOST = re.compile(r"[\w-]+(\.[\w-]+)*\.?|[0-9a-f:.]+")
MAX_INTEGER = 2**63 - 1


class InvalidValue(ValueError):
    """A value that its field does not accept: the code of the catalogue, and what would be accepted."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


def clean_value(field: FieldSpec, value: Any) -> Any:
    """The value as it is stored: a string, a number or None. Raises `InvalidValue` (docs/contacts.md#values)."""
    is_null = value is None or (value == "" and field.value_type is not ValueType.NUMBER)
    return None if is_null else CLEANERS[field.value_type](field, value)


def _string(field: FieldSpec, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidValue("invalid_string", f"{field.key} must be a string.")
    if len(value) > MAX_STRING_LENGTH:
        detail = f"{field.key} has {len(value)} characters; at most {MAX_STRING_LENGTH} are accepted."
        raise InvalidValue("too_long", detail)
    if UNSTORABLE_CHARACTER.search(value):
        raise InvalidValue("invalid_string", f"{field.key} contains U+0000 or half a surrogate pair.")
    return value


def _email(field: FieldSpec, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidValue("invalid_string", f"{field.key} must be a string.")
    if not is_valid_email(value):
        detail = f"{field.key} must be an email address of at most 254 characters, such as ann@example.com."
        raise InvalidValue("invalid_email_address", detail)
    return value


def _mobile(field: FieldSpec, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidValue("invalid_string", f"{field.key} must be a string.")
    if not is_valid_mobile(value):
        detail = f"{field.key} must be 8 to 15 digits with the country code and no leading plus, such as 61411111111."
        raise InvalidValue("invalid_mobile_address", detail)
    return value


def _url(field: FieldSpec, value: Any) -> str:
    text = _string(field, value)
    if not _is_url(text):
        raise InvalidValue("invalid_url", f"{field.key} must be an absolute http or https URL.")
    return text


def _is_url(text: str) -> bool:
    if FORBIDDEN_IN_URLS.search(text):
        return False
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and HOST.fullmatch(parts.hostname or "") is not None


def _option(field: FieldSpec, value: Any) -> str:
    text = _string(field, value)
    if field.options and text not in field.options:
        detail = f"{field.key} must be one of the field's options: {_first_options(field)}."
        raise InvalidValue("invalid_string", detail)
    return text


def _options(field: FieldSpec, value: Any) -> str:
    text = _string(field, value)
    if field.options and not set(text.split(",")) <= set(field.options):
        detail = f"{field.key} must be options of the field, joined by commas without spaces: {_first_options(field)}."
        raise InvalidValue("invalid_string", detail)
    return text


def _first_options(field: FieldSpec) -> str:
    more = len(field.options) - MAX_NAMED_OPTIONS
    return ", ".join(field.options[:MAX_NAMED_OPTIONS]) + (f" and {more} more" if more > 0 else "")


def _date(field: FieldSpec, value: Any) -> str:
    if not isinstance(value, str) or not DATE.fullmatch(value):
        raise InvalidValue("invalid_iso_date", f"{field.key} must have the form YYYY-MM-DD.")
    try:
        date.fromisoformat(value)
    except ValueError:
        raise InvalidValue("invalid_date", f"{field.key}: {value} is not a day of the calendar.") from None
    return value


def _date_or_datetime(field: FieldSpec, value: Any) -> str:
    if not isinstance(value, str) or not (DATE.fullmatch(value) or DATETIME.fullmatch(value)):
        detail = f"{field.key} must have the form YYYY-MM-DDTHH:MM:SS or YYYY-MM-DD."
        raise InvalidValue("invalid_iso_date_time", detail)
    if not _is_moment(value):
        raise InvalidValue("invalid_date_time", f"{field.key}: {value} is not a valid date and time.")
    return value


def _is_moment(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return text[11:13] != "24"  # newer Pythons take it for the next midnight


def _number(field: FieldSpec, value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidValue("invalid_number", f"{field.key} must be a number.")
    if isinstance(value, int) and abs(value) <= MAX_INTEGER:
        return value
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidValue("invalid_number", f"{field.key} must be a number that fits in 64 bits.")
    return number


Cleaner = Callable[[FieldSpec, Any], Any]


CLEANERS: dict[ValueType, Cleaner] = {
    ValueType.STRING: _string,
    ValueType.EMAIL: _email,
    ValueType.MOBILE: _mobile,
    ValueType.URL: _url,
    ValueType.OPTION: _option,
    ValueType.OPTIONS: _options,
    ValueType.DATE: _date,
    ValueType.DATE_OR_DATETIME: _date_or_datetime,
    ValueType.NUMBER: _number,
}
"""Functions that convert a value other than null, and other than the empty string where values are strings, to the form
in which it is stored."""
