"""What the specification of the API has, as plain data: everything else that the API offers is an addition
(docs/requests.md#additions).

Ids in paths are written as `{}`. List fields, which differ from list to list, are left out.
"""

from __future__ import annotations

from typing import NamedTuple


class Endpoint(NamedTuple):
    """What a request may have, and what its answer has; links are `_links.name`, what is embedded `_embedded.name`."""

    statuses: frozenset[str]
    query: frozenset[str] = frozenset()
    body: frozenset[str] = frozenset()
    answer: frozenset[str] = frozenset()


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _endpoint(statuses: str, query: str = "", body: str = "", answer: str = "") -> Endpoint:
    return Endpoint(*map(_names, (statuses, query, body, answer)))


COMMON = "fields _tz"
"""Query parameters of everything that is read."""
PAGED = f"{COMMON} limit offset expand"
ENVELOPE = "offset limit size _links _links.self _embedded"
LIST = "id name creation_time last_modified_time"
LIST_ANSWER = f"{LIST} _links _links.self _links.contacts _embedded _embedded.contacts"
WRITTEN = "email mobile subscribed subscribed.email subscribed.mobile is_active double_opt_in"
CONTACT_FILTERS = "id email mobile creation_time last_modified_time is_active double_opt_in double_opt_in_time"
CONTACT = (
    f"{WRITTEN} id list_id creation_time last_modified_time blocked blocked.email blocked.mobile double_opt_in_time "
    "_links _links.self _links.list"
)
MESSAGE = "id type name subject from_name from_address reply_to thumbnail_url creation_time last_modified_time"
CONTENT = "message_id body_html body_text"
MESSAGE_ANSWER = (
    f"{MESSAGE} {CONTENT} _links _links.self _links.content _links.message _embedded _embedded.content "
    "_embedded.message"
)
SENT_CONTACT = "contact_id list_id send_time report_id first_open_time last_open_time open_type"
GROUP = "id name creation_time last_sent_time sent failed_contacts bounced delivered opened clicked unsubscribed type"
ATTACHMENT = "attachments attachments[].type attachments[].name attachments[].content"
SEND = (
    "type list_id group_id group_name message_id unsubscribe_type subject from_name from_address reply_to bcc_address "
    "body_html body_text include_unsubscribed recipient_data_html_encoded recipients recipients[].contact_id "
    "recipients[].email recipients[].mobile recipients[].attachments recipients[].attachments[].type "
    f"recipients[].attachments[].name recipients[].attachments[].content {ATTACHMENT}"
)
MANY = " ".join(["contacts", *(f"contacts[].{name}" for name in WRITTEN.split())])
CONTACTS = "/v1/lists/{}/contacts"

ENDPOINTS: dict[tuple[str, str], Endpoint] = {
    ("GET", "/v1"): _endpoint(
        "200",
        answer="access_token_scope access_token_creation_time access_token_expiry_time _links _links.self "
        "_links.lists _links.messages _links.transactional_groups",
    ),
    ("GET", "/v1/lists"): _endpoint(
        "200", f"{PAGED} {LIST}", answer=f"{ENVELOPE} {LIST_ANSWER} {CONTACT} _embedded.lists"
    ),
    ("GET", "/v1/lists/{}"): _endpoint("200", f"{COMMON} expand", answer=f"{ENVELOPE} {LIST_ANSWER} {CONTACT}"),
    ("GET", CONTACTS): _endpoint(
        "200", f"{PAGED} {CONTACT_FILTERS}", answer=f"{ENVELOPE} {CONTACT} _embedded.contacts"
    ),
    ("POST", CONTACTS): _endpoint("201 204", "remove_unsubscribers", f"{WRITTEN} {MANY}", CONTACT),
    ("PATCH", CONTACTS): _endpoint("204", body=f"{MANY} contacts[].id"),
    ("DELETE", CONTACTS): _endpoint("204", "id"),
    ("GET", f"{CONTACTS}/{{}}"): _endpoint("200", COMMON, answer=CONTACT),
    ("PATCH", f"{CONTACTS}/{{}}"): _endpoint("200", body=WRITTEN, answer=CONTACT),
    ("DELETE", f"{CONTACTS}/{{}}"): _endpoint("204"),
    ("GET", "/v1/messages"): _endpoint(
        "200", f"{PAGED} {MESSAGE}", answer=f"{ENVELOPE} {MESSAGE_ANSWER} _embedded.messages"
    ),
    ("GET", "/v1/messages/{}"): _endpoint("200", f"{COMMON} expand", answer=MESSAGE_ANSWER),
    ("GET", "/v1/messages/{}/content"): _endpoint("200", f"{COMMON} expand", answer=MESSAGE_ANSWER),
    ("GET", "/v1/messages/{}/sent-contacts"): _endpoint(
        "200",
        f"{PAGED} {SENT_CONTACT}",
        answer=f"{ENVELOPE} {SENT_CONTACT} _links.list _links.contact _embedded.sent-contacts",
    ),
    ("POST", "/v1/transactional-sends"): _endpoint(
        "202", body=SEND, answer="_embedded _embedded.recipients uuid _links _links.self"
    ),
    ("GET", "/v1/transactional-groups"): _endpoint(
        "200", f"{PAGED} {GROUP}", answer=f"{ENVELOPE} {GROUP} _embedded.transactional-groups"
    ),
    ("GET", "/v1/transactional-groups/{}"): _endpoint("200", COMMON, answer=f"{GROUP} _links _links.self"),
}

