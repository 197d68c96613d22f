"""Rules over several attributes of a send's body (docs/sending.md#recipients)."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.errors import CATALOGUE, ServiceError
from app.sends.accept.draft import (
    DESTINATIONS,
    WILDCARD_NAME,
    AttachmentDraft,
    Limits,
    MessageType,
    RecipientRules,
    SendDraft,
    attachment_errors,
    send_errors,
)
from schemas.sends import load_send
from tests.support.cases import each

LIMITS = Limits(attachments=3, attachment_bytes=10)
EMAIL = RecipientRules("email", with_list=True, allow_html_marker=False)
SMS = RecipientRules("sms", with_list=False, allow_html_marker=False)


def codes_and_paths(violations: Any) -> list[tuple[Any, ...]]:
    """(code, path…) of each violation."""
    return [(violation.code, *violation.path) for violation in violations]


# ---------------------------------------------------------------------------------------------- destinations


@each(
    ("rules", "recipient", "expected"),
    [
        (EMAIL, {"email": "a@b.example"}, []),
        (EMAIL, {"contact_id": 1}, []),
        (EMAIL, {"email": "a@b.example", "mobile": None, "contact_id": None}, []),
        (EMAIL, {}, [("email_address_missing", "email")]),
        (EMAIL, {"mobile": "6"}, [("email_address_missing", "email")]),
        (EMAIL, {"mobile": "6", "email": "a"}, [("recipient_destination_ambiguous", "email")]),
        (EMAIL, {"contact_id": 1, "mobile": "6", "email": "a"}, [("recipient_destination_ambiguous", "mobile")]),
        (SMS, {"mobile": "6"}, []),
        (SMS, {"email": "a"}, [("mobile_address_missing", "mobile")]),
        (SMS, {"contact_id": 1}, [("recipient_missing_list_id", "contact_id")]),
        (SMS, {"contact_id": 1, "mobile": "6"}, [("recipient_destination_ambiguous", "mobile")]),
    ],
)
def test_destinations_of_a_recipient(rules: RecipientRules, recipient: dict[str, Any], expected: list[Any]) -> None:
    assert codes_and_paths(rules.errors(recipient)) == expected


def test_nothing_is_checked_while_the_type_is_unknown() -> None:
    rules = RecipientRules(None, with_list=False, allow_html_marker=False)
    assert codes_and_paths(rules.errors({})) == codes_and_paths(rules.errors({"attachments": []})) == []
    assert codes_and_paths(send_errors({"subject": "x", "message_id": 1, "unsubscribe_type": "word"}, None)) == []


@given(st.dictionaries(st.sampled_from(DESTINATIONS), st.sampled_from([1, "a", "", None])))
def test_a_valid_recipient_has_exactly_one_destination(recipient: dict[str, Any]) -> None:
    named = [name for name, value in recipient.items() if value not in (None, "")]
    for rules, kind in ((EMAIL, "email"), (SMS, "mobile")):
        passes = not list(rules.errors(recipient))
        allowed = {kind, "contact_id"} if rules.with_list else {kind}
        assert passes == (len(named) == 1 and named[0] in allowed)


# ---------------------------------------------------------------------------------------------- wildcards


@each(
    ("name", "with_list", "allow_html_marker", "code"),
    [
        ("Name_1", True, False, None),
        ("_", True, False, None),
        ("#v", True, True, None),
        ("#v", True, False, "invalid_wildcard_name_characters"),
        ("##v", True, True, "invalid_wildcard_name_characters"),
        ("#", True, True, "invalid_wildcard_name_characters"),
        ("v#", True, True, "invalid_wildcard_name_characters"),
        ("a b", True, False, "invalid_wildcard_name_characters"),
        ("ä", True, False, "invalid_wildcard_name_characters"),
        ("a\n", True, False, "invalid_wildcard_name_characters"),
        ("id", True, False, "invalid_wildcard_name_reserved"),
        ("#Id", True, True, "invalid_wildcard_name_reserved"),
        ("id", False, False, None),
        ("x" * 255, True, False, None),
        ("#" + "x" * 255, True, True, None),
        ("x" * 256, True, False, "invalid_wildcard_name_too_long"),
    ],
)
def test_names_of_wildcards(name: str, with_list: bool, allow_html_marker: bool, code: str | None) -> None:
    violation = RecipientRules("email", with_list, allow_html_marker).wildcard_error(name, "x")
    assert (violation and violation.code) == code


@each(
    ("value", "code"),
    [
        (None, None),
        ("", None),
        (0, None),
        (-1.5, None),
        ("x" * 10_000, None),
        ("x" * 10_001, "invalid_wildcard_value_too_long"),
        ("\x00", "invalid_string"),
        (False, "invalid_string"),
        ([], "invalid_string"),
        ({}, "invalid_string"),
    ],
)
def test_values_of_wildcards(value: Any, code: str | None) -> None:
    violation = EMAIL.wildcard_error("v", value)
    assert (violation and violation.code) == code


@given(st.text())
def test_a_wildcard_name_has_the_allowed_characters(name: str) -> None:
    violation = SMS.wildcard_error(name, "x")
    assert (violation is None) == (WILDCARD_NAME.fullmatch(name) is not None and len(name) <= 255)


def test_hash_names_require_plain_values_of_an_email() -> None:
    plain = {"recipient_data_html_encoded": False}
    assert RecipientRules.of(plain, "email").allow_html_marker
    for body, type_ in ((plain, "sms"), ({"recipient_data_html_encoded": True}, "email"), ({}, "email")):
        assert not RecipientRules.of(body, type_).allow_html_marker  # type: ignore[arg-type]


# ---------------------------------------------------------------------------------------------- attachments


def a(name: str, size: int = 1) -> AttachmentDraft:
    return AttachmentDraft(name, "text/plain", bytes(size))


@each(
    ("shared", "files_by_recipient", "expected"),
    [
        ([], [], []),
        ([a("x"), a("y"), a("z")], [[]], []),
        ([a("x", 10)], [[a("y", 0)], [a("y", 0)]], []),
        ([a("x"), a("x")], [], [("invalid_attachment_name", "attachments", 1, "name")]),
        ([a("x"), a("X")], [], []),
        ([a("x")], [[], [a("x")]], [("invalid_attachment_name", "recipients", 1, "attachments", 0, "name")]),
        ([], [[a("x"), a("x")]], [("invalid_attachment_name", "recipients", 0, "attachments", 1, "name")]),
        ([a("w"), a("x"), a("y"), a("z")], [[a("v")]], [("too_long", "attachments")]),
        ([a("x"), a("y"), a("z")], [[], [a("v")]], [("too_long", "recipients", 1, "attachments")]),
        ([a("x", 11)], [[a("y")]], [("too_long", "attachments")]),
        ([a("x", 10)], [[a("y")], []], [("too_long", "recipients", 0, "attachments")]),
    ],
)
def test_attachments(
    shared: list[AttachmentDraft], files_by_recipient: list[list[AttachmentDraft]], expected: list[Any]
) -> None:
    assert codes_and_paths(attachment_errors(shared, files_by_recipient, LIMITS)) == expected


# ---------------------------------------------------------------------------------------------- whole bodies

NAMES = st.sampled_from(
    [
        *("type", "list_id", "group_id", "group_name", "message_id", "unsubscribe_type", "subject", "from_name"),
        *("from_address", "reply_to", "bcc_address", "body_html", "body_text", "include_unsubscribed"),
        *("recipient_data_html_encoded", "recipients", "attachments", "email", "mobile", "contact_id", "name"),
        *("content", "_schema", "#v", "v", "secret_values"),
    ]
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.sampled_from(["email", "sms", "word", "a@b.example", "61411111111", "YQ==", "a.txt", "text/plain"]),
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | st.text(max_size=5), inner, max_size=6),
    max_leaves=25,
)


def loaded(body: dict[str, Any], final_type: MessageType | None) -> SendDraft | ServiceError:
    try:
        return load_send(body, final_type, LIMITS)
    except ServiceError as error:
        return error


@given(st.dictionaries(NAMES, JSON, max_size=12), st.sampled_from(["email", "sms", None]))
def test_any_body_is_accepted_or_refused_with_codes_of_the_catalogue(body: dict[str, Any], final_type: Any) -> None:
    outcome = loaded(body, final_type)
    if isinstance(outcome, SendDraft):
        assert 1 <= len(outcome.recipients) <= 100
        assert outcome.type == (final_type or body["type"])
    else:
        assert outcome.errors
        for error in outcome.errors:
            assert CATALOGUE[error.code].status == 422
            assert (error.collection is None) == (error.index is None)
