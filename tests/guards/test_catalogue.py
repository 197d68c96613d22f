"""The catalogue has every code with its status and type (docs/requests.md#errors)."""

from __future__ import annotations

from app.errors import CATALOGUE
from tests.support.cases import each

TYPE_LEVEL = {
    "invalid_request": 400,
    "invalid_api_version": 400,
    "api_key_missing": 401,
    "api_key_invalid": 401,
    "ip_restricted": 403,
    "permission_denied": 403,
    "ssl_required": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "conflict": 409,
    "validation_error": 422,
    "too_many_requests": 429,
    "service_unavailable": 503,
}
"""Codes whose type is the code itself."""

SCHEMA = [
    "required",
    "not_empty",
    "too_long",
    "too_short",
    "invalid_range",
    "invalid_string",
    "invalid_boolean",
    "invalid_integer",
    "invalid_number",
    "invalid_positive_number",
    "invalid_bitfield",
    "invalid_array",
    "invalid_object",
    "invalid_collection",
    "invalid_id",
    "invalid_url",
    "invalid_iso_date_time",
    "invalid_iso_date",
    "invalid_date",
    "invalid_date_time",
    "invalid_email_address",
    "invalid_mobile_address",
    "unexpected_field",
]
FILTER = [
    "invalid_time_zone",
    "parameter_not_supported",
    "parameter_not_available",
    "invalid_operator",
    "invalid_query_syntax",
    "text_search_not_supported",
    "invalid_order_by",
    "invalid_limit",
    "invalid_offset",
    "invalid_filter_list",
]
CONTACTS = [
    "field_email_not_in_list",
    "field_mobile_not_in_list",
    "no_subscribed_addresses",
    "list_not_mutable",
    "cannot_reset_double_opt_in",
    "filter_id_required",
]
SENDS = [
    "email_address_missing",
    "mobile_address_missing",
    "list_address_field_missing",
    "content_missing",
    "group_missing",
    "group_count_exceeded",
    "invalid_attachment_name",
    "invalid_attachment_extension",
    "invalid_attachment_content",
    "account_owner_unverified",
    "recipient_destination_ambiguous",
    "invalid_wildcard_name_characters",
    "invalid_wildcard_name_reserved",
    "invalid_wildcard_name_too_long",
    "invalid_wildcard_value_too_long",
    "subject_empty",
    "from_name_required",
    "invalid_from_address",
    "invalid_from_address_domain",
    "invalid_reply_to_address",
    "invalid_bcc_address_domain",
    "redundant_unsubscribe_type",
    "unsubscribe_type_sender_mismatch",
    "recipient_missing_list_id",
    "from_address_invalid_list",
    "missing_stop_words",
]

ADDITIONS = {"recipient_not_cancellable": (409, "conflict")}
"""Codes that the specification does not have (docs/requests.md#additions)."""
EXPECTED = {
    **{code: (status, code) for code, status in TYPE_LEVEL.items()},
    **ADDITIONS,
    **dict.fromkeys([*SCHEMA, *CONTACTS, *SENDS], (422, "validation_error")),
    **dict.fromkeys(FILTER, (400, "invalid_request")),
}


def test_every_code_has_its_status_and_type_and_there_is_no_other() -> None:
    assert {code: (row.status, row.type) for code, row in CATALOGUE.items()} == EXPECTED


def test_the_codes_of_sends_stand_in_the_documented_order() -> None:
    """If several rules are broken, the first one in the documented order is reported
    (docs/send-errors.md#order-of-errors)."""
    assert [code for code in CATALOGUE if code in SENDS] == SENDS


@each("code", sorted(CATALOGUE))
def test_every_code_has_both_texts(code: str) -> None:
    row = CATALOGUE[code]
    assert row.code == code
    for text in (row.message, row.developer_message):
        assert text.strip() == text
        assert text.endswith(".")


def test_texts_for_end_users_speak_of_no_internals() -> None:
    for row in CATALOGUE.values():
        assert "_" not in row.message, row.code