ERROR = _names(
    "id method status type code message developer_message field collection index timestamp fields _links _links.self "
    "_links.error"
)
"""Properties of the body of an error."""
HEADERS = frozenset({"content-type"})
"""Headers of answers that are named."""
TYPE_CODES = _names(
    "invalid_request invalid_api_version api_key_missing api_key_invalid ip_restricted permission_denied ssl_required "
    "not_found method_not_allowed conflict validation_error too_many_requests service_unavailable"
)
CODES = TYPE_CODES | _names(
    "required not_empty too_long too_short invalid_range invalid_string invalid_boolean invalid_integer invalid_number "
    "invalid_positive_number invalid_bitfield invalid_array invalid_object invalid_collection invalid_id invalid_url "
    "invalid_iso_date_time invalid_iso_date invalid_date invalid_date_time invalid_email_address "
    "invalid_mobile_address unexpected_field invalid_time_zone parameter_not_supported parameter_not_available "
    "invalid_operator invalid_query_syntax text_search_not_supported invalid_order_by invalid_limit invalid_offset "
    "invalid_filter_list field_email_not_in_list field_mobile_not_in_list no_subscribed_addresses list_not_mutable "
    "cannot_reset_double_opt_in filter_id_required email_address_missing mobile_address_missing "
    "list_address_field_missing content_missing group_missing group_count_exceeded invalid_attachment_name "
    "invalid_attachment_extension invalid_attachment_content account_owner_unverified recipient_destination_ambiguous "
    "invalid_wildcard_name_characters invalid_wildcard_name_reserved invalid_wildcard_name_too_long "
    "invalid_wildcard_value_too_long subject_empty from_name_required invalid_from_address invalid_from_address_domain "
    "invalid_reply_to_address invalid_bcc_address_domain redundant_unsubscribe_type unsubscribe_type_sender_mismatch "
    "recipient_missing_list_id from_address_invalid_list missing_stop_words"
)
LEVELS = frozenset({"report", "limited", "standard"})
SCOPES = frozenset(
    {"list.view", "contact.view", "contact.create", "message.view", "send.email", "send.sms", "report.view"}
)

_RECIPIENT_FIELDS = (
    "object event id timestamp automation_id step_id uuid group_id group_name report_id message_id message_type "
    "list_id contact_id email mobile"
)
EVENTS: dict[str, frozenset[str]] = {
    "contact": frozenset({"created", "updated", "deleted"}),
    "recipient": frozenset({"sent", "opened", "clicked", "bounced", "failed", "acknowledged"}),
    "sms": frozenset({"received"}),
}
"""Object of an event -> its events."""
EVENT_FIELDS: dict[str, frozenset[str]] = {
    "contact": _names("object event id list_id timestamp"),
    "recipient": _names(
        f"{_RECIPIENT_FIELDS} device_type device_name country_code link_url link_type bounce_reason bounce_string "
        "is_temporary_bounce fail_reason"
    ),
    "sms": _names(f"{_RECIPIENT_FIELDS} body_text"),
}
