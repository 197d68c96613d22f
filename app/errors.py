"""The catalogue of error codes and the exceptions that carry them.

Every error that a client can see is a row of `CATALOGUE`: its status, its family (`type`) and its two texts. The domain
raises `ServiceError` with a code; `app.http.errors` turns it into the response. Nothing here knows HTTP beyond the
status codes (docs/requests.md#errors).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

MAX_LISTED_ERRORS = 100

NO_PERMISSION = "You do not have permission to do this."
BAD_CREDENTIALS = "The authentication details are incorrect."
CHECK_VALUE = "Please check the details you entered."


@dataclass(frozen=True, slots=True)
class Code:
    """One row of the catalogue.

    `message` is for an end user. `developer_message` is for the integrator, and the default if the code that raises the
    error has no more specific text.
    """

    code: str
    status: int
    type: str
    message: str
    developer_message: str


def _family(type_: str, status: int, rows: Mapping[str, tuple[str, str]]) -> dict[str, Code]:
    return {code: Code(code, status, type_, *texts) for code, texts in rows.items()}


def _single(code: str, status: int, message: str, developer_message: str) -> dict[str, Code]:
    return {code: Code(code, status, code, message, developer_message)}


def _checked(rows: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Rows with the general end-user text."""
    return {code: (CHECK_VALUE, text) for code, text in rows.items()}


TYPE_LEVEL: dict[str, Code] = {
    **_single(
        "invalid_request",
        400,
        "The request could not be understood.",
        "The request is malformed. Send a JSON object in UTF-8 with the content type application/json.",
    ),
    **_single(
        "invalid_api_version",
        400,
        "This version of the API does not exist.",
        "This service does not have the version at the start of the path. Use /v1.",
    ),
    **_single(
        "api_key_missing",
        401,
        BAD_CREDENTIALS,
        "The Authorization header is missing. Send `Authorization: Bearer <API key>`.",
    ),
    **_single(
        "api_key_invalid",
        401,
        BAD_CREDENTIALS,
        "The Authorization header does not contain a key of this API: it must be `Bearer <API key>` with a key that "
        "exists, is not revoked and has no expiry date.",
    ),
    **_single(
        "ip_restricted",
        403,
        NO_PERMISSION,
        "The account accepts requests from certain networks only, and this address is not in any of them. Ask the "
        "operator to permit it.",
    ),
    **_single(
        "permission_denied",
        403,
        NO_PERMISSION,
        "The access level of this key does not include this operation. Use a key of a level that does.",
    ),
    **_single("ssl_required", 403, NO_PERMISSION, "This API answers over https only. Use its https URL."),
    **_single("not_found", 404, "This could not be found.", "Nothing exists at this path for this account."),
    **_single(
        "method_not_allowed",
        405,
        "This operation is not possible here.",
        "This path does not support the method. The Allow header lists the supported methods; OPTIONS returns it, too.",
    ),
    **_single(
        "conflict",
        409,
        "This conflicts with something that already exists.",
        "The request conflicts with the current state. `fields`, if present, names the object that already has the "
        "value.",
    ),
    **_single("validation_error", 422, CHECK_VALUE, "The request contains an invalid value."),
    **_single(
        "too_many_requests",
        429,
        "Too many requests. Please try again in a moment.",
        "The rate limit of this key is used up. Wait for as many seconds as Retry-After says.",
    ),
    **_single(
        "service_unavailable",
        503,
        "The service is busy or down. Please try again shortly.",
        "The request could not be completed. Retry it after as many seconds as Retry-After says; nothing was written.",
    ),
}

