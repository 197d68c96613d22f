"""Every error of the catalogue is explained, and says the next step as the reader's installation can do it
(docs/requests.md#errors)."""

from __future__ import annotations

import re

import click

from app.cli import group_of
from app.distribution import COMMAND_LINE
from app.error_help import HELP
from app.errors import CATALOGUE
from tests.support.cases import each
from tests.support.description import describe

NAMED: dict[str, tuple[str, ...]] = {
    "invalid_request": ("Content-Type: application/json", "/docs"),
    "invalid_api_version": ("`/v1`", "/docs"),
    "api_key_missing": ("Authorization: Bearer <key>", "GET /v1/"),
    "api_key_invalid": ("GET /v1/", "keys create"),
    "ip_restricted": ("accounts update", "--allow-network"),
    "permission_denied": ("access_token_scope", "GET /v1/", "keys create"),
    "ssl_required": ("https", "TRUSTED_PROXIES"),
    "not_found": ("GET /v1/lists", "`_links`", "/docs"),
    "method_not_allowed": ("Allow", "OPTIONS"),
    "conflict": ("`fields`", "Idempotency-Key", "`Retry-After`"),
    "validation_error": ("`field`", "`_embedded.errors`"),
    "too_many_requests": ("`Retry-After`", "accounts update", "--rate-limit"),
    "service_unavailable": ("`Retry-After`", "`Idempotency-Key`", "status"),
    "required": ("`list_id`", "GET /v1/lists", "`unsubscribe_type`"),
    "not_empty": ("element",),
    "too_long": ("divide",),
    "too_short": ("`developer_message`",),
    "invalid_range": ("`developer_message`",),
    "invalid_string": ("`developer_message`", "GET /docs/openapi.json"),
    "invalid_boolean": ("`true`", "`false`"),
    "invalid_integer": ("`12`", "GET /v1/lists"),
    "invalid_number": ("`1.5`", "`null`"),
    "invalid_positive_number": ("`0`",),
    "invalid_bitfield": ("`developer_message`",),
    "invalid_array": ("`[{…}]`",),
    "invalid_object": ("`{…}`", "`contacts`"),
    "invalid_collection": ("`developer_message`",),
    "invalid_id": ("GET /v1/lists", "GET /v1/messages", "GET /v1/transactional-groups"),
    "invalid_url": ("https://", "`null`"),
    "invalid_iso_date_time": ("`2026-01-31`", "`2026-01-31T10:00:00`"),
    "invalid_iso_date": ("`1990-01-31`",),
    "invalid_date": ("`1990-01-31`",),
    "invalid_date_time": ("`2026-01-31T10:00:00`",),
    "invalid_email_address": ("`ann@example.com`",),
    "invalid_mobile_address": ("`61491570156`",),
    "unexpected_field": ("`field`", "GET /docs/openapi.json"),
    "invalid_time_zone": ("`_tz`", "`Australia/Brisbane`"),
    "parameter_not_supported": ("`field`", "`developer_message`"),
    "parameter_not_available": ("GET /v1/lists",),
    "invalid_operator": ("`:ne`", "`:in`"),
    "invalid_query_syntax": ("`field`", "`cursor`"),
    "text_search_not_supported": ("GET /v1/lists?name=",),
    "invalid_order_by": ("`order_by`",),
    "invalid_limit": ("`limit`", "`_links.next`"),
    "invalid_offset": ("`offset`", "`_links.next`"),
    "invalid_filter_list": ("`id:in=12,13`",),
    "field_email_not_in_list": ("`email`", "GET /v1/lists", "lists add-field"),
    "field_mobile_not_in_list": ("`mobile`", "GET /v1/lists", "lists add-field"),
    "no_subscribed_addresses": ("`remove_unsubscribers=list`",),
    "list_not_mutable": ("GET /v1/lists", "contacts update"),
    "cannot_reset_double_opt_in": ("`double_opt_in`", "`subscribed`", "`is_active`"),
    "filter_id_required": ("`?id=12`", "`?id:in=12,13`"),
    "email_address_missing": ("`email`", "`contact_id`"),
    "mobile_address_missing": ("`mobile`", "`contact_id`"),
    "list_address_field_missing": ("`list_id`", "GET /v1/lists", "lists add-field"),
    "content_missing": ("`body_html`", "`body_text`", "`message_id`", "GET /v1/messages/{id}/content"),
    "group_missing": ("`group_name`", "`group_id`", "GET /v1/transactional-groups"),
    "group_count_exceeded": ("`group_id`", "GET /v1/transactional-groups", "MAX_GROUPS"),
    "invalid_attachment_name": ("`name`",),
    "invalid_attachment_extension": ("`name`", "`type`"),
    "invalid_attachment_content": ("base64", "`content`"),
    "account_owner_unverified": ("accounts update", "--owner-confirmed"),
    "recipient_destination_ambiguous": ("`contact_id`", "`email`", "`mobile`"),
    "invalid_wildcard_name_characters": ("`first_name`",),
    "invalid_wildcard_name_reserved": ("`customer_id`", "`contact_id`"),
    "invalid_wildcard_name_too_long": ("255",),
    "invalid_wildcard_value_too_long": ("`body_html`", "`attachments`"),
    "subject_empty": ("`subject`", "messages update", "GET /v1/messages/{id}"),
    "from_name_required": ("`from_name`", "messages update"),
    "invalid_from_address": ("`from_address`", "senders create", "accounts update", "--default-from-address"),
    "invalid_from_address_domain": ("`from_address`", "domains add", "domains verify", "console"),
    "invalid_reply_to_address": ("`reply_to`",),
    "invalid_bcc_address_domain": ("`bcc_address`", "domains add", "domains verify"),
    "redundant_unsubscribe_type": ("`unsubscribe_type`", "`message_id`", "`body_text`"),
    "unsubscribe_type_sender_mismatch": ("`unsubscribe_type`", "`from_address`", "senders create"),
    "recipient_missing_list_id": ("`list_id`", "GET /v1/lists"),
    "from_address_invalid_list": ("`from_address`", "`list_id`", "senders update"),
    "missing_stop_words": ("`body_text`", "`unsubscribe_type`"),
    "recipient_not_cancellable": ("deferred",),
}
"""Code -> what its next step must name: fields, endpoints, commands, settings, examples."""
COMMAND = re.compile(rf"`{re.escape(COMMAND_LINE)} ([^`]+)`")
ENDPOINT = re.compile(r"`(GET|POST|PATCH|DELETE) (/v1[^`?]*)")
OPTION = re.compile(r"--[a-z-]+")


