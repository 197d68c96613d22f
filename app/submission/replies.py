"""Answers of the SMTP door: codes of the catalogue as enhanced status codes (docs/smtp-submission.md#answers). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from app.errors import CATALOGUE, FieldError, ServiceError

LONGEST_LINE = 450
"""Characters of one line of an answer; clients need not read more than 512 (RFC 5321, 4.5.3.1.5)."""
MAX_LINES = 10


class Status(NamedTuple):
    """The reply code, and the enhanced status code (RFC 3463)."""

    code: int
    enhanced: str

    def __str__(self) -> str:
        return f"{self.code} {self.enhanced}"


REFUSED_CONTENT = Status(550, "5.6.0")
LATER = Status(451, "4.3.0")
STATUSES: dict[str, Status] = {
    "api_key_missing": Status(530, "5.7.0"),
    "api_key_invalid": Status(535, "5.7.8"),
    "ip_restricted": Status(535, "5.7.1"),
    "permission_denied": Status(535, "5.7.1"),
    "too_many_requests": Status(451, "4.7.1"),
    "service_unavailable": LATER,
    "account_owner_unverified": Status(550, "5.7.1"),
    "invalid_from_address": Status(550, "5.1.7"),
    "invalid_from_address_domain": Status(550, "5.7.1"),
    "invalid_email_address": Status(553, "5.1.3"),
}
"""Code of the catalogue -> its status. The others are about the content."""


def status_of(code: str) -> Status:
    """The status of a code of the catalogue: by the table, else refused, or later for a failure of the service."""
    return STATUSES.get(code) or (LATER if CATALOGUE[code].status >= 500 else REFUSED_CONTENT)


def refusal_reply(error: ServiceError) -> str:
    """The answer with a line for each error: the developer message, and the code in brackets."""
    return reply(status_of(error.code), [_line(each) for each in error.errors[:MAX_LINES]])


def _line(error: FieldError) -> str:
    text = _ascii(error.detail or CATALOGUE[error.code].developer_message)
    return f"{text[: LONGEST_LINE - len(error.code) - 3]} ({error.code})"


def _ascii(text: str) -> str:
    return " ".join(text.encode("ascii", "backslashreplace").decode().split())


def reply(status: Status, lines: Iterable[str]) -> str:
    """An answer of one line or more, in ASCII."""
    *before, last = (f"{status.enhanced} {_ascii(line)[:LONGEST_LINE]}" for line in lines)
    return "\r\n".join([*(f"{status.code}-{line}" for line in before), f"{status.code} {last}"])