SCHEMA = _family(
    "validation_error",
    422,
    _checked(
        {
            "required": "A required field is missing.",
            "not_empty": "The value must not be empty.",
            "too_long": "The value has too many characters or elements.",
            "too_short": "The value has too few characters or elements.",
            "invalid_range": "The value must be between two bounds.",
            "invalid_string": "The value must be a string.",
            "invalid_boolean": "The value must be true or false.",
            "invalid_integer": "The value must be an integer.",
            "invalid_number": "The value must be a number.",
            "invalid_positive_number": "The value must be a number above zero.",
            "invalid_bitfield": "The value must be a valid combination of bits.",
            "invalid_array": "The value must be an array.",
            "invalid_object": "The value must be an object.",
            "invalid_collection": "The value must be a valid collection.",
            "invalid_id": "The account has nothing with this id.",
            "invalid_url": "The value must be an absolute http or https URL.",
            "invalid_iso_date_time": "The value must have the form YYYY-MM-DDTHH:MM:SS or YYYY-MM-DD.",
            "invalid_iso_date": "The value must have the form YYYY-MM-DD.",
            "invalid_date": "The value has the form of a date, but there is no such day.",
            "invalid_date_time": "The value has the form of a date and time, but there is no such moment.",
            "invalid_email_address": "The value must be an email address of at most 254 characters.",
            "invalid_mobile_address": "The value must be a mobile number in international format: 8 to 15 digits "
            "with the country code, without a leading plus or zero and without spaces.",
            "unexpected_field": "This field is not allowed here.",
        }
    ),
)

FILTER = _family(
    "invalid_request",
    400,
    _checked(
        {
            "invalid_time_zone": "_tz must be the name of an IANA time zone, such as Australia/Brisbane.",
            "parameter_not_supported": "This query parameter is not a filter of this resource.",
            "parameter_not_available": "This query parameter is not available for this method.",
            "invalid_operator": "The operator must be :ne or :in.",
            "invalid_query_syntax": "The value does not fit the type of the parameter.",
            "text_search_not_supported": "This resource has no text search, so `q` is not supported. Use its filters.",
            "invalid_order_by": "The order cannot be chosen: collections come newest first.",
            "invalid_limit": "limit must be an integer from 0 to 1000.",
            "invalid_offset": "offset must be an integer of 0 or more.",
            "invalid_filter_list": "The list must have 1 to 1000 non-empty elements, separated by commas.",
        }
    ),
)

CONTACTS = _family(
    "validation_error",
    422,
    _checked(
        {
            "field_email_not_in_list": "The list has no field of the type Email, so email cannot be written.",
            "field_mobile_not_in_list": "The list has no field of the type Mobile Phone, so mobile cannot be written.",
            "no_subscribed_addresses": "remove_unsubscribers left no contact to create: all are unsubscribed.",
            "list_not_mutable": "This is a system list; its contacts cannot be created, updated or deleted.",
            "cannot_reset_double_opt_in": "double_opt_in cannot be set to false once it is true.",
            "filter_id_required": "Name the contacts to delete, as in `?id=12` or `?id:in=12,13`.",
        }
    ),
)

SENDS = _family(
    "validation_error",
    422,
    _checked(
        {
            "email_address_missing": "A recipient of an email send needs email or contact_id.",
            "mobile_address_missing": "A recipient of an sms send needs mobile or contact_id.",
            "list_address_field_missing": "The list has no address field for this type of message. Use another "
            "list_id.",
            "content_missing": "No content: give body_html or body_text, or a message_id that has them.",
            "group_missing": "Give group_id or group_name.",
            "group_count_exceeded": "The account has the maximum number of transactional groups; use an existing one.",
            "invalid_attachment_name": "The name of an attachment has 1 to 255 letters, digits, spaces and . _ - ( ), "
            "does not begin with a dot and occurs once per recipient.",
            "invalid_attachment_extension": "The extension of the name does not fit the MIME type.",
            "invalid_attachment_content": "The content is not valid base64.",
            "account_owner_unverified": "The account owner's email address is not confirmed yet. Ask the operator "
            "to mark it as confirmed.",
            "recipient_destination_ambiguous": "A recipient names exactly one of contact_id, email and mobile.",
            "invalid_wildcard_name_characters": "A wildcard name can have only A-Z, a-z, 0-9 and underscore.",
            "invalid_wildcard_name_reserved": "This wildcard name is reserved.",
            "invalid_wildcard_name_too_long": "A wildcard name has at most 255 characters.",
            "invalid_wildcard_value_too_long": "A wildcard value has at most 10,000 characters.",
            "subject_empty": "Neither the request nor the message has a subject.",
            "from_name_required": "The message has no sender name saved, so from_name is needed.",
            "invalid_from_address": "The from address does not fit the type of the message.",
            "invalid_from_address_domain": "The domain of from_address is not configured in the account. Ask the "
            "operator to add it.",
            "invalid_reply_to_address": "reply_to must be an email address.",
            "invalid_bcc_address_domain": "The domain of bcc_address is not configured in the account. Ask the "
            "operator to add it.",
            "redundant_unsubscribe_type": "unsubscribe_type cannot be given together with message_id. Leave one of "
            "them out.",
            "unsubscribe_type_sender_mismatch": "word and link need a sender that is a virtual number. Use another "
            "from_address, or unsubscribe_type none.",
            "recipient_missing_list_id": "A recipient by contact_id needs list_id.",
            "from_address_invalid_list": "This sender is assigned to another list. Use another from_address, or "
            "that list.",
            "missing_stop_words": "body_text must contain a stop word of the list, or STOP.",
        }
    ),
)

