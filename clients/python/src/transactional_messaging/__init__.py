"""The Python library of the transactional messaging service.

    from transactional_messaging import Client

    client = Client("tms_...", "https://tms.example.com")
    send = client.sends.create(
        type="email",
        list_id=1,
        message_id=1,
        group_name="Welcome",
        recipients=[{"email": "ann@example.com", "first_name": "Ann"}],
    )
    print(send.uuids)

The methods are named as the operations of the service's OpenAPI description, such as `contacts.list`.
"""

from transactional_messaging.attachments import Attachment
from transactional_messaging.client import Client
from transactional_messaging.errors import (
    ApiError,
    AuthenticationFailed,
    Conflict,
    Error,
    InvalidRequest,
    LocatedError,
    NotFound,
    PermissionDenied,
    ServiceUnavailable,
    ServiceUnreachable,
    SignatureError,
    TooManyRequests,
    UnexpectedAnswer,
    ValidationFailed,
    WaitedTooLong,
)
from transactional_messaging.filters import above, any_of, below, between, is_not
from transactional_messaging.retries import Retries
from transactional_messaging.version import __version__

__all__ = [
    "ApiError",
    "Attachment",
    "AuthenticationFailed",
    "Client",
    "Conflict",
    "Error",
    "InvalidRequest",
    "LocatedError",
    "NotFound",
    "PermissionDenied",
    "Retries",
    "ServiceUnavailable",
    "ServiceUnreachable",
    "SignatureError",
    "TooManyRequests",
    "UnexpectedAnswer",
    "ValidationFailed",
    "WaitedTooLong",
    "__version__",
    "above",
    "any_of",
    "below",
    "between",
    "is_not",
]