def test_every_code_is_explained_and_has_a_row_that_says_what_its_next_step_names() -> None:
    assert list(HELP) == list(CATALOGUE)
    assert list(NAMED) == list(CATALOGUE)


@each("code", sorted(CATALOGUE))
def test_the_next_step_names_what_helps(code: str) -> None:
    assert [name for name in NAMED[code] if name not in HELP[code].remedy] == []


@each("code", sorted(CATALOGUE))
def test_the_texts_are_sentences_and_repeat_neither_each_other_nor_the_messages(code: str) -> None:
    texts = [*HELP[code], CATALOGUE[code].message, CATALOGUE[code].developer_message]
    assert len({text.casefold() for text in texts}) == len(texts)
    for text in HELP[code]:
        assert text[0].isupper() or text[0] in '`":'
        assert text.endswith((".", ")"))
        assert text.count("`") % 2 == 0


@each("code", sorted(CATALOGUE))
def test_commands_exist_and_are_for_the_operator(code: str) -> None:
    """Who calls the API can do nothing with them, and is told whom to ask."""
    for text in HELP[code]:
        for command in COMMAND.findall(text):
            assert "operator" in text
            words = command.split()
            group: click.Command = group_of(words[0]) if words[1:] else click.Command("status")
            if isinstance(group, click.Group):
                group = group.commands[words[1]]
            options = {option for parameter in group.params for option in (*parameter.opts, *parameter.secondary_opts)}
            assert set(OPTION.findall(command)) <= options, command


def test_endpoints_that_are_named_exist() -> None:
    described = {(method.upper(), path) for path, item in describe()["paths"].items() for method in item}
    endpoints = {("GET", "/v1/")} | {(method, re.sub(r"{[^}]*}", "{id}", path)) for method, path in described}
    named = {endpoint for texts in HELP.values() for text in texts for endpoint in ENDPOINT.findall(text)}
    assert named
    assert named - endpoints == set()