CANCELLING = _family(
    "conflict",
    409,
    {
        "recipient_not_cancellable": (
            "This message can no longer be cancelled.",
            "The message can no longer be cancelled: it is being sent, may have been delivered, or has ended.",
        )
    },
)

CATALOGUE: dict[str, Code] = {**TYPE_LEVEL, **SCHEMA, **FILTER, **CONTACTS, **SENDS, **CANCELLING}
RANK = {code: rank for rank, code in enumerate(CATALOGUE)}


@dataclass(frozen=True, slots=True)
class FieldError:
    """One error of a request, located.

    `field` is the attribute's name, dotted for nested ones; `collection` and `index` name the array element that
    contains it; `detail`, if given, replaces the catalogue's developer message (docs/requests.md#errors).
    """

    code: str
    field: str | None = None
    collection: str | None = None
    index: int | None = None
    detail: str | None = None

    @property
    def developer_message(self) -> str:
        """The detail, else the text of the catalogue; it always contains the field."""
        text = self.detail or CATALOGUE[self.code].developer_message
        if self.field and self.field not in text:
            text = f"{self.field}: {text}"
        return text


class ServiceError(Exception):
    """A request that cannot be served, with one or more located errors; the first is the one reported.

    `conflict_fields` is the `fields` object of a conflict: attribute -> the object that has the value
    (docs/contacts.md#identifiers). `retry_after` is in seconds; `headers` are added to the response.
    """

    def __init__(
        self,
        code: str,
        *,
        field: str | None = None,
        collection: str | None = None,
        index: int | None = None,
        detail: str | None = None,
        conflict_fields: Mapping[str, Mapping[str, int]] | None = None,
        retry_after: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(code)
        self.errors: list[FieldError] = [FieldError(code, field, collection, index, detail)]
        self.conflict_fields = conflict_fields
        self.retry_after = retry_after
        self.headers: dict[str, str] = dict(headers or {})

    @classmethod
    def of(
        cls, errors: Sequence[FieldError], *, conflict_fields: Mapping[str, Mapping[str, int]] | None = None
    ) -> ServiceError:
        """One exception for all errors of a request, in the order in which they are reported."""
        made = cls(errors[0].code, conflict_fields=conflict_fields)
        made.errors = list(errors)
        return made

    def within(self, collection: str, index: int) -> ServiceError:
        """The same errors, of an element of an array."""
        return ServiceError.of([replace(error, collection=collection, index=index) for error in self.errors])

    @property
    def code(self) -> str:
        """The code of the first error."""
        return self.errors[0].code


def in_catalogue_order(errors: Iterable[FieldError]) -> list[FieldError]:
    """The errors of a request in the order of the catalogue (docs/send-errors.md#order-of-errors)."""
    return sorted(errors, key=lambda error: RANK[error.code])


@dataclass(slots=True)
class ErrorCollector:
    """Collects located errors, so that a response reports all of them (docs/requests.md#errors)."""

    errors: list[FieldError] = field(default_factory=list)

    def add(self, code: str, *, field: str | None = None, detail: str | None = None) -> None:
        self.errors.append(FieldError(code, field, detail=detail))

    def raise_any(self) -> None:
        """Raises `ServiceError` if there are errors."""
        if self.errors:
            raise ServiceError.of(self.errors)
