"""Everything that this library raises. `Error` is the base of all of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from transactional_messaging.transport import Answer


class Error(Exception):
    """The base of all errors of this library."""


class ServiceUnreachable(Error):
    """No answer: the connection failed or a time-out passed, also when it was tried again.

    The request may or may not have been processed. To repeat a POST without doing it twice, give `idempotency_key`
    of this error.
    """

    def __init__(self, text: str, idempotency_key: str | None = None) -> None:
        super().__init__(text)
        self.idempotency_key = idempotency_key


class UnexpectedAnswer(Error):
    """A success whose body is not what the API answers; another server may have answered in its place."""


class WaitedTooLong(Error):
    """What a `wait` method waits for did not happen in time."""


class SignatureError(Error):
    """A webhook request without a valid signature: answer it with 401."""


@dataclass(frozen=True)
class LocatedError:
    """One error of a request. `collection` and `index`, from 0, name the element of an array, `field` the attribute."""

    code: str
    message: str
    developer_message: str
    field: str | None = None
    collection: str | None = None
    index: int | None = None

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> LocatedError:
        """From the body of an error, or an element of its list of errors."""
        texts = {name: str(body.get(name) or "") for name in ("code", "message", "developer_message")}
        return cls(**texts, field=body.get("field"), collection=body.get("collection"), index=body.get("index"))

    @property
    def place(self) -> str:
        """Where it is: `recipients[3].email`, `subject`, or nothing."""
        element = f"{self.collection}[{self.index}]" if self.collection is not None else ""
        return ".".join(part for part in (element, self.field) if part)

    def __str__(self) -> str:
        place = f" ({self.place})" if self.place else ""
        return f"{self.code}{place}: {self.developer_message or self.message}"


class ApiError(Error):
    """The service refused the request; nothing was written. The subclasses are by status.

    `code` names the error; `message` may be shown to an end user, `developer_message` is for you. `errors` has all
    errors of the request, up to 100; the attributes of this exception are those of the first.
    """

    def __init__(self, status: int, body: Mapping[str, Any], request_id: str | None, retry_after: float | None) -> None:
        self.status = status
        self.body = body
        self.request_id = request_id
        self.retry_after = retry_after
        self.type = str(body.get("type") or "")
        self.first = LocatedError.read({"code": self.type or f"http_{status}", **body})
        listed = (body.get("_embedded") or {}).get("errors") or ()
        self.errors = tuple(LocatedError.read(one) for one in listed) or (self.first,)
        more = f" (and {len(self.errors) - 1} more)" if len(self.errors) > 1 else ""
        super().__init__(f"{status} {self.first}{more} [request {request_id}]")

    @property
    def code(self) -> str:
        """The code of the first error, such as `invalid_email_address`."""
        return self.first.code

    @property
    def message(self) -> str:
        """A text for an end user."""
        return self.first.message

    @property
    def developer_message(self) -> str:
        """What is wrong, and what would be accepted."""
        return self.first.developer_message

    @property
    def field(self) -> str | None:
        """The attribute or query parameter of the first error."""
        return self.first.field

    @property
    def collection(self) -> str | None:
        """The array of the body that has the element of the first error."""
        return self.first.collection

    @property
    def index(self) -> int | None:
        """The position of that element, from 0."""
        return self.first.index


class InvalidRequest(ApiError):
    """400: the query or the form of the body."""


class AuthenticationFailed(ApiError):
    """401: no key, or one that is unknown or revoked."""


class PermissionDenied(ApiError):
    """403: the key may not do this, or not from here."""


class NotFound(ApiError):
    """404: the account has nothing there."""


class Conflict(ApiError):
    """409: the state does not allow it. `fields` says what has a value already, if that is the reason."""

    @property
    def fields(self) -> Mapping[str, Any]:
        """Attribute to what has its value, as in `{"email": {"contact_id": 12}}`."""
        found: Mapping[str, Any] = self.body.get("fields") or {}
        return found


class ValidationFailed(ApiError):
    """422: a value of the body."""


class TooManyRequests(ApiError):
    """429: the rate limit, after all retries."""


class ServiceUnavailable(ApiError):
    """503, or 502 and 504 of a proxy, after all retries."""


CLASSES: dict[int, type[ApiError]] = {
    400: InvalidRequest,
    401: AuthenticationFailed,
    403: PermissionDenied,
    404: NotFound,
    409: Conflict,
    422: ValidationFailed,
    429: TooManyRequests,
    502: ServiceUnavailable,
    503: ServiceUnavailable,
    504: ServiceUnavailable,
}


def error_of(answer: Answer) -> ApiError:
    """The exception for an answer that is no success. A body that is not the API's, such as the page of a proxy, is
    reported by its status alone."""
    try:
        body = json.loads(answer.body)
    except ValueError:
        body = None
    if not isinstance(body, dict) or "developer_message" not in body:
        body = {"developer_message": "The answer is not one of the API; a server in between may have given it."}
    known = CLASSES.get(answer.status, ApiError)
    return known(answer.status, body, answer.headers.get("x-request-id"), answer.retry_after)
