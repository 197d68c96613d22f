"""What relay hooks share: their interface, the secrets that relays repeat, and reading values of any type."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import orjson

from app.errors import ServiceError
from app.inbound.email.fields import one_line
from app.inbound.email.report import UNSPECIFIC_STATUS, Report, failure_status, status_in
from app.settings import Settings


class HookRefused(Exception):
    """A request that is not proven to come from the relay; the text is for the log."""


class HookBusy(Exception):
    """Whether the request is genuine cannot be checked now: the relay must send it again. The text is for the log."""


@dataclass(frozen=True, slots=True)
class HookRequest:
    """A request of a relay. `secret` is the last segment of the path, empty if there is none; the names of `headers`
    are in lower case."""

    secret: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    parse: Callable[[bytes], Any] = field(repr=False)
    """Parses JSON with a limit of its values; raises `ServiceError`."""

    def document(self) -> Any:
        """The body as JSON. Raises `ServiceError` (`invalid_request`)."""
        return self.parse(self.body)


class RelayEvent(NamedTuple):
    """What an event says of one mail, which is named by its uuid or by its return path.

    Copies of an event have the same `fingerprint`. A relay that does not sign the whole request signs a one-time
    `token`, which is accepted with one event only: its hook returns those without a `report`, too.
    """

    report: Report | None
    fingerprint: str
    uuid: str | None = None
    return_path: str = ""
    token: str = ""


class RelayHook(Protocol):
    """The hook of one relay. Threads share it."""

    success: int
    """The status by which the relay knows that its events have been recorded."""

    def read(self, request: HookRequest, /) -> Sequence[RelayEvent]:
        """The events of a genuine request. Those that report nothing of interest may be left out if they have no token.

        Raises `HookRefused`, `HookBusy` and `ServiceError` (`invalid_request`).
        """
        ...


MAX_HEADER_LENGTH = 1000


class SecretHook:
    """A hook that knows requests by such a secret."""

    setting: ClassVar[str]
    """The attribute of the settings that has it."""

    def __init__(self, secret: str) -> None:
        self._secret = secret

    @classmethod
    def of(cls, settings: Settings) -> Self | None:
        """The hook with the secret in the settings; None without the setting."""
        secret: str = getattr(settings, cls.setting)
        return cls(secret) if secret else None

    def check(self, request: HookRequest) -> None:
        """Raises `HookRefused` for a request without the secret."""
        check_secret(request, self._secret)


def check_secret(request: HookRequest, expected: str) -> None:
    """Accepts the secret as the last segment of the path, as the password of basic authentication, or as a bearer
    token. Raises `HookRefused`."""
    if not any(hmac.compare_digest(expected.encode(), given.encode()) for given in _given(request)):
        raise HookRefused("it does not have the secret")


def _given(request: HookRequest) -> Iterator[str]:
    if request.secret:
        yield request.secret
    scheme, _, value = request.headers.get("authorization", "")[:MAX_HEADER_LENGTH].partition(" ")
    if scheme.lower() == "bearer":
        yield value.strip()
    elif scheme.lower() == "basic":
        yield _password(value)


def _password(value: str) -> str:
    """The password of basic authentication (RFC 7617), whatever the user is."""
    try:
        decoded = base64.b64decode(value.strip(), validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return ""
    return decoded.partition(":")[2]


Fields = Mapping[str, Any]

NOT_ATTEMPTED_STATUS = "4.7.0"
"""The relay did not attempt delivery, because of its own suppression list or rules; the address may be valid."""
METADATA_NAME = "tmsuuid"
"""The name under which our mails carry their uuid as metadata of the relay (docs/transports.md#relay-metadata)."""
MAX_EVENTS = 10_000
"""Events of one request."""
_UUID = re.compile(r"<?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:@|$)", re.ASCII | re.IGNORECASE)


def text_of(fields: Fields, name: str) -> str:
    """A text of the fields; empty if it is absent, and for anything else but a number."""
    value = fields.get(name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else ""


def fields_of(fields: Fields, name: str) -> Fields:
    """An object of the fields; empty if it is anything else."""
    value = fields.get(name)
    return value if isinstance(value, dict) else {}


def objects_of(values: object) -> list[Fields]:
    """The objects of an array. Raises `ServiceError` (`invalid_request`) for anything else than an array, and for one
    that is too long."""
    if not isinstance(values, list):
        raise ServiceError("invalid_request", detail="The body must be an array of events.")
    if len(values) > MAX_EVENTS:
        detail = f"The body holds more than {MAX_EVENTS} events; spread them over several requests."
        raise ServiceError("invalid_request", detail=detail)
    return [value for value in values if isinstance(value, dict)]


def uuid_in(text: str) -> str | None:
    """The recipient's uuid in a Message-ID of ours, or in metadata; None for another text."""
    match = _UUID.match(text)
    return match[1].lower() if match else None


def diagnostic(text: str) -> str:
    """The reply of a mail server, without the type before it (`smtp; 550 …`)."""
    line = one_line(text)
    return line.partition(";")[2].strip() if line.lower().startswith("smtp;") else line


def address_of(text: str) -> frozenset[str]:
    """The address that an event names, as a report compares it."""
    return frozenset({text.lower()} - {""})


def hard_status(status: str, detail: str, meaning: str = UNSPECIFIC_STATUS) -> str:
    """The code of a failure that the relay calls permanent. `meaning` is the code for what the relay calls the failure,
    which counts if the failure has no code."""
    status_code = _status_of_class("5", status, detail)
    return meaning if status_code == UNSPECIFIC_STATUS else status_code


def soft_status(status: str, detail: str) -> str:
    """The code of a failure that the relay calls temporary, or does not blame on the address."""
    return _status_of_class("4", status, detail)


def _status_of_class(digit: str, status: str, detail: str) -> str:
    """The code of a failure, with this first digit: the relay knows the bounces of a provider better than the code with
    which the provider answered."""
    status_code = failure_status(status_in(status), detail)
    return f"{digit}{status_code[1:]}"


def fingerprint_of(relay: str, own_id: str, event: Fields) -> str:
    """The fingerprint that all copies of an event share: made of the id that the relay gave it, else of all its
    values."""
    text = own_id.encode() or orjson.dumps(event, option=orjson.OPT_SORT_KEYS)
    return f"{relay} {hashlib.sha256(text).hexdigest()}"
