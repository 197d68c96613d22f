"""The content of a send that refers to a message (docs/sending.md#with-a-message)."""

from __future__ import annotations

from typing import Any

from app.errors import ErrorCollector
from app.sends.accept.content import Content, SavedMessage, check_content, effective_content
from app.sends.accept.draft import SendDraft
from tests.support.cases import each

SAVED = SavedMessage("email", Content("Saved", "Acme", "a@acme.example", "r@acme.example", "<p>saved</p>", "saved"))
BLANK = SavedMessage("email", Content(None, None, None, None, None, None))


def draft(**values: Any) -> SendDraft:
    given = {**dict.fromkeys(SendDraft.__slots__), "type": "email", "recipients": (), "attachments": (), **values}
    return SendDraft(**given)


def errors(request: SendDraft, saved: SavedMessage | None) -> list[tuple[str, str | None]]:
    collector = ErrorCollector()
    check_content(request, saved, effective_content(request, saved), collector)
    return [(error.code, error.field) for error in collector.errors]


def test_the_message_supplies_what_the_request_omits() -> None:
    assert effective_content(draft(), SAVED) == SAVED.content


@each("name", Content.__slots__)
def test_each_field_of_the_request_overrides_its_own_default_only(name: str) -> None:
    given = effective_content(draft(**{name: "mine@acme.example"}), SAVED)
    expected = {name: getattr(effective_content(draft(), SAVED), name) for name in Content.__slots__}
    assert {name: getattr(given, name) for name in Content.__slots__} == {**expected, name: "mine@acme.example"}


def test_an_empty_text_removes_the_default() -> None:
    assert effective_content(draft(body_html="", subject=""), SAVED).body_html is None
    assert errors(draft(body_html=""), SAVED) == []
    assert errors(draft(subject=""), SAVED) == [("subject_empty", "subject")]
    assert errors(draft(body_html="", body_text=""), SAVED) == [("content_missing", "body_html")]


def test_a_text_message_has_a_sender_and_a_body_only() -> None:
    saved = SavedMessage("sms", Content("x", "x", "61400000001", "x", "x", "Hi. STOP"))
    assert effective_content(draft(type="sms"), saved) == Content(None, None, "61400000001", None, None, "Hi. STOP")
    assert errors(draft(type="sms"), saved) == []
    assert errors(draft(type="sms"), None) == [("content_missing", "body_text")]


def test_missing_content_is_reported() -> None:
    assert errors(draft(), None) == [("content_missing", "body_html"), ("subject_empty", "subject")]
    assert errors(draft(subject="x", body_text="x"), None) == []
    assert errors(draft(subject="x", body_text="x"), BLANK) == [("from_name_required", "from_name")]
    assert errors(draft(subject="x", body_text="x", from_name="Ann"), BLANK) == []


def test_reply_to_must_be_an_email_address() -> None:
    given = {"subject": "x", "body_text": "x"}
    assert errors(draft(**given, reply_to="nope"), None) == [("invalid_reply_to_address", "reply_to")]
    assert errors(draft(**given, reply_to="a@b.example"), None) == []
